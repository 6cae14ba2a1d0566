// matmul_subgroup: out = epilogue(a @ b), batched; a subgroup computes ROWS x (4 SUBGROUP) results in registers, a thread ROWS x 4 of them.
//
// For adapters that a CPU plays: a thread is a lane of a SIMD register there. Loads are dear, as they go lane by lane, while
// exchanging values between lanes costs next to nothing. So the lanes of a subgroup share rows of a: lane i loads rows 4 i to
// 4 i + 3 of the tile, and every lane gets them by broadcasts; a lane has four columns of b of its own.
// Operands are read by vec4, as they lie: along k (A_ALONG_K, B_ALONG_K) or across it. Offsets and strides across are
// multiples of 4 (the planner copies what is not so); what lies past the end of a line may be anything, it touches no
// result: where k is no multiple of 4 (RAGGED), what lies past it is replaced by 0.

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

// One row of the tile and four steps along k: `left` are its elements of a, the columns of `right` lie along n.
fn multiplied(sum: vec4<ACC>, left: vec4<ACC>, right: mat4x4<ACC>) -> vec4<ACC> {
    return left.w * right[3] + (left.z * right[2] + (left.y * right[1] + (left.x * right[0] + sum)));
}

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
fn atlas_matmul_subgroup(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread_index: u32,
    @builtin(subgroup_invocation_id) lane: u32) {
    // No thread may leave: the others need its rows of a.
    let first_row = (group.y * (WORKGROUP_X / SUBGROUP) + thread_index / SUBGROUP) * ROWS;
    let column = (group.x * SUBGROUP + lane) * 4u;

    // Where four lines of a and of b begin, in vec4s; those past the end repeat the last one.
    let own_row = first_row + (lane * 4u) % ROWS;
    let last_row = params.m - 1u;
    let last_column = params.n - 1u;
    let a_start = params.a_offset + group.z * params.a_batch;
    let b_start = params.b_offset + group.z * params.b_batch;
    var a_turn = 1u;
    var a_place = vec4<u32>(
        min(own_row, last_row), min(own_row + 1u, last_row),
        min(own_row + 2u, last_row), min(own_row + 3u, last_row)) * params.a_row;
    if (!A_ALONG_K) {
        a_turn = params.a_column;
        a_place = vec4<u32>(0u, 1u, 2u, 3u) * params.a_column + min(own_row, last_row & 0xFFFFFFFCu);
    }
    a_place = (a_place + a_start) / 4u;
    var b_turn = 1u;
    var b_place = vec4<u32>(
        min(column, last_column), min(column + 1u, last_column),
        min(column + 2u, last_column), min(column + 3u, last_column)) * params.b_column;
    if (!B_ALONG_K) {
        b_turn = params.b_row;
        b_place = vec4<u32>(0u, 1u, 2u, 3u) * params.b_row + min(column, last_column & 0xFFFFFFFCu);
    }
    b_place = (b_place + b_start) / 4u;

    // c{row}: four columns of one row.
    var c0 = vec4<ACC>(); var c1 = vec4<ACC>(); var c2 = vec4<ACC>(); var c3 = vec4<ACC>();
    var c4 = vec4<ACC>(); var c5 = vec4<ACC>(); var c6 = vec4<ACC>(); var c7 = vec4<ACC>();
    var c8 = vec4<ACC>(); var c9 = vec4<ACC>(); var c10 = vec4<ACC>(); var c11 = vec4<ACC>();
    var c12 = vec4<ACC>(); var c13 = vec4<ACC>(); var c14 = vec4<ACC>(); var c15 = vec4<ACC>();
    var c16 = vec4<ACC>(); var c17 = vec4<ACC>(); var c18 = vec4<ACC>(); var c19 = vec4<ACC>();
    var c20 = vec4<ACC>(); var c21 = vec4<ACC>(); var c22 = vec4<ACC>(); var c23 = vec4<ACC>();
    var c24 = vec4<ACC>(); var c25 = vec4<ACC>(); var c26 = vec4<ACC>(); var c27 = vec4<ACC>();
    var c28 = vec4<ACC>(); var c29 = vec4<ACC>(); var c30 = vec4<ACC>(); var c31 = vec4<ACC>();

    // Four steps along k a turn.
    for (var k = 0u; k < params.k; k += 4u) {
        var left = mat4x4<ACC>(
            vec4<ACC>(a[a_place.x]), vec4<ACC>(a[a_place.y]), vec4<ACC>(a[a_place.z]), vec4<ACC>(a[a_place.w]));
        var right = mat4x4<ACC>(
            vec4<ACC>(b[b_place.x]), vec4<ACC>(b[b_place.y]), vec4<ACC>(b[b_place.z]), vec4<ACC>(b[b_place.w]));
        a_place += a_turn;
        b_place += b_turn;
        // From here on a column of `left` is a row of a, and one of `right` lies along n.
        if (!A_ALONG_K) { left = transpose(left); }
        if (B_ALONG_K) { right = transpose(right); }
        if (RAGGED) {
            let inside = vec4<u32>(k, k + 1u, k + 2u, k + 3u) < vec4<u32>(params.k);
            let none = vec4<ACC>();
            left = mat4x4<ACC>(
                select(none, left[0], inside), select(none, left[1], inside),
                select(none, left[2], inside), select(none, left[3], inside));
            right = mat4x4<ACC>(
                select(none, right[0], inside.x), select(none, right[1], inside.y),
                select(none, right[2], inside.z), select(none, right[3], inside.w));
        }
        c0 = multiplied(c0, subgroupBroadcast(left[0], 0u), right);
        c1 = multiplied(c1, subgroupBroadcast(left[1], 0u), right);
        c2 = multiplied(c2, subgroupBroadcast(left[2], 0u), right);
        c3 = multiplied(c3, subgroupBroadcast(left[3], 0u), right);
        if (ROWS > 4u) {
            c4 = multiplied(c4, subgroupBroadcast(left[0], 1u), right);
            c5 = multiplied(c5, subgroupBroadcast(left[1], 1u), right);
            c6 = multiplied(c6, subgroupBroadcast(left[2], 1u), right);
            c7 = multiplied(c7, subgroupBroadcast(left[3], 1u), right);
        }
        if (ROWS > 8u) {
            c8 = multiplied(c8, subgroupBroadcast(left[0], 2u), right);
            c9 = multiplied(c9, subgroupBroadcast(left[1], 2u), right);
            c10 = multiplied(c10, subgroupBroadcast(left[2], 2u), right);
            c11 = multiplied(c11, subgroupBroadcast(left[3], 2u), right);
        }
        if (ROWS > 12u) {
            c12 = multiplied(c12, subgroupBroadcast(left[0], 3u), right);
            c13 = multiplied(c13, subgroupBroadcast(left[1], 3u), right);
            c14 = multiplied(c14, subgroupBroadcast(left[2], 3u), right);
            c15 = multiplied(c15, subgroupBroadcast(left[3], 3u), right);
        }
        if (ROWS > 16u) {
            c16 = multiplied(c16, subgroupBroadcast(left[0], 4u), right);
            c17 = multiplied(c17, subgroupBroadcast(left[1], 4u), right);
            c18 = multiplied(c18, subgroupBroadcast(left[2], 4u), right);
            c19 = multiplied(c19, subgroupBroadcast(left[3], 4u), right);
        }
        if (ROWS > 20u) {
            c20 = multiplied(c20, subgroupBroadcast(left[0], 5u), right);
            c21 = multiplied(c21, subgroupBroadcast(left[1], 5u), right);
            c22 = multiplied(c22, subgroupBroadcast(left[2], 5u), right);
            c23 = multiplied(c23, subgroupBroadcast(left[3], 5u), right);
        }
        if (ROWS > 24u) {
            c24 = multiplied(c24, subgroupBroadcast(left[0], 6u), right);
            c25 = multiplied(c25, subgroupBroadcast(left[1], 6u), right);
            c26 = multiplied(c26, subgroupBroadcast(left[2], 6u), right);
            c27 = multiplied(c27, subgroupBroadcast(left[3], 6u), right);
        }
        if (ROWS > 28u) {
            c28 = multiplied(c28, subgroupBroadcast(left[0], 7u), right);
            c29 = multiplied(c29, subgroupBroadcast(left[1], 7u), right);
            c30 = multiplied(c30, subgroupBroadcast(left[2], 7u), right);
            c31 = multiplied(c31, subgroupBroadcast(left[3], 7u), right);
        }
    }

    // Store, in a loop: the epilogue may be long.
    var results = array<vec4<ACC>, 32>(
        c0, c1, c2, c3, c4, c5, c6, c7,
        c8, c9, c10, c11, c12, c13, c14, c15,
        c16, c17, c18, c19, c20, c21, c22, c23,
        c24, c25, c26, c27, c28, c29, c30, c31);
    let place = params.out_offset + group.z * params.out_batch + column * params.out_column;
    for (var i = 0u; i < ROWS; i++) {
        let row = first_row + i;
        store(place + row * params.out_row, group.z * params.m, row, column, results[i]);
    }
}
