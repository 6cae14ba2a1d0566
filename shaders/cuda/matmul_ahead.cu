// matmul_ahead: out = epilogue(a @ b), batched, of f32 in f32; a workgroup computes TILE_M x TILE_N results, a thread 8 x 8 of them, in four quads of 4 x 4.
//
// Tiles of a and b come through shared memory, TILE_K along k, lines across it, whatever the strides. While one is multiplied, STAGES - 1 are
// on their way: lines of 16 bytes where they lie so across k, else element by element, which turns them on the way.

#include "matrix_units.h"

struct Params {
    unsigned m, k, n;
    unsigned a_offset, a_batch, a_row, a_column;
    unsigned b_offset, b_batch, b_row, b_column;
    unsigned out_offset, out_batch, out_row, out_column;
};

constexpr unsigned THREADS = WORKGROUP_X;
constexpr unsigned QUAD = 4;
constexpr unsigned BAND = 8;  // rows of tiles whose workgroups run about together, and share what they read of b
constexpr unsigned LANES_N = 8, LANES_M = 4;  // of a subgroup along both
constexpr unsigned SUBGROUPS_N = TILE_N / (2 * QUAD * LANES_N);
// A piece of padding a line, against bank conflicts where lines are written crosswise.
constexpr unsigned A_LINE = TILE_M + QUAD, B_LINE = TILE_N + QUAD;
static_assert(64 * THREADS == TILE_M * TILE_N && TILE_N % (2 * QUAD * LANES_N) == 0 && TILE_M % (2 * QUAD * LANES_M) == 0 && TILE_K % QUAD == 0);

