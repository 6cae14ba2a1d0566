// matmul: out = epilogue(a @ b), batched; a workgroup computes (4 QUADS_M WORKGROUP_Y) x (4 QUADS_N WORKGROUP_X) results through workgroup memory, a thread (4 QUADS_M) x (4 QUADS_N) of them.
//
// Each turn brings TILE_K columns of a and rows of b into threadgroup memory, whatever the strides. A thread's results lie in
// as many quarters of the tile, 4 x 4 each, as QUADS_M and QUADS_N say (1 or 2), so that neighbours read neighbouring groups of four.

struct Params {
    uint m, k, n;
    uint a_offset, a_batch, a_row, a_column;
    uint b_offset, b_batch, b_row, b_column;
    uint out_offset, out_batch, out_row, out_column;
};

constant constexpr uint THREADS = WORKGROUP_X * WORKGROUP_Y;
constant constexpr uint TILE_M = 4 * QUADS_M * WORKGROUP_Y;
constant constexpr uint TILE_N = 4 * QUADS_N * WORKGROUP_X;
// Four elements of padding a line, against bank conflicts where lines are written crosswise.
constant constexpr uint A_LINE = TILE_M + 4;
constant constexpr uint B_LINE = TILE_N + 4;

kernel void atlas_matmul(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant Params& params [[buffer(PARAMS)]],
    constant Epilogue& epilogue [[buffer(PARAMS + 1)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup ACC a_tile[TILE_K][A_LINE];
    threadgroup ACC b_tile[TILE_K][B_LINE];
    const uint x = thread_index % WORKGROUP_X, y = thread_index / WORKGROUP_X;
    const uint first_row = group.y * TILE_M;
    const uint first_column = group.x * TILE_N;
    device const T* a_start = a + params.a_offset + (ulong)group.z * params.a_batch;
    device const T* b_start = b + params.b_offset + (ulong)group.z * params.b_batch;

    ACC c[4 * QUADS_M][4 * QUADS_N] = {};
    for (uint step = 0; step < params.k; step += TILE_K) {
        // Load: neighbouring threads take neighbouring elements in memory.
        for (uint i = thread_index; i < TILE_K * TILE_M; i += THREADS) {
            const uint line = params.a_column == 1 ? i % TILE_K : i / TILE_M;
            const uint place = params.a_column == 1 ? i / TILE_K : i % TILE_M;
            const uint row = first_row + place, column = step + line;
            const bool inside = row < params.m && column < params.k;
            a_tile[line][place] = inside ? (ACC)a_start[(ulong)row * params.a_row + (ulong)column * params.a_column] : (ACC)0;
        }
        for (uint i = thread_index; i < TILE_K * TILE_N; i += THREADS) {
            const uint line = params.b_column == 1 ? i / TILE_N : i % TILE_K;
            const uint place = params.b_column == 1 ? i % TILE_N : i / TILE_K;
            const uint row = step + line, column = first_column + place;
            const bool inside = row < params.k && column < params.n;
            b_tile[line][place] = inside ? (ACC)b_start[(ulong)row * params.b_row + (ulong)column * params.b_column] : (ACC)0;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Multiply: outer products.
#pragma unroll
        for (uint line = 0; line < TILE_K; line++) {
            ACC left[4 * QUADS_M], right[4 * QUADS_N];
#pragma unroll
            for (uint i = 0; i < 4 * QUADS_M; i++) left[i] = a_tile[line][i / 4 * 4 * WORKGROUP_Y + 4 * y + i % 4];
#pragma unroll
            for (uint j = 0; j < 4 * QUADS_N; j++) right[j] = b_tile[line][j / 4 * 4 * WORKGROUP_X + 4 * x + j % 4];
#pragma unroll
            for (uint i = 0; i < 4 * QUADS_M; i++)
#pragma unroll
                for (uint j = 0; j < 4 * QUADS_N; j++) c[i][j] = fma(left[i], right[j], c[i][j]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // Store.
    device T* out_start = out + params.out_offset + (ulong)group.z * params.out_batch;
    const uint batch_row = group.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (uint i = 0; i < 4 * QUADS_M; i++) {
        const uint row = first_row + 4 * y + i % 4 + i / 4 * 4 * WORKGROUP_Y;
#pragma unroll
        for (uint j = 0; j < 4 * QUADS_N; j++) {
            const uint column = first_column + 4 * x + j % 4 + j / 4 * 4 * WORKGROUP_X;
            if (row < params.m && column < params.n)
                out_start[(ulong)row * params.out_row + (ulong)column * params.out_column] = (T)epilogue(c[i][j], batch_row + row, column);
        }
    }
}
