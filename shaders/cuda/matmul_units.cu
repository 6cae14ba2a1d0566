// matmul_units: out = epilogue(a @ b), batched, by matrix units; a workgroup computes TILE_M x TILE_N results, each of its SUBGROUPS_M x SUBGROUPS_N subgroups an equal part of them, in fragments of 16 x 8.
//
// Tiles of a and b come through shared memory, TILE_K along k, as they lie: lines along k or across it. While one is
// multiplied, STAGES - 1 are on their way. Sums are kept in registers, in ACC. Operands of
// f32 are rounded to tf32.

#include "shared_tile.h"

struct Params {
    unsigned m, k, n;
    unsigned a_offset, a_batch, a_row, a_column;
    unsigned b_offset, b_batch, b_row, b_column;
    unsigned out_offset, out_batch, out_row, out_column;
};

constexpr unsigned THREADS = WORKGROUP_X;
constexpr unsigned SUBGROUP_M = TILE_M / SUBGROUPS_M, SUBGROUP_N = TILE_N / SUBGROUPS_N;
constexpr unsigned FRAGMENTS_M = SUBGROUP_M / 16, FRAGMENTS_N = SUBGROUP_N / 8;
constexpr unsigned STEP = 32 / sizeof(T);  // along k of a fragment
constexpr unsigned BAND = 8;  // rows of tiles whose workgroups run about together, and share what they read of b
static_assert(THREADS == 32 * SUBGROUPS_M * SUBGROUPS_N && SUBGROUP_M % 16 == 0 && SUBGROUP_N % 16 == 0 && TILE_K % STEP == 0);

using ATile = SharedTile<T, A_ALONG_K ? TILE_M : TILE_K, A_ALONG_K ? TILE_K : TILE_M>;
using BTile = SharedTile<T, B_ALONG_K ? TILE_N : TILE_K, B_ALONG_K ? TILE_K : TILE_N>;

extern "C" __global__ void __launch_bounds__(THREADS)
atlas_matmul_units(const T* a, const T* b, OUT* out, Params params, Epilogue epilogue) {
    alignas(16) __shared__ T a_tiles[STAGES][TILE_M * TILE_K];
    alignas(16) __shared__ T b_tiles[STAGES][TILE_N * TILE_K];
    // Workgroups in order go down a band of rows, then to the next columns.
    const unsigned rows = (params.m + TILE_M - 1) / TILE_M, columns = (params.n + TILE_N - 1) / TILE_N;
    const unsigned number = blockIdx.y * columns + blockIdx.x, band = number / (BAND * columns) * BAND;
    const unsigned height = min(rows - band, BAND), within = number - band * columns;
    const unsigned first_row = (band + within % height) * TILE_M, first_column = within / height * TILE_N;
    const unsigned subgroup = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned own_row = subgroup / SUBGROUPS_N * SUBGROUP_M, own_column = subgroup % SUBGROUPS_N * SUBGROUP_N;
    const T* a_start = a + params.a_offset + (size_t)blockIdx.z * params.a_batch;
    const T* b_start = b + params.b_offset + (size_t)blockIdx.z * params.b_batch;

    const auto load = [&](unsigned turn) {
        const unsigned stage = turn % STAGES, step = turn * TILE_K;
        if (A_ALONG_K) ATile::load<A_WHOLE, THREADS>(a_tiles[stage], a_start, params.a_row, params.a_column, first_row, params.m, step, params.k);
        else ATile::load<A_WHOLE, THREADS>(a_tiles[stage], a_start, params.a_column, params.a_row, step, params.k, first_row, params.m);
        if (B_ALONG_K) BTile::load<B_WHOLE, THREADS>(b_tiles[stage], b_start, params.b_column, params.b_row, first_column, params.n, step, params.k);
        else BTile::load<B_WHOLE, THREADS>(b_tiles[stage], b_start, params.b_row, params.b_column, step, params.k, first_column, params.n);
    };

    const unsigned turns = (params.k + TILE_K - 1) / TILE_K;
    for (unsigned turn = 0; turn < STAGES - 1; turn++) {
        if (turn < turns) load(turn);
        commit_copies();
    }
    ACC c[FRAGMENTS_M][FRAGMENTS_N][4] = {};
    for (unsigned turn = 0; turn < turns; turn++) {
        // All have what they copied for this turn, and are done with the stage that is filled next.
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        if (turn + STAGES - 1 < turns) load(turn + STAGES - 1);
        commit_copies();

        // Multiply.
        const T* a_tile = a_tiles[turn % STAGES];
        const T* b_tile = b_tiles[turn % STAGES];
#pragma unroll
        for (unsigned step = 0; step < TILE_K; step += STEP) {
            unsigned left[FRAGMENTS_M][4], right[FRAGMENTS_N / 2][4];
#pragma unroll
            for (unsigned i = 0; i < FRAGMENTS_M; i++) {
                const unsigned row = own_row + 16 * i;
                if (A_ALONG_K) ATile::template fragments<false, false>(left[i], a_tile, row, step);
                else ATile::template fragments<true, true>(left[i], a_tile, step, row);
            }
#pragma unroll
            for (unsigned j = 0; j < FRAGMENTS_N / 2; j++) {
                const unsigned column = own_column + 16 * j;
                if (B_ALONG_K) BTile::template fragments<true, false>(right[j], b_tile, column, step);
                else BTile::template fragments<false, true>(right[j], b_tile, step, column);
            }
#pragma unroll
            for (unsigned i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
                for (unsigned j = 0; j < FRAGMENTS_N; j++)
                    multiply_add(c[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], T());
        }
    }

    // Store.
    struct alignas(2 * sizeof(OUT)) Pair {
        OUT first, second;
    };
    OUT* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch;
    const unsigned batch_row = blockIdx.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (unsigned i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (unsigned j = 0; j < FRAGMENTS_N; j++)
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                const unsigned row = first_row + own_row + 16 * i + lane / 4 + 8 * half;
                const unsigned column = first_column + own_column + 8 * j + lane % 4 * 2;
                if (row >= params.m || column >= params.n) continue;
                OUT* place = out_start + (size_t)row * params.out_row + (size_t)column * params.out_column;
                const OUT first = (OUT)epilogue(c[i][j][2 * half], batch_row + row, column);
                if (column + 1 == params.n) {
                    *place = first;
                    continue;
                }
                const OUT second = (OUT)epilogue(c[i][j][2 * half + 1], batch_row + row, column + 1);
                if (OUT_PAIRS) {
                    *reinterpret_cast<Pair*>(place) = Pair{first, second};
                } else {
                    place[0] = first;
                    place[params.out_column] = second;
                }
            }
}
