// conv2d: out = epilogue(weight @ windows of x), an implicit matrix product; a workgroup computes (8 WORKGROUP_Y) channels of (8 WORKGROUP_X) places, a thread 8 x 8 of them.
//
// Rows are the m output channels of a group, columns the n places of all images, k the taps of a window: channel, then row,
// then column. Nothing is laid out in memory: each turn brings TILE_K taps of weight and of the windows into workgroup
// memory, from where they lie. A thread loads the same columns in every turn and finds their windows once; the lines of a
// turn are found by its first TILE_K threads. Coordinates wrap: what lies before x is larger than x is high or wide.
// A thread's results lie in four quarters of the tile, as in matmul.

struct Params {
    m: u32, k: u32, n: u32,
    channels: u32, height: u32, width: u32,
    window_height: u32, window_width: u32,
    area: u32, out_width: u32,
    stride_y: u32, stride_x: u32, padding_y: u32, padding_x: u32, dilation_y: u32, dilation_x: u32,
    x_offset: u32, x_image: u32, x_channel: u32, x_row: u32, x_column: u32,
    weight_offset: u32, weight_row: u32, weight_column: u32,
    out_offset: u32, out_image: u32, out_channel: u32, out_place: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<T>;
@group(0) @binding(1) var<storage, read_write> weight: array<T>;
@group(0) @binding(2) var<storage, read_write> out: array<T>;
@group(0) @binding(PARAMS) var<uniform> params: Params;

const THREADS = WORKGROUP_X * WORKGROUP_Y;
const WEIGHT_QUADS = 2u * WORKGROUP_Y;  // vec4s along a tile's m
const X_QUADS = 2u * WORKGROUP_X;  // vec4s along a tile's n
// One vec4 of padding a line, against bank conflicts where lines are written crosswise.
const WEIGHT_LINE = WEIGHT_QUADS + 1u;
const X_LINE = X_QUADS + 1u;
const OUTSIDE = 0x80000000u;  // a row or column no tap brings back to x

var<workgroup> weight_tile: array<vec4<ACC>, TILE_K * WEIGHT_LINE>;
var<workgroup> x_tile: array<vec4<ACC>, TILE_K * X_LINE>;
// Of each line: its channel, and its tap's rows and columns from the window's first.
var<workgroup> line_channel: array<u32, TILE_K>;
var<workgroup> line_y: array<u32, TILE_K>;
var<workgroup> line_x: array<u32, TILE_K>;

fn weight_at(start: u32, row: u32, column: u32) -> ACC {
    if (row >= params.m || column >= params.k) { return ACC(0); }
    return ACC(weight[start + row * params.weight_row + column * params.weight_column]);
}

fn x_at(start: u32, row: u32, column: u32) -> ACC {
    if (row >= params.height || column >= params.width) { return ACC(0); }
    return ACC(x[start + row * params.x_row + column * params.x_column]);
}

// A window: the start of its image in x, and its first row and column.
fn window_of(column: u32) -> vec3<u32> {
    if (column >= params.n) { return vec3<u32>(0u, OUTSIDE, OUTSIDE); }
    let image = column / params.area;
    let place = column - image * params.area;
    let row = place / params.out_width;
    return vec3<u32>(
        image * params.x_image,
        row * params.stride_y - params.padding_y,
        (place - row * params.out_width) * params.stride_x - params.padding_x);
}

fn store(group_row: u32, row: u32, column: u32, value: ACC) {
    // One result: `row` is the channel in its group, `group_row` the group's first channel.
    if (row >= params.m || column >= params.n) { return; }
    let channel = group_row + row;
    let image = column / params.area;
    let place = params.out_offset + image * params.out_image + channel * params.out_channel;
    out[place + (column - image * params.area) * params.out_place] = T(epilogue(value, column, channel));
}

fn store_row(group_row: u32, row: u32, column: u32, value: vec4<ACC>) {
    store(group_row, row, column, value.x);
    store(group_row, row, column + 1u, value.y);
    store(group_row, row, column + 2u, value.z);
    store(group_row, row, column + 3u, value.w);
}

@compute @workgroup_size(WORKGROUP_X, WORKGROUP_Y, WORKGROUP_Z)
fn atlas_conv2d(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    let first_row = group.y * 8u * WORKGROUP_Y;
    let first_column = group.x * 8u * WORKGROUP_X;
    let group_row = group.z * params.m;
    let weight_start = params.weight_offset + group_row * params.weight_row;
    let x_start = params.x_offset + group.z * params.channels * params.x_channel;
    let thread_index = local.y * WORKGROUP_X + local.x;

    // The windows of the four columns that this thread loads.
    let own_quad = thread_index % X_QUADS;
    let window0 = window_of(first_column + 4u * own_quad);
    let window1 = window_of(first_column + 4u * own_quad + 1u);
    let window2 = window_of(first_column + 4u * own_quad + 2u);
    let window3 = window_of(first_column + 4u * own_quad + 3u);

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
        // Find the lines; nobody reads them any more when the first threads come here.
        for (var line = thread_index; line < TILE_K; line += THREADS) {
            let tap_row = (step + line) / params.window_width;
            let channel = tap_row / params.window_height;
            line_channel[line] = channel;
            line_y[line] = (tap_row - channel * params.window_height) * params.dilation_y;
            if (step + line >= params.k) { line_y[line] = OUTSIDE; }
            line_x[line] = (step + line - tap_row * params.window_width) * params.dilation_x;
        }
        workgroupBarrier();

        // Load: neighbouring threads take neighbouring taps of weight, and neighbouring places of x.
        for (var i = thread_index; i < TILE_K * WEIGHT_QUADS; i += THREADS) {
            let line = i % TILE_K;
            let quad = i / TILE_K;
            let row = first_row + 4u * quad;
            let column = step + line;
            weight_tile[line * WEIGHT_LINE + quad] = vec4<ACC>(
                weight_at(weight_start, row, column), weight_at(weight_start, row + 1u, column),
                weight_at(weight_start, row + 2u, column), weight_at(weight_start, row + 3u, column));
        }
        for (var line = thread_index / X_QUADS; line < TILE_K; line += THREADS / X_QUADS) {
            let start = x_start + line_channel[line] * params.x_channel;
            let y = line_y[line];
            let column = line_x[line];
            x_tile[line * X_LINE + own_quad] = vec4<ACC>(
                x_at(start + window0.x, window0.y + y, window0.z + column),
                x_at(start + window1.x, window1.y + y, window1.z + column),
                x_at(start + window2.x, window2.y + y, window2.z + column),
                x_at(start + window3.x, window3.y + y, window3.z + column));
        }
        workgroupBarrier();

        // Multiply: 8 x 8 outer products. The next turn's first barrier keeps the tiles until all are done.
        for (var line = 0u; line < TILE_K; line++) {
            let above = weight_tile[line * WEIGHT_LINE + local.y];
            let below = weight_tile[line * WEIGHT_LINE + local.y + WORKGROUP_Y];
            let b0 = x_tile[line * X_LINE + local.x];
            let b1 = x_tile[line * X_LINE + local.x + WORKGROUP_X];
            c00 = fma(vec4<ACC>(above.x), b0, c00); c01 = fma(vec4<ACC>(above.x), b1, c01);
            c10 = fma(vec4<ACC>(above.y), b0, c10); c11 = fma(vec4<ACC>(above.y), b1, c11);
            c20 = fma(vec4<ACC>(above.z), b0, c20); c21 = fma(vec4<ACC>(above.z), b1, c21);
            c30 = fma(vec4<ACC>(above.w), b0, c30); c31 = fma(vec4<ACC>(above.w), b1, c31);
            c40 = fma(vec4<ACC>(below.x), b0, c40); c41 = fma(vec4<ACC>(below.x), b1, c41);
            c50 = fma(vec4<ACC>(below.y), b0, c50); c51 = fma(vec4<ACC>(below.y), b1, c51);
            c60 = fma(vec4<ACC>(below.z), b0, c60); c61 = fma(vec4<ACC>(below.z), b1, c61);
            c70 = fma(vec4<ACC>(below.w), b0, c70); c71 = fma(vec4<ACC>(below.w), b1, c71);
        }
    }

    // Store.
    let row = first_row + 4u * local.y;
    let column = first_column + 4u * local.x;
    let low = row + 4u * WORKGROUP_Y;
    let right = column + 4u * WORKGROUP_X;
    store_row(group_row, row, column, c00); store_row(group_row, row, right, c01);
    store_row(group_row, row + 1u, column, c10); store_row(group_row, row + 1u, right, c11);
    store_row(group_row, row + 2u, column, c20); store_row(group_row, row + 2u, right, c21);
    store_row(group_row, row + 3u, column, c30); store_row(group_row, row + 3u, right, c31);
    store_row(group_row, low, column, c40); store_row(group_row, low, right, c41);
    store_row(group_row, low + 1u, column, c50); store_row(group_row, low + 1u, right, c51);
    store_row(group_row, low + 2u, column, c60); store_row(group_row, low + 2u, right, c61);
    store_row(group_row, low + 3u, column, c70); store_row(group_row, low + 3u, right, c71);
}
