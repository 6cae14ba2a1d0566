// conv2d: out = epilogue(weight @ windows of x), an implicit matrix product; a workgroup computes (8 WORKGROUP_Y) channels of (8 WORKGROUP_X) places, a thread 8 x 8 of them.
//
// Rows are the m output channels of a group, columns the n places of all images, k the taps of a window: channel, then row,
// then column. Nothing is laid out in memory: each turn brings TILE_K taps of weight and of the windows into workgroup
// memory, from where they lie. A thread loads the same columns in every turn and finds their windows once; the lines of a
// turn are found by its first TILE_K threads. Coordinates wrap: what lies before x is larger than x is high or wide.
// A thread's results lie in four quarters of the tile, as in matmul.

struct Params {
    unsigned m, k, n;
    unsigned channels, height, width;
    unsigned window_height, window_width;
    unsigned area, out_width;
    unsigned stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
    unsigned x_offset, x_image, x_channel, x_row, x_column;
    unsigned weight_offset, weight_row, weight_column;
    unsigned out_offset, out_image, out_channel, out_place;
};

constexpr unsigned THREADS = WORKGROUP_X * WORKGROUP_Y;
constexpr unsigned TILE_M = 8 * WORKGROUP_Y;
constexpr unsigned TILE_N = 8 * WORKGROUP_X;
// Four elements of padding a line, against bank conflicts where lines are written crosswise.
constexpr unsigned WEIGHT_LINE = TILE_M + 4;
constexpr unsigned X_LINE = TILE_N + 4;
constexpr unsigned OUTSIDE = 0x80000000u;  // a row or column no tap brings back to x
static_assert(THREADS % TILE_N == 0, "a thread loads one column of windows in every turn");

extern "C" __global__ void __launch_bounds__(THREADS)
atlas_conv2d(const T* x, const T* weight, T* out, Params params, Epilogue epilogue) {
    __shared__ ACC weight_tile[TILE_K][WEIGHT_LINE];
    __shared__ ACC x_tile[TILE_K][X_LINE];
    // Of each line: its channel, and its tap's rows and columns from the window's first.
    __shared__ unsigned line_channel[TILE_K];
    __shared__ unsigned line_y[TILE_K];
    __shared__ unsigned line_x[TILE_K];
    const unsigned thread_index = threadIdx.y * WORKGROUP_X + threadIdx.x;
    const unsigned local_x = thread_index % WORKGROUP_X, local_y = thread_index / WORKGROUP_X;
    const unsigned first_row = blockIdx.y * TILE_M;
    const unsigned first_column = blockIdx.x * TILE_N;
    const unsigned group_row = blockIdx.z * params.m;
    const T* weight_start = weight + params.weight_offset + (size_t)group_row * params.weight_row;
    const T* x_start = x + params.x_offset + (size_t)blockIdx.z * params.channels * params.x_channel;

    // The window of the column that this thread loads: its image, its first row and column.
    const unsigned own_place = thread_index % TILE_N;
    const unsigned own_column = first_column + own_place;
    unsigned window_y = OUTSIDE, window_x = OUTSIDE;
    if (own_column < params.n) {
        const unsigned image = own_column / params.area;
        const unsigned place = own_column - image * params.area;
        const unsigned row = place / params.out_width;
        x_start += (size_t)image * params.x_image;
        window_y = row * params.stride_y - params.padding_y;
        window_x = (place - row * params.out_width) * params.stride_x - params.padding_x;
    }

    ACC c[8][8] = {};
    for (unsigned step = 0; step < params.k; step += TILE_K) {
        // Find the lines; nobody reads them any more when the first threads come here.
        for (unsigned line = thread_index; line < TILE_K; line += THREADS) {
            const unsigned tap_row = (step + line) / params.window_width;
            const unsigned channel = tap_row / params.window_height;
            line_channel[line] = channel;
            line_y[line] = step + line < params.k ? (tap_row - channel * params.window_height) * params.dilation_y : OUTSIDE;
            line_x[line] = (step + line - tap_row * params.window_width) * params.dilation_x;
        }
        __syncthreads();

        // Load: neighbouring threads take neighbouring taps of weight, and neighbouring places of x.
        for (unsigned i = thread_index; i < TILE_K * TILE_M; i += THREADS) {
            const unsigned line = i % TILE_K, place = i / TILE_K;
            const unsigned row = first_row + place, column = step + line;
            const bool inside = row < params.m && column < params.k;
            weight_tile[line][place] = inside ? (ACC)weight_start[(size_t)row * params.weight_row + (size_t)column * params.weight_column] : (ACC)0;
        }
        for (unsigned line = thread_index / TILE_N; line < TILE_K; line += THREADS / TILE_N) {
            const unsigned row = window_y + line_y[line], column = window_x + line_x[line];
            const bool inside = row < params.height && column < params.width;
            x_tile[line][own_place] = inside ? (ACC)x_start[(size_t)line_channel[line] * params.x_channel + (size_t)row * params.x_row + (size_t)column * params.x_column] : (ACC)0;
        }
        __syncthreads();

        // Multiply: 8 x 8 outer products. The next turn's first barrier keeps the tiles until all are done.
#pragma unroll
        for (unsigned line = 0; line < TILE_K; line++) {
            ACC left[8], right[8];
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                left[i] = weight_tile[line][4 * local_y + i];
                left[4 + i] = weight_tile[line][TILE_M / 2 + 4 * local_y + i];
                right[i] = x_tile[line][4 * local_x + i];
                right[4 + i] = x_tile[line][TILE_N / 2 + 4 * local_x + i];
            }
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
#pragma unroll
                for (unsigned j = 0; j < 8; j++) c[i][j] = fma(left[i], right[j], c[i][j]);
        }
    }

    // Store.
#pragma unroll
    for (unsigned j = 0; j < 8; j++) {
        const unsigned column = first_column + 4 * local_x + j % 4 + j / 4 * (TILE_N / 2);
        const unsigned image = column / params.area;
        T* out_start = out + params.out_offset + (size_t)image * params.out_image + (size_t)(column - image * params.area) * params.out_place;
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            const unsigned row = first_row + 4 * local_y + i % 4 + i / 4 * (TILE_M / 2);
            const unsigned channel = group_row + row;
            if (row < params.m && column < params.n)
                out_start[(size_t)channel * params.out_channel] = (T)epilogue(c[i][j], column, channel);
        }
    }
}
