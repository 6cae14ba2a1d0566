// matmul_units: out = epilogue(a @ b), batched, by simdgroup matrices; a workgroup computes TILE_M x TILE_N results, each of its SUBGROUPS_M x SUBGROUPS_N simdgroups an equal part of them, in fragments of 8 x 8.
//
// Each turn brings TILE_K columns of a and rows of b into threadgroup memory, whatever the strides. Operands stay as they
// are in memory, sums are kept in ACC. Which thread holds which element of a fragment is not documented, so results go
// through threadgroup memory, a fragment of each simdgroup at a time.

struct Params {
    uint m, k, n;
    uint a_offset, a_batch, a_row, a_column;
    uint b_offset, b_batch, b_row, b_column;
    uint out_offset, out_batch, out_row, out_column;
};

constant constexpr uint THREADS = WORKGROUP_X;
constant constexpr uint WIDTH = THREADS / (SUBGROUPS_M * SUBGROUPS_N);  // threads of a simdgroup
constant constexpr uint SUBGROUP_M = TILE_M / SUBGROUPS_M, SUBGROUP_N = TILE_N / SUBGROUPS_N;
constant constexpr uint SIDE = 8;  // of a fragment
constant constexpr uint PIECE = 16 / sizeof(T);  // elements of a line that a thread loads at a time
constant constexpr uint FRAGMENTS_M = SUBGROUP_M / SIDE, FRAGMENTS_N = SUBGROUP_N / SIDE;
// Padding of 16 bytes a line, against bank conflicts.
constant constexpr uint A_LINE = TILE_K + 16 / sizeof(T), B_LINE = TILE_N + 16 / sizeof(T);
static_assert(SUBGROUP_M % SIDE == 0 && SUBGROUP_N % SIDE == 0 && TILE_K % SIDE == 0, "fragments fill the tiles");

kernel void atlas_matmul_units(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device OUT* out [[buffer(2)]],
    constant Params& params [[buffer(PARAMS)]],
    constant Epilogue& epilogue [[buffer(PARAMS + 1)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup T a_tile[TILE_M * A_LINE];
    threadgroup T b_tile[TILE_K * B_LINE];
    threadgroup ACC results[SUBGROUPS_M * SUBGROUPS_N * SIDE * SIDE];
    const uint subgroup = thread_index / WIDTH, lane = thread_index % WIDTH;
    const uint own_row = subgroup / SUBGROUPS_N * SUBGROUP_M, own_column = subgroup % SUBGROUPS_N * SUBGROUP_N;
    const uint first_row = group.y * TILE_M, first_column = group.x * TILE_N;
    device const T* a_start = a + params.a_offset + (ulong)group.z * params.a_batch;
    device const T* b_start = b + params.b_offset + (ulong)group.z * params.b_batch;

    simdgroup_matrix<ACC, 8, 8> c[FRAGMENTS_M][FRAGMENTS_N];
#pragma unroll
    for (uint i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (uint j = 0; j < FRAGMENTS_N; j++) c[i][j] = make_filled_simdgroup_matrix<ACC, 8, 8>((ACC)0);

    for (uint step = 0; step < params.k; step += TILE_K) {
        // Load: a thread takes pieces of lines, neighbouring threads neighbouring ones.
        for (uint i = thread_index; i < TILE_M * TILE_K / PIECE; i += THREADS) {
            const uint line = A_ALONG_K ? i / (TILE_K / PIECE) : i % (TILE_M / PIECE) * PIECE;
            const uint place = A_ALONG_K ? i % (TILE_K / PIECE) * PIECE : i / (TILE_M / PIECE);
            const uint row = first_row + line, column = step + place;
            const bool whole = A_ALONG_K ? row < params.m && column + PIECE <= params.k : row + PIECE <= params.m && column < params.k;
            device const T* piece = a_start + (ulong)row * params.a_row + (ulong)column * params.a_column;
            const uint apart = A_WHOLE ? 1 : A_ALONG_K ? params.a_column : params.a_row;
#pragma unroll
            for (uint n = 0; n < PIECE; n++) {
                const bool inside = whole || (A_ALONG_K ? row < params.m && column + n < params.k : row + n < params.m && column < params.k);
                a_tile[A_ALONG_K ? line * A_LINE + place + n : (line + n) * A_LINE + place] = inside ? piece[(ulong)n * apart] : (T)0;
            }
        }
        for (uint i = thread_index; i < TILE_K * TILE_N / PIECE; i += THREADS) {
            const uint line = B_ALONG_K ? i % (TILE_K / PIECE) * PIECE : i / (TILE_N / PIECE);
            const uint place = B_ALONG_K ? i / (TILE_K / PIECE) : i % (TILE_N / PIECE) * PIECE;
            const uint row = step + line, column = first_column + place;
            const bool whole = B_ALONG_K ? row + PIECE <= params.k && column < params.n : row < params.k && column + PIECE <= params.n;
            device const T* piece = b_start + (ulong)row * params.b_row + (ulong)column * params.b_column;
            const uint apart = B_WHOLE ? 1 : B_ALONG_K ? params.b_row : params.b_column;
#pragma unroll
            for (uint n = 0; n < PIECE; n++) {
                const bool inside = whole || (B_ALONG_K ? row + n < params.k && column < params.n : row < params.k && column + n < params.n);
                b_tile[B_ALONG_K ? (line + n) * B_LINE + place : line * B_LINE + place + n] = inside ? piece[(ulong)n * apart] : (T)0;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Multiply.
#pragma unroll
        for (uint depth = 0; depth < TILE_K; depth += SIDE) {
            simdgroup_matrix<T, 8, 8> left[FRAGMENTS_M], right[FRAGMENTS_N];
#pragma unroll
            for (uint i = 0; i < FRAGMENTS_M; i++) simdgroup_load(left[i], a_tile + (own_row + SIDE * i) * A_LINE + depth, A_LINE);
#pragma unroll
            for (uint j = 0; j < FRAGMENTS_N; j++) simdgroup_load(right[j], b_tile + depth * B_LINE + own_column + SIDE * j, B_LINE);
#pragma unroll
            for (uint i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
                for (uint j = 0; j < FRAGMENTS_N; j++) simdgroup_multiply_accumulate(c[i][j], left[i], right[j], c[i][j]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // Store.
    device OUT* out_start = out + params.out_offset + (ulong)group.z * params.out_batch;
    const uint batch_row = group.z * params.m;  // rows of the matrices before this one
    const uint own = subgroup * SIDE * SIDE;
    for (uint i = 0; i < FRAGMENTS_M; i++)
        for (uint j = 0; j < FRAGMENTS_N; j++) {
            simdgroup_store(c[i][j], results + own, SIDE);
            simdgroup_barrier(mem_flags::mem_threadgroup);
            for (uint element = lane; element < SIDE * SIDE; element += WIDTH) {
                const uint row = first_row + own_row + SIDE * i + element / SIDE;
                const uint column = first_column + own_column + SIDE * j + element % SIDE;
                if (row < params.m && column < params.n)
                    out_start[(ulong)row * params.out_row + (ulong)column * params.out_column] =
                        (OUT)epilogue(results[own + element], batch_row + row, column);
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
}
