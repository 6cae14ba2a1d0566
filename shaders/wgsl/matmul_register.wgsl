// matmul_register: out = epilogue(a @ b), batched; a thread computes 8 x 8 results from global memory alone, a workgroup WORKGROUP_Y x WORKGROUP_X such parts.
//
// For adapters that a CPU plays: no workgroup memory and no barriers, everything in named registers, because naga neither
// unrolls loops nor keeps indexed private arrays out of memory. Rows of a and of b are read by vec4: their columns lie
// next to each other and every offset and stride is a multiple of 4 (the planner copies what is not so). Columns past
// the end of a row may be anything: they touch no result.

struct Params {
    m: u32, k: u32, n: u32,
    a_offset: u32, a_batch: u32, a_row: u32, a_column: u32,
    b_offset: u32, b_batch: u32, b_row: u32, b_column: u32,
    out_offset: u32, out_batch: u32, out_row: u32, out_column: u32,
}

@group(0) @binding(0) var<storage, read_write> a: array<vec4<T>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<T>>;
@group(0) @binding(2) var<storage, read_write> out: array<T>;
@group(0) @binding(PARAMS) var<uniform> params: Params;

fn store(place: u32, batch_row: u32, row: u32, column: u32, value: vec4<ACC>) {
    // Up to four results of one row; `batch_row` counts the rows of the matrices before this one.
    if (row >= params.m) { return; }
    let left = params.n - min(column, params.n);
    let step = params.out_column;
    if (left > 0u) { out[place] = T(epilogue(value.x, batch_row + row, column)); }
    if (left > 1u) { out[place + step] = T(epilogue(value.y, batch_row + row, column + 1u)); }
    if (left > 2u) { out[place + 2u * step] = T(epilogue(value.z, batch_row + row, column + 2u)); }
    if (left > 3u) { out[place + 3u * step] = T(epilogue(value.w, batch_row + row, column + 3u)); }
}

