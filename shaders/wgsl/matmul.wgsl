// matmul: out = epilogue(a @ b), batched; a workgroup computes (4 QUADS_M WORKGROUP_Y) x (4 QUADS_N WORKGROUP_X) results through workgroup memory, a thread (4 QUADS_M) x (4 QUADS_N) of them.
//
// Each turn brings TILE_K columns of a and rows of b into workgroup memory, by vec4 along m and n, whatever the strides.
// QUADS_M and QUADS_N are 1 or 2: a thread's results lie in as many quarters of the tile, 4 x 4 each, so that neighbours
// read neighbouring vec4s. Each turn's tiles fit any shape of workgroup: many columns of few rows where m is small.
// Accumulators are named: naga keeps indexed private arrays in memory.

struct Params {
    m: u32, k: u32, n: u32,
    a_offset: u32, a_batch: u32, a_row: u32, a_column: u32,
    b_offset: u32, b_batch: u32, b_row: u32, b_column: u32,
    out_offset: u32, out_batch: u32, out_row: u32, out_column: u32,
}

@group(0) @binding(0) var<storage, read_write> a: array<T>;
@group(0) @binding(1) var<storage, read_write> b: array<T>;
@group(0) @binding(2) var<storage, read_write> out: array<T>;
@group(0) @binding(PARAMS) var<uniform> params: Params;

const THREADS = WORKGROUP_X * WORKGROUP_Y;
const A_QUADS = QUADS_M * WORKGROUP_Y;  // vec4s along a tile's m
const B_QUADS = QUADS_N * WORKGROUP_X;  // vec4s along a tile's n
// One vec4 of padding a line, against bank conflicts where lines are written crosswise.
const A_LINE = A_QUADS + 1u;
const B_LINE = B_QUADS + 1u;

var<workgroup> a_tile: array<vec4<ACC>, TILE_K * A_LINE>;
var<workgroup> b_tile: array<vec4<ACC>, TILE_K * B_LINE>;

fn a_at(start: u32, row: u32, column: u32) -> ACC {
    if (row >= params.m || column >= params.k) { return ACC(0); }
    return ACC(a[start + row * params.a_row + column * params.a_column]);
}

fn b_at(start: u32, row: u32, column: u32) -> ACC {
    if (row >= params.k || column >= params.n) { return ACC(0); }
    return ACC(b[start + row * params.b_row + column * params.b_column]);
}

fn store(start: u32, batch_row: u32, row: u32, column: u32, value: vec4<ACC>) {
    // Up to four results of one row; `batch_row` counts the rows of the matrices before this one.
    if (row >= params.m) { return; }
    let place = start + row * params.out_row + column * params.out_column;
    let step = params.out_column;
    let left = params.n - min(column, params.n);
    if (left > 0u) { out[place] = T(epilogue(value.x, batch_row + row, column)); }
    if (left > 1u) { out[place + step] = T(epilogue(value.y, batch_row + row, column + 1u)); }
    if (left > 2u) { out[place + 2u * step] = T(epilogue(value.z, batch_row + row, column + 2u)); }
    if (left > 3u) { out[place + 3u * step] = T(epilogue(value.w, batch_row + row, column + 3u)); }
}

