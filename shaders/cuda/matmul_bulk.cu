// matmul_bulk: out = epilogue(a @ b), batched, of tiles that the device copies by itself; a workgroup computes TILE_M x TILE_N results, each four of its subgroups 64 rows of them, and one subgroup more asks for the copies.
//
// Tiles of a and b come into shared memory as they lie, in lines of 128 bytes: along k, or in boxes of 64 rows or columns
// across it. STAGES are on their way or in use; `full` says that one has come, `empty` that nobody needs it any more.
// Sums are kept in registers, in ACC. A long sum is computed in parts of `depth` along k, each a matrix of its own.

#include "bulk_units.h"

struct Params {
    unsigned m, k, n, depth, parts;
    unsigned a_offset, a_elements, a_lines, a_batches, a_line, a_batch;
    unsigned b_offset, b_elements, b_lines, b_batches, b_line, b_batch;
    unsigned out_offset, out_batch, out_row, out_column;
};

constexpr unsigned SUBGROUPS = TILE_M / 16, THREADS = 32 * (SUBGROUPS + 1);
constexpr unsigned STEP = 16, BOX = 64;  // along k of a product; rows or columns of a box across k
constexpr unsigned LINE_BYTES = 128, EIGHT_LINES = 8 * LINE_BYTES, BOX_BYTES = BOX * LINE_BYTES;
constexpr unsigned A_BYTES = TILE_M * LINE_BYTES, B_BYTES = TILE_N * LINE_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr unsigned BAND = 8;  // rows of tiles whose workgroups run about together, and share what they read of b
static_assert(WORKGROUP_X == THREADS && TILE_M % BOX == 0 && TILE_N % BOX == 0 && TILE_K * sizeof(T) == LINE_BYTES && TILE_K == BOX);

extern "C" __global__ void __launch_bounds__(THREADS)
atlas_matmul_bulk(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, OUT* out, Params params, Epilogue epilogue) {
    unsigned char* tiles = dynamic_memory();
    Barrier* full = reinterpret_cast<Barrier*>(tiles + STAGES * STAGE_BYTES);
    Barrier* empty = full + STAGES;
    // Workgroups in order go down a band of rows, then to the next columns.
    const unsigned rows = (params.m + TILE_M - 1) / TILE_M, columns = (params.n + TILE_N - 1) / TILE_N;
    const unsigned number = blockIdx.y * columns + blockIdx.x, band = number / (BAND * columns) * BAND;
    const unsigned height = min(rows - band, BAND), within = number - band * columns;
    const unsigned first_row = (band + within % height) * TILE_M, first_column = within / height * TILE_N;
    const unsigned subgroup = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned start = blockIdx.z % params.parts * params.depth, batch = blockIdx.z / params.parts;
    const unsigned turns = (min(params.k - start, params.depth) + TILE_K - 1) / TILE_K;

    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            init_barrier(full + stage, 1);
            init_barrier(empty + stage, SUBGROUPS);
        }
        announce_barriers();
    }
    __syncthreads();

    if (subgroup == SUBGROUPS) {
        // Ask for the copies, each as soon as its stage is empty.
        if (lane != 0) return;
        const unsigned a_batch = params.a_batches > 1 ? batch : 0, b_batch = params.b_batches > 1 ? batch : 0;
        for (unsigned turn = 0; turn < turns; turn++) {
            const unsigned stage = turn % STAGES, step = start + turn * TILE_K;
            wait_for_phase(empty + stage, turn / STAGES % 2 ^ 1);
            arrive_expecting(full + stage, STAGE_BYTES);
            unsigned char* a_tile = tiles + stage * STAGE_BYTES;
            unsigned char* b_tile = a_tile + A_BYTES;
            if (A_ALONG_K) copy_box(a_tile, a, step, first_row, a_batch, full + stage);
            else for (unsigned i = 0; i < TILE_M / BOX; i++) copy_box(a_tile + i * BOX_BYTES, a, first_row + i * BOX, step, a_batch, full + stage);
            if (B_ALONG_K) copy_box(b_tile, b, step, first_column, b_batch, full + stage);
            else for (unsigned i = 0; i < TILE_N / BOX; i++) copy_box(b_tile + i * BOX_BYTES, b, first_column + i * BOX, step, b_batch, full + stage);
        }
        return;
    }

    ACC c[TILE_N / 2] = {};
    for (unsigned turn = 0; turn < turns; turn++) {
        const unsigned stage = turn % STAGES;
        const unsigned char* a_tile = tiles + stage * STAGE_BYTES;
        const unsigned long long left = described(a_tile + subgroup / 4 * BOX_BYTES, BOX_BYTES, EIGHT_LINES);
        const unsigned long long right = described(a_tile + A_BYTES, BOX_BYTES, EIGHT_LINES);
        wait_for_phase(full + stage, turn / STAGES % 2);

        // Multiply.
        start_products();
#pragma unroll
        for (unsigned step = 0; step < TILE_K; step += STEP)
            multiply_tiles<!A_ALONG_K, !B_ALONG_K>(c, further(left, step * (A_ALONG_K ? sizeof(T) : LINE_BYTES)),
                                                   further(right, step * (B_ALONG_K ? sizeof(T) : LINE_BYTES)), T());
        commit_products();
        // The turn before this is done: its stage may be filled again.
        wait_for_products<1>();
        if (turn > 0 && lane == 0) arrive(empty + (turn - 1) % STAGES);
    }
    wait_for_products<0>();

    // Store.
    struct alignas(2 * sizeof(OUT)) Pair {
        OUT first, second;
    };
    OUT* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch;
    const unsigned batch_row = blockIdx.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (unsigned j = 0; j < TILE_N / 8; j++)
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
            const unsigned row = first_row + 16 * subgroup + lane / 4 + 8 * half;
            const unsigned column = first_column + 8 * j + lane % 4 * 2;
            if (row >= params.m || column >= params.n) continue;
            OUT* place = out_start + (size_t)row * params.out_row + (size_t)column * params.out_column;
            const OUT first = (OUT)epilogue(c[4 * j + 2 * half], batch_row + row, column);
            if (column + 1 == params.n) {
                *place = first;
                continue;
            }
            const OUT second = (OUT)epilogue(c[4 * j + 2 * half + 1], batch_row + row, column + 1);
            if (OUT_PAIRS) {
                *reinterpret_cast<Pair*>(place) = Pair{first, second};
            } else {
                place[0] = first;
                place[params.out_column] = second;
            }
        }
}