// Fills lines of LENGTH elements from (first_step, first) on of what has `steps` x `length`, with zeros outside, by all threads.
// LINES: elements of a line lie next to each other, and lines begin at multiples of 16 bytes.
template <bool LINES, bool ALONG_K, unsigned LENGTH>
__device__ inline void bring(float* tile, const float* start, size_t step_stride, size_t stride, unsigned first_step, unsigned steps, unsigned first, unsigned length) {
    static_assert(TILE_K * LENGTH % (QUAD * THREADS) == 0);
    if constexpr (LINES) {
#pragma unroll
        for (unsigned first_piece = 0; first_piece < TILE_K * LENGTH / QUAD; first_piece += THREADS) {
            const unsigned i = first_piece + threadIdx.x;
            const unsigned line = i / (LENGTH / QUAD), place = i % (LENGTH / QUAD) * QUAD;
            const unsigned step = first_step + line, position = first + place;
            const bool inside = step < steps && position < length;
            const unsigned count = inside ? min(length - position, QUAD) : 0;
            copy_16_bytes(tile + line * (LENGTH + QUAD) + place, inside ? start + step * step_stride + position : start, 4 * count);
        }
    } else {
        // Neighbouring threads take neighbours in memory.
#pragma unroll
        for (unsigned first_element = 0; first_element < TILE_K * LENGTH; first_element += THREADS) {
            const unsigned i = first_element + threadIdx.x;
            const unsigned line = ALONG_K ? i % TILE_K : i / LENGTH, place = ALONG_K ? i / TILE_K : i % LENGTH;
            const unsigned step = first_step + line, position = first + place;
            const bool inside = step < steps && position < length;
            copy_4_bytes(tile + line * (LENGTH + QUAD) + place, inside ? start + step * step_stride + position * stride : start, inside);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)
atlas_matmul_ahead(const T* a, const T* b, T* out, Params params, Epilogue epilogue) {
    alignas(16) __shared__ T a_tiles[STAGES][TILE_K * A_LINE];
    alignas(16) __shared__ T b_tiles[STAGES][TILE_K * B_LINE];
    // Workgroups in order go down a band of rows, then to the next columns.
    const unsigned rows = (params.m + TILE_M - 1) / TILE_M, columns = (params.n + TILE_N - 1) / TILE_N;
    const unsigned number = blockIdx.y * columns + blockIdx.x, band = number / (BAND * columns) * BAND;
    const unsigned height = min(rows - band, BAND), within = number - band * columns;
    const unsigned first_row = (band + within % height) * TILE_M, first_column = within / height * TILE_N;
    const unsigned subgroup = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned own_row = (subgroup / SUBGROUPS_N * LANES_M + lane / LANES_N) * QUAD;
    const unsigned own_column = (subgroup % SUBGROUPS_N * LANES_N + lane % LANES_N) * QUAD;
    const T* a_start = a + params.a_offset + (size_t)blockIdx.z * params.a_batch;
    const T* b_start = b + params.b_offset + (size_t)blockIdx.z * params.b_batch;

    const auto load = [&](unsigned turn) {
        const unsigned stage = turn % STAGES, step = turn * TILE_K;
        bring<A_WHOLE && !A_ALONG_K, A_ALONG_K, TILE_M>(a_tiles[stage], a_start, params.a_column, params.a_row, step, params.k, first_row, params.m);
        bring<B_WHOLE && !B_ALONG_K, B_ALONG_K, TILE_N>(b_tiles[stage], b_start, params.b_row, params.b_column, step, params.k, first_column, params.n);
    };

    const unsigned turns = (params.k + TILE_K - 1) / TILE_K;
    for (unsigned turn = 0; turn < STAGES - 1; turn++) {
        if (turn < turns) load(turn);
        commit_copies();
    }
    ACC c[2 * QUAD][2 * QUAD] = {};
    for (unsigned turn = 0; turn < turns; turn++) {
        // All have what they copied for this turn, and are done with the stage that is filled next.
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        if (turn + STAGES - 1 < turns) load(turn + STAGES - 1);
        commit_copies();

        // Multiply: outer products, of quads that are read whole.
        const T* a_tile = a_tiles[turn % STAGES] + own_row;
        const T* b_tile = b_tiles[turn % STAGES] + own_column;
#pragma unroll
        for (unsigned line = 0; line < TILE_K; line++) {
            alignas(16) T left[2 * QUAD], right[2 * QUAD];
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                *reinterpret_cast<float4*>(left + QUAD * half) = *reinterpret_cast<const float4*>(a_tile + line * A_LINE + half * TILE_M / 2);
                *reinterpret_cast<float4*>(right + QUAD * half) = *reinterpret_cast<const float4*>(b_tile + line * B_LINE + half * TILE_N / 2);
            }
#pragma unroll
            for (unsigned i = 0; i < 2 * QUAD; i++)
#pragma unroll
                for (unsigned j = 0; j < 2 * QUAD; j++) c[i][j] = fmaf(left[i], right[j], c[i][j]);
        }
    }

    // Store: quads of a row at once where they lie so.
    T* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch;
    const unsigned batch_row = blockIdx.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (unsigned i = 0; i < 2 * QUAD; i++) {
        const unsigned row = first_row + own_row + i % QUAD + i / QUAD * TILE_M / 2;
        if (row >= params.m) continue;
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
            const unsigned column = first_column + own_column + half * TILE_N / 2;
            T* place = out_start + (size_t)row * params.out_row + (size_t)column * params.out_column;
            if (OUT_QUADS && column + QUAD <= params.n) {
                *reinterpret_cast<float4*>(place) = make_float4(
                    epilogue(c[i][QUAD * half], batch_row + row, column), epilogue(c[i][QUAD * half + 1], batch_row + row, column + 1),
                    epilogue(c[i][QUAD * half + 2], batch_row + row, column + 2), epilogue(c[i][QUAD * half + 3], batch_row + row, column + 3));
                continue;
            }
#pragma unroll
            for (unsigned j = 0; j < QUAD; j++)
                if (column + j < params.n) place[(size_t)j * params.out_column] = epilogue(c[i][QUAD * half + j], batch_row + row, column + j);
        }
    }
}
