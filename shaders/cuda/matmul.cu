// matmul: out = epilogue(a @ b), batched; a workgroup computes (4 QUADS_M WORKGROUP_Y) x (4 QUADS_N WORKGROUP_X) results through workgroup memory, a thread (4 QUADS_M) x (4 QUADS_N) of them.
//
// Each turn brings TILE_K columns of a and rows of b into shared memory, whatever the strides. A thread's results lie in
// as many quarters of the tile, 4 x 4 each, as QUADS_M and QUADS_N say (1 or 2), so that neighbours read neighbouring groups of four.

struct Params {
    unsigned m, k, n;
    unsigned a_offset, a_batch, a_row, a_column;
    unsigned b_offset, b_batch, b_row, b_column;
    unsigned out_offset, out_batch, out_row, out_column;
};

constexpr unsigned THREADS = WORKGROUP_X * WORKGROUP_Y;
constexpr unsigned TILE_M = 4 * QUADS_M * WORKGROUP_Y;
constexpr unsigned TILE_N = 4 * QUADS_N * WORKGROUP_X;
// Four elements of padding a line, against bank conflicts where lines are written crosswise.
constexpr unsigned A_LINE = TILE_M + 4;
constexpr unsigned B_LINE = TILE_N + 4;

extern "C" __global__ void __launch_bounds__(THREADS)
atlas_matmul(const T* a, const T* b, T* out, Params params, Epilogue epilogue) {
    __shared__ ACC a_tile[TILE_K][A_LINE];
    __shared__ ACC b_tile[TILE_K][B_LINE];
    const unsigned thread_index = threadIdx.y * WORKGROUP_X + threadIdx.x;
    const unsigned x = thread_index % WORKGROUP_X, y = thread_index / WORKGROUP_X;
    const unsigned first_row = blockIdx.y * TILE_M;
    const unsigned first_column = blockIdx.x * TILE_N;
    const T* a_start = a + params.a_offset + (size_t)blockIdx.z * params.a_batch;
    const T* b_start = b + params.b_offset + (size_t)blockIdx.z * params.b_batch;

    ACC c[4 * QUADS_M][4 * QUADS_N] = {};
    for (unsigned step = 0; step < params.k; step += TILE_K) {
        // Load: neighbouring threads take neighbouring elements in memory.
        for (unsigned i = thread_index; i < TILE_K * TILE_M; i += THREADS) {
            const unsigned line = params.a_column == 1 ? i % TILE_K : i / TILE_M;
            const unsigned place = params.a_column == 1 ? i / TILE_K : i % TILE_M;
            const unsigned row = first_row + place, column = step + line;
            const bool inside = row < params.m && column < params.k;
            a_tile[line][place] = inside ? (ACC)a_start[(size_t)row * params.a_row + (size_t)column * params.a_column] : (ACC)0;
        }
        for (unsigned i = thread_index; i < TILE_K * TILE_N; i += THREADS) {
            const unsigned line = params.b_column == 1 ? i / TILE_N : i % TILE_K;
            const unsigned place = params.b_column == 1 ? i % TILE_N : i / TILE_K;
            const unsigned row = step + line, column = first_column + place;
            const bool inside = row < params.k && column < params.n;
            b_tile[line][place] = inside ? (ACC)b_start[(size_t)row * params.b_row + (size_t)column * params.b_column] : (ACC)0;
        }
        __syncthreads();

        // Multiply: outer products.
#pragma unroll
        for (unsigned line = 0; line < TILE_K; line++) {
            ACC left[4 * QUADS_M], right[4 * QUADS_N];
#pragma unroll
            for (unsigned i = 0; i < 4 * QUADS_M; i++) left[i] = a_tile[line][i / 4 * 4 * WORKGROUP_Y + 4 * y + i % 4];
#pragma unroll
            for (unsigned j = 0; j < 4 * QUADS_N; j++) right[j] = b_tile[line][j / 4 * 4 * WORKGROUP_X + 4 * x + j % 4];
#pragma unroll
            for (unsigned i = 0; i < 4 * QUADS_M; i++)
#pragma unroll
                for (unsigned j = 0; j < 4 * QUADS_N; j++) c[i][j] = fma(left[i], right[j], c[i][j]);
        }
        __syncthreads();
    }

    // Store.
    T* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch;
    const unsigned batch_row = blockIdx.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (unsigned i = 0; i < 4 * QUADS_M; i++) {
        const unsigned row = first_row + 4 * y + i % 4 + i / 4 * 4 * WORKGROUP_Y;
#pragma unroll
        for (unsigned j = 0; j < 4 * QUADS_N; j++) {
            const unsigned column = first_column + 4 * x + j % 4 + j / 4 * 4 * WORKGROUP_X;
            if (row < params.m && column < params.n)
                out_start[(size_t)row * params.out_row + (size_t)column * params.out_column] = (T)epilogue(c[i][j], batch_row + row, column);
        }
    }
}
