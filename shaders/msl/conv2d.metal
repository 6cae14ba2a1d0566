// conv2d: out = epilogue(weight @ windows of x), an implicit matrix product; a workgroup computes (8 WORKGROUP_Y) channels of (8 WORKGROUP_X) places, a thread 8 x 8 of them.
//
// Rows are the m output channels of a group, columns the n places of all images, k the taps of a window: channel, then row,
// then column. Nothing is laid out in memory: each turn brings TILE_K taps of weight and of the windows into workgroup
// memory, from where they lie. A thread loads the same columns in every turn and finds their windows once; the lines of a
// turn are found by its first TILE_K threads. Coordinates wrap: what lies before x is larger than x is high or wide.
// A thread's results lie in four quarters of the tile, as in matmul.

struct Params {
    uint m, k, n;
    uint channels, height, width;
    uint window_height, window_width;
    uint area, out_width;
    uint stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
    uint x_offset, x_image, x_channel, x_row, x_column;
    uint weight_offset, weight_row, weight_column;
    uint out_offset, out_image, out_channel, out_place;
};

constant constexpr uint THREADS = WORKGROUP_X * WORKGROUP_Y;
constant constexpr uint TILE_M = 8 * WORKGROUP_Y;
constant constexpr uint TILE_N = 8 * WORKGROUP_X;
// Four elements of padding a line, against bank conflicts where lines are written crosswise.
constant constexpr uint WEIGHT_LINE = TILE_M + 4;
constant constexpr uint X_LINE = TILE_N + 4;
constant constexpr uint OUTSIDE = 0x80000000u;  // a row or column no tap brings back to x
static_assert(THREADS % TILE_N == 0, "a thread loads one column of windows in every turn");

kernel void atlas_conv2d(
    device const T* x [[buffer(0)]],
    device const T* weight [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant Params& params [[buffer(PARAMS)]],
    constant Epilogue& epilogue [[buffer(PARAMS + 1)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup ACC weight_tile[TILE_K][WEIGHT_LINE];
    threadgroup ACC x_tile[TILE_K][X_LINE];
    // Of each line: its channel, and its tap's rows and columns from the window's first.
    threadgroup uint line_channel[TILE_K];
    threadgroup uint line_y[TILE_K];
    threadgroup uint line_x[TILE_K];
    const uint local_x = thread_index % WORKGROUP_X, local_y = thread_index / WORKGROUP_X;
    const uint first_row = group.y * TILE_M;
    const uint first_column = group.x * TILE_N;
    const uint group_row = group.z * params.m;
    device const T* weight_start = weight + params.weight_offset + (ulong)group_row * params.weight_row;
    device const T* x_start = x + params.x_offset + (ulong)group.z * params.channels * params.x_channel;

    // The window of the column that this thread loads: its image, its first row and column.
    const uint own_place = thread_index % TILE_N;
    const uint own_column = first_column + own_place;
    uint window_y = OUTSIDE, window_x = OUTSIDE;
    if (own_column < params.n) {
        const uint image = own_column / params.area;
        const uint place = own_column - image * params.area;
        const uint row = place / params.out_width;
        x_start += (ulong)image * params.x_image;
        window_y = row * params.stride_y - params.padding_y;
        window_x = (place - row * params.out_width) * params.stride_x - params.padding_x;
    }

    ACC c[8][8] = {};
    for (uint step = 0; step < params.k; step += TILE_K) {
        // Find the lines; nobody reads them any more when the first threads come here.
        for (uint line = thread_index; line < TILE_K; line += THREADS) {
            const uint tap_row = (step + line) / params.window_width;
            const uint channel = tap_row / params.window_height;
            line_channel[line] = channel;
            line_y[line] = step + line < params.k ? (tap_row - channel * params.window_height) * params.dilation_y : OUTSIDE;
            line_x[line] = (step + line - tap_row * params.window_width) * params.dilation_x;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Load: neighbouring threads take neighbouring taps of weight, and neighbouring places of x.
        for (uint i = thread_index; i < TILE_K * TILE_M; i += THREADS) {
            const uint line = i % TILE_K, place = i / TILE_K;
            const uint row = first_row + place, column = step + line;
            const bool inside = row < params.m && column < params.k;
            weight_tile[line][place] = inside ? (ACC)weight_start[(ulong)row * params.weight_row + (ulong)column * params.weight_column] : (ACC)0;
        }
        for (uint line = thread_index / TILE_N; line < TILE_K; line += THREADS / TILE_N) {
            const uint row = window_y + line_y[line], column = window_x + line_x[line];
            const bool inside = row < params.height && column < params.width;
            x_tile[line][own_place] = inside ? (ACC)x_start[(ulong)line_channel[line] * params.x_channel + (ulong)row * params.x_row + (ulong)column * params.x_column] : (ACC)0;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Multiply: 8 x 8 outer products. The next turn's first barrier keeps the tiles until all are done.
#pragma unroll
        for (uint line = 0; line < TILE_K; line++) {
            ACC left[8], right[8];
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                left[i] = weight_tile[line][4 * local_y + i];
                left[4 + i] = weight_tile[line][TILE_M / 2 + 4 * local_y + i];
                right[i] = x_tile[line][4 * local_x + i];
                right[4 + i] = x_tile[line][TILE_N / 2 + 4 * local_x + i];
            }
#pragma unroll
            for (uint i = 0; i < 8; i++)
#pragma unroll
                for (uint j = 0; j < 8; j++) c[i][j] = fma(left[i], right[j], c[i][j]);
        }
    }

    // Store.
#pragma unroll
    for (uint j = 0; j < 8; j++) {
        const uint column = first_column + 4 * local_x + j % 4 + j / 4 * (TILE_N / 2);
        const uint image = column / params.area;
        device T* out_start = out + params.out_offset + (ulong)image * params.out_image + (ulong)(column - image * params.area) * params.out_place;
#pragma unroll
        for (uint i = 0; i < 8; i++) {
            const uint row = first_row + 4 * local_y + i % 4 + i / 4 * (TILE_M / 2);
            const uint channel = group_row + row;
            if (row < params.m && column < params.n)
                out_start[(ulong)channel * params.out_channel] = (T)epilogue(c[i][j], column, channel);
        }
    }
}