@compute @workgroup_size(WORKGROUP_X, WORKGROUP_Y, WORKGROUP_Z)
fn atlas_matmul(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    let first_row = group.y * 4u * A_QUADS;
    let first_column = group.x * 4u * B_QUADS;
    let a_start = params.a_offset + group.z * params.a_batch;
    let b_start = params.b_offset + group.z * params.b_batch;
    let thread_index = local.y * WORKGROUP_X + local.x;

    // c{row}{half}: four columns of one row; rows 0-3 in the upper half of the tile, 4-7 in the lower.
    var c00 = vec4<ACC>(); var c01 = vec4<ACC>();
    var c10 = vec4<ACC>(); var c11 = vec4<ACC>();
    var c20 = vec4<ACC>(); var c21 = vec4<ACC>();
    var c30 = vec4<ACC>(); var c31 = vec4<ACC>();
    var c40 = vec4<ACC>(); var c41 = vec4<ACC>();
    var c50 = vec4<ACC>(); var c51 = vec4<ACC>();
    var c60 = vec4<ACC>(); var c61 = vec4<ACC>();
    var c70 = vec4<ACC>(); var c71 = vec4<ACC>();

    for (var step = 0u; step < params.k; step += TILE_K) {
        // Load: neighbouring threads take neighbouring elements in memory.
        for (var i = thread_index; i < TILE_K * A_QUADS; i += THREADS) {
            var line = i % TILE_K;
            var quad = i / TILE_K;
            if (params.a_column != 1u) {
                line = i / A_QUADS;
                quad = i % A_QUADS;
            }
            let row = first_row + 4u * quad;
            let column = step + line;
            a_tile[line * A_LINE + quad] = vec4<ACC>(
                a_at(a_start, row, column), a_at(a_start, row + 1u, column),
                a_at(a_start, row + 2u, column), a_at(a_start, row + 3u, column));
        }
        for (var i = thread_index; i < TILE_K * B_QUADS; i += THREADS) {
            var line = i / B_QUADS;
            var quad = i % B_QUADS;
            if (params.b_column != 1u) {
                line = i % TILE_K;
                quad = i / TILE_K;
            }
            let row = step + line;
            let column = first_column + 4u * quad;
            b_tile[line * B_LINE + quad] = vec4<ACC>(
                b_at(b_start, row, column), b_at(b_start, row, column + 1u),
                b_at(b_start, row, column + 2u), b_at(b_start, row, column + 3u));
        }
        workgroupBarrier();

        // Multiply: outer products.
        for (var line = 0u; line < TILE_K; line++) {
            let above = a_tile[line * A_LINE + local.y];
            let b0 = b_tile[line * B_LINE + local.x];
            c00 = fma(vec4<ACC>(above.x), b0, c00);
            c10 = fma(vec4<ACC>(above.y), b0, c10);
            c20 = fma(vec4<ACC>(above.z), b0, c20);
            c30 = fma(vec4<ACC>(above.w), b0, c30);
            if (QUADS_M > 1u) {
                let below = a_tile[line * A_LINE + local.y + WORKGROUP_Y];
                c40 = fma(vec4<ACC>(below.x), b0, c40);
                c50 = fma(vec4<ACC>(below.y), b0, c50);
                c60 = fma(vec4<ACC>(below.z), b0, c60);
                c70 = fma(vec4<ACC>(below.w), b0, c70);
                if (QUADS_N > 1u) {
                    let b1 = b_tile[line * B_LINE + local.x + WORKGROUP_X];
                    c41 = fma(vec4<ACC>(below.x), b1, c41);
                    c51 = fma(vec4<ACC>(below.y), b1, c51);
                    c61 = fma(vec4<ACC>(below.z), b1, c61);
                    c71 = fma(vec4<ACC>(below.w), b1, c71);
                }
            }
            if (QUADS_N > 1u) {
                let b1 = b_tile[line * B_LINE + local.x + WORKGROUP_X];
                c01 = fma(vec4<ACC>(above.x), b1, c01);
                c11 = fma(vec4<ACC>(above.y), b1, c11);
                c21 = fma(vec4<ACC>(above.z), b1, c21);
                c31 = fma(vec4<ACC>(above.w), b1, c31);
            }
        }
        workgroupBarrier();
    }

    // Store.
    let start = params.out_offset + group.z * params.out_batch;
    let batch_row = group.z * params.m;
    let row = first_row + 4u * local.y;
    let column = first_column + 4u * local.x;
    let low = row + 4u * WORKGROUP_Y;
    let right = column + 4u * WORKGROUP_X;
    store(start, batch_row, row, column, c00);
    store(start, batch_row, row + 1u, column, c10);
    store(start, batch_row, row + 2u, column, c20);
    store(start, batch_row, row + 3u, column, c30);
    if (QUADS_N > 1u) {
        store(start, batch_row, row, right, c01);
        store(start, batch_row, row + 1u, right, c11);
        store(start, batch_row, row + 2u, right, c21);
        store(start, batch_row, row + 3u, right, c31);
    }
    if (QUADS_M > 1u) {
        store(start, batch_row, low, column, c40);
        store(start, batch_row, low + 1u, column, c50);
        store(start, batch_row, low + 2u, column, c60);
        store(start, batch_row, low + 3u, column, c70);
        if (QUADS_N > 1u) {
            store(start, batch_row, low, right, c41);
            store(start, batch_row, low + 1u, right, c51);
            store(start, batch_row, low + 2u, right, c61);
            store(start, batch_row, low + 3u, right, c71);
        }
    }
}