@compute @workgroup_size(WORKGROUP_X, WORKGROUP_Y, WORKGROUP_Z)
fn atlas_matmul_register(@builtin(global_invocation_id) position: vec3<u32>) {
    let row = position.y * 8u;
    let column = position.x * 8u;
    if (row >= params.m || column >= params.n) { return; }

    // Where the 8 rows of a begin, in vec4s; rows past the end repeat the last one.
    let a_start = params.a_offset + position.z * params.a_batch;
    let last = params.m - 1u;
    var a0_place = (a_start + min(row + 0u, last) * params.a_row) / 4u;
    var a1_place = (a_start + min(row + 1u, last) * params.a_row) / 4u;
    var a2_place = (a_start + min(row + 2u, last) * params.a_row) / 4u;
    var a3_place = (a_start + min(row + 3u, last) * params.a_row) / 4u;
    var a4_place = (a_start + min(row + 4u, last) * params.a_row) / 4u;
    var a5_place = (a_start + min(row + 5u, last) * params.a_row) / 4u;
    var a6_place = (a_start + min(row + 6u, last) * params.a_row) / 4u;
    var a7_place = (a_start + min(row + 7u, last) * params.a_row) / 4u;
    let b_row = params.b_row / 4u;
    var b_place = (params.b_offset + position.z * params.b_batch + column) / 4u;
    // The second four columns; where there are none, the first again.
    let b_next = select(0u, 1u, column + 4u < params.n);

    var c00 = vec4<ACC>(); var c01 = vec4<ACC>();
    var c10 = vec4<ACC>(); var c11 = vec4<ACC>();
    var c20 = vec4<ACC>(); var c21 = vec4<ACC>();
    var c30 = vec4<ACC>(); var c31 = vec4<ACC>();
    var c40 = vec4<ACC>(); var c41 = vec4<ACC>();
    var c50 = vec4<ACC>(); var c51 = vec4<ACC>();
    var c60 = vec4<ACC>(); var c61 = vec4<ACC>();
    var c70 = vec4<ACC>(); var c71 = vec4<ACC>();

    // Four steps along k a turn: one vec4 of each row of a, two of each row of b.
    let quads = params.k / 4u;
    for (var q = 0u; q < quads; q++) {
        let a0 = vec4<ACC>(a[a0_place]);
        let a1 = vec4<ACC>(a[a1_place]);
        let a2 = vec4<ACC>(a[a2_place]);
        let a3 = vec4<ACC>(a[a3_place]);
        let a4 = vec4<ACC>(a[a4_place]);
        let a5 = vec4<ACC>(a[a5_place]);
        let a6 = vec4<ACC>(a[a6_place]);
        let a7 = vec4<ACC>(a[a7_place]);
        let b00 = vec4<ACC>(b[b_place]); let b01 = vec4<ACC>(b[b_place + b_next]);
        b_place += b_row;
        let b10 = vec4<ACC>(b[b_place]); let b11 = vec4<ACC>(b[b_place + b_next]);
        b_place += b_row;
        let b20 = vec4<ACC>(b[b_place]); let b21 = vec4<ACC>(b[b_place + b_next]);
        b_place += b_row;
        let b30 = vec4<ACC>(b[b_place]); let b31 = vec4<ACC>(b[b_place + b_next]);
        b_place += b_row;
        c00 = vec4<ACC>(a0.x) * b00 + c00; c01 = vec4<ACC>(a0.x) * b01 + c01;
        c10 = vec4<ACC>(a1.x) * b00 + c10; c11 = vec4<ACC>(a1.x) * b01 + c11;
        c20 = vec4<ACC>(a2.x) * b00 + c20; c21 = vec4<ACC>(a2.x) * b01 + c21;
        c30 = vec4<ACC>(a3.x) * b00 + c30; c31 = vec4<ACC>(a3.x) * b01 + c31;
        c40 = vec4<ACC>(a4.x) * b00 + c40; c41 = vec4<ACC>(a4.x) * b01 + c41;
        c50 = vec4<ACC>(a5.x) * b00 + c50; c51 = vec4<ACC>(a5.x) * b01 + c51;
        c60 = vec4<ACC>(a6.x) * b00 + c60; c61 = vec4<ACC>(a6.x) * b01 + c61;
        c70 = vec4<ACC>(a7.x) * b00 + c70; c71 = vec4<ACC>(a7.x) * b01 + c71;
        c00 = vec4<ACC>(a0.y) * b10 + c00; c01 = vec4<ACC>(a0.y) * b11 + c01;
        c10 = vec4<ACC>(a1.y) * b10 + c10; c11 = vec4<ACC>(a1.y) * b11 + c11;
        c20 = vec4<ACC>(a2.y) * b10 + c20; c21 = vec4<ACC>(a2.y) * b11 + c21;
        c30 = vec4<ACC>(a3.y) * b10 + c30; c31 = vec4<ACC>(a3.y) * b11 + c31;
        c40 = vec4<ACC>(a4.y) * b10 + c40; c41 = vec4<ACC>(a4.y) * b11 + c41;
        c50 = vec4<ACC>(a5.y) * b10 + c50; c51 = vec4<ACC>(a5.y) * b11 + c51;
        c60 = vec4<ACC>(a6.y) * b10 + c60; c61 = vec4<ACC>(a6.y) * b11 + c61;
        c70 = vec4<ACC>(a7.y) * b10 + c70; c71 = vec4<ACC>(a7.y) * b11 + c71;
        c00 = vec4<ACC>(a0.z) * b20 + c00; c01 = vec4<ACC>(a0.z) * b21 + c01;
        c10 = vec4<ACC>(a1.z) * b20 + c10; c11 = vec4<ACC>(a1.z) * b21 + c11;
        c20 = vec4<ACC>(a2.z) * b20 + c20; c21 = vec4<ACC>(a2.z) * b21 + c21;
        c30 = vec4<ACC>(a3.z) * b20 + c30; c31 = vec4<ACC>(a3.z) * b21 + c31;
        c40 = vec4<ACC>(a4.z) * b20 + c40; c41 = vec4<ACC>(a4.z) * b21 + c41;
        c50 = vec4<ACC>(a5.z) * b20 + c50; c51 = vec4<ACC>(a5.z) * b21 + c51;
        c60 = vec4<ACC>(a6.z) * b20 + c60; c61 = vec4<ACC>(a6.z) * b21 + c61;
        c70 = vec4<ACC>(a7.z) * b20 + c70; c71 = vec4<ACC>(a7.z) * b21 + c71;
        c00 = vec4<ACC>(a0.w) * b30 + c00; c01 = vec4<ACC>(a0.w) * b31 + c01;
        c10 = vec4<ACC>(a1.w) * b30 + c10; c11 = vec4<ACC>(a1.w) * b31 + c11;
        c20 = vec4<ACC>(a2.w) * b30 + c20; c21 = vec4<ACC>(a2.w) * b31 + c21;
        c30 = vec4<ACC>(a3.w) * b30 + c30; c31 = vec4<ACC>(a3.w) * b31 + c31;
        c40 = vec4<ACC>(a4.w) * b30 + c40; c41 = vec4<ACC>(a4.w) * b31 + c41;
        c50 = vec4<ACC>(a5.w) * b30 + c50; c51 = vec4<ACC>(a5.w) * b31 + c51;
        c60 = vec4<ACC>(a6.w) * b30 + c60; c61 = vec4<ACC>(a6.w) * b31 + c61;
        c70 = vec4<ACC>(a7.w) * b30 + c70; c71 = vec4<ACC>(a7.w) * b31 + c71;
        a0_place++; a1_place++; a2_place++; a3_place++; a4_place++; a5_place++; a6_place++; a7_place++;
    }

    // The last up to three steps.
    for (var q = 0u; q < (params.k & 3u); q++) {
        let b0 = vec4<ACC>(b[b_place]);
        let b1 = vec4<ACC>(b[b_place + b_next]);
        b_place += b_row;
        let s0 = vec4<ACC>(ACC(a[a0_place][q]));
        c00 = s0 * b0 + c00; c01 = s0 * b1 + c01;
        let s1 = vec4<ACC>(ACC(a[a1_place][q]));
        c10 = s1 * b0 + c10; c11 = s1 * b1 + c11;
        let s2 = vec4<ACC>(ACC(a[a2_place][q]));
        c20 = s2 * b0 + c20; c21 = s2 * b1 + c21;
        let s3 = vec4<ACC>(ACC(a[a3_place][q]));
        c30 = s3 * b0 + c30; c31 = s3 * b1 + c31;
        let s4 = vec4<ACC>(ACC(a[a4_place][q]));
        c40 = s4 * b0 + c40; c41 = s4 * b1 + c41;
        let s5 = vec4<ACC>(ACC(a[a5_place][q]));
        c50 = s5 * b0 + c50; c51 = s5 * b1 + c51;
        let s6 = vec4<ACC>(ACC(a[a6_place][q]));
        c60 = s6 * b0 + c60; c61 = s6 * b1 + c61;
        let s7 = vec4<ACC>(ACC(a[a7_place][q]));
        c70 = s7 * b0 + c70; c71 = s7 * b1 + c71;
    }

    let place = params.out_offset + position.z * params.out_batch + row * params.out_row + column * params.out_column;
    let half = 4u * params.out_column;
    let batch_row = position.z * params.m;
    store(place, batch_row, row + 0u, column, c00); store(place + half, batch_row, row + 0u, column + 4u, c01);
    store(place + 1u * params.out_row, batch_row, row + 1u, column, c10); store(place + 1u * params.out_row + half, batch_row, row + 1u, column + 4u, c11);
    store(place + 2u * params.out_row, batch_row, row + 2u, column, c20); store(place + 2u * params.out_row + half, batch_row, row + 2u, column + 4u, c21);
    store(place + 3u * params.out_row, batch_row, row + 3u, column, c30); store(place + 3u * params.out_row + half, batch_row, row + 3u, column + 4u, c31);
    store(place + 4u * params.out_row, batch_row, row + 4u, column, c40); store(place + 4u * params.out_row + half, batch_row, row + 4u, column + 4u, c41);
    store(place + 5u * params.out_row, batch_row, row + 5u, column, c50); store(place + 5u * params.out_row + half, batch_row, row + 5u, column + 4u, c51);
    store(place + 6u * params.out_row, batch_row, row + 6u, column, c60); store(place + 6u * params.out_row + half, batch_row, row + 6u, column + 4u, c61);
    store(place + 7u * params.out_row, batch_row, row + 7u, column, c70); store(place + 7u * params.out_row + half, batch_row, row + 7u, column + 4u, c71);
}
