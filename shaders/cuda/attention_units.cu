// attention_units: out = softmax(q kᵀ scale + mask) v with an online softmax, by matrix units; a subgroup computes 16 rows of out, a workgroup WORKGROUP_X / 2 rows of one head.
//
// Keys and values come through shared memory, KEYS at a time, the next while these are used. Queries, scores and sums
// stay in fragments: the scores' places are those of a left operand, so weights go from one product into the other.
// A mask's -infinity hides a score, which is LOWEST then. A row's maximum so far rescales its sums (Milakov and Gimelshein 2018, Dao 2023).

#include "bulk_units.h"
#include "shared_tile.h"

struct Params {
    unsigned l, s, e, ev, groups;
    float scale;
    unsigned q_offset, q_batch, q_head, q_group, q_row, q_column;
    unsigned k_offset, k_batch, k_head, k_group, k_row, k_column;
    unsigned v_offset, v_batch, v_head, v_group, v_row, v_column;
    unsigned mask_offset, mask_batch, mask_head, mask_group, mask_row, mask_column;
    unsigned out_offset, out_batch, out_head, out_group, out_row, out_column;
};

constexpr unsigned THREADS = WORKGROUP_X, ROWS = THREADS / 2;
constexpr float LOWEST = -3.0e38f, LEAST = -1.0e38f;  // of hidden scores; of what a mask adds to others
constexpr float LOG2_E = 1.44269504f;

using Tile = SharedTile<T, KEYS, HEAD>;

extern "C" __global__ void __launch_bounds__(THREADS)
atlas_attention_units(const T* q, const T* k, const T* v, const float* mask, T* out, Params params) {
    T* k_tiles = reinterpret_cast<T*>(dynamic_memory());  // two turns of keys, then of values
    T* v_tiles = k_tiles + 2 * KEYS * HEAD;
    const unsigned lane = threadIdx.x % 32, pair = lane % 4 * 2;
    const unsigned head = blockIdx.y / params.groups, group = blockIdx.y % params.groups;
    // Causal rows further down take longer, so they begin first.
    const unsigned tiles = (params.l + ROWS - 1) / ROWS;
    const unsigned tile_row = (CAUSAL ? tiles - 1 - blockIdx.x : blockIdx.x) * ROWS;
    const unsigned first_row = tile_row + threadIdx.x / 32 * 16 + lane / 4;  // and the eighth after it
    const T* q_start = q + params.q_offset + (size_t)blockIdx.z * params.q_batch + (size_t)head * params.q_head + (size_t)group * params.q_group;
    const T* k_start = k + params.k_offset + (size_t)blockIdx.z * params.k_batch + (size_t)head * params.k_head + (size_t)group * params.k_group;
    const T* v_start = v + params.v_offset + (size_t)blockIdx.z * params.v_batch + (size_t)head * params.v_head + (size_t)group * params.v_group;
    const float* mask_start = mask + params.mask_offset + (size_t)blockIdx.z * params.mask_batch + (size_t)head * params.mask_head + (size_t)group * params.mask_group;

    // A causal row looks at no key after itself.
    const unsigned stop = CAUSAL ? min(params.s, tile_row + ROWS) : params.s;
    const auto load = [&](unsigned turn) {
        Tile::load<K_WHOLE, THREADS>(k_tiles + turn % 2 * KEYS * HEAD, k_start, params.k_row, params.k_column, turn * KEYS, params.s, 0, params.e);
        Tile::load<V_WHOLE, THREADS>(v_tiles + turn % 2 * KEYS * HEAD, v_start, params.v_row, params.v_column, turn * KEYS, params.s, 0, params.ev);
    };
    load(0);
    commit_copies();

    const auto query_at = [&](unsigned row, unsigned column) {
        return row < params.l && column < params.e ? q_start[(size_t)row * params.q_row + (size_t)column * params.q_column] : (T)0.0f;
    };
    unsigned query[HEAD / 16][4];
#pragma unroll
    for (unsigned i = 0; i < HEAD / 16; i++)
#pragma unroll
        for (unsigned part = 0; part < 4; part++) {
            const unsigned row = first_row + part % 2 * 8, column = 16 * i + pair + part / 2 * 8;
            query[i][part] = packed(query_at(row, column), query_at(row, column + 1));
        }

    float sum[HEAD / 8][4] = {};
    float top[2] = {LOWEST, LOWEST}, total[2] = {};
    const float scale = params.scale * LOG2_E;
    for (unsigned turn = 0; turn * KEYS < stop; turn++) {
        // All have what they copied for this turn, and are done with what is filled next.
        wait_for_copies<0>();
        __syncthreads();
        if ((turn + 1) * KEYS < stop) load(turn + 1);
        commit_copies();

        // Scores, in powers of 2.
        float score[KEYS / 8][4] = {};
#pragma unroll
        for (unsigned i = 0; i < HEAD / 16; i++)
#pragma unroll
            for (unsigned j = 0; j < KEYS / 16; j++) {
                unsigned right[4];
                Tile::fragments<true, false>(right, k_tiles + turn % 2 * KEYS * HEAD, 16 * j, 16 * i);
                multiply_add(score[2 * j], query[i], right[0], right[1], T());
                multiply_add(score[2 * j + 1], query[i], right[2], right[3], T());
            }
        // Most turns hide nothing: their keys are all there, and before the first row.
        const bool whole = !MASKED && (turn + 1) * KEYS <= params.s && !(CAUSAL && (turn + 1) * KEYS > tile_row + 1);
        float highest[2] = {top[0], top[1]};
#pragma unroll
        for (unsigned j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (unsigned part = 0; part < 4; part++) score[j][part] *= scale;
        if (!whole) {
#pragma unroll
            for (unsigned j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (unsigned part = 0; part < 4; part++) {
                    const unsigned row = first_row + part / 2 * 8, column = turn * KEYS + 8 * j + pair + part % 2;
                    float added = 0.0f;
                    if (MASKED && row < params.l && column < params.s)
                        added = mask_start[(size_t)row * params.mask_row + (size_t)column * params.mask_column];
                    const bool hidden = __float_as_uint(added) == 0xff800000u || column >= params.s || (CAUSAL && column > row);
                    if (hidden) score[j][part] = LOWEST;
                    else if (MASKED) score[j][part] += (added < LEAST ? LEAST : added) * LOG2_E;
                }
        }
#pragma unroll
        for (unsigned j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (unsigned part = 0; part < 4; part++) highest[part / 2] = fmaxf(highest[part / 2], score[j][part]);

        // A higher maximum rescales what was summed up before.
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
            highest[half] = of_row(highest[half], [](float x, float y) { return fmaxf(x, y); });
            const float factor = exp2f(top[half] - highest[half]);
            top[half] = highest[half];
            total[half] *= factor;
#pragma unroll
            for (unsigned j = 0; j < HEAD / 8; j++) sum[j][2 * half] *= factor, sum[j][2 * half + 1] *= factor;
        }
#pragma unroll
        for (unsigned j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (unsigned part = 0; part < 4; part++) {
                const float value = score[j][part], power = exp2f(value - top[part / 2]);
                const float weight = !whole && value <= LOWEST ? 0.0f : power;
                total[part / 2] += weight;
                score[j][part] = weight;
            }

        // Sums of values.
#pragma unroll
        for (unsigned i = 0; i < KEYS / 16; i++) {
            unsigned weights[4];
#pragma unroll
            for (unsigned part = 0; part < 4; part++) {
                const float* two = score[2 * i + part / 2] + part % 2 * 2;
                weights[part] = packed((T)two[0], (T)two[1]);
            }
#pragma unroll
            for (unsigned j = 0; j < HEAD / 16; j++) {
                unsigned right[4];
                Tile::fragments<false, true>(right, v_tiles + turn % 2 * KEYS * HEAD, 16 * i, 16 * j);
                multiply_add(sum[2 * j], weights, right[0], right[1], T());
                multiply_add(sum[2 * j + 1], weights, right[2], right[3], T());
            }
        }
    }

    // Store.
    T* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch + (size_t)head * params.out_head + (size_t)group * params.out_group;
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        const unsigned row = first_row + 8 * half;
        const float all = of_row(total[half], [](float x, float y) { return x + y; });
        const float share = 1.0f / (all == 0.0f ? 1.0f : all);
#pragma unroll
        for (unsigned j = 0; j < HEAD / 8; j++)
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                const unsigned column = 8 * j + pair + i;
                if (row < params.l && column < params.ev)
                    out_start[(size_t)row * params.out_row + (size_t)column * params.out_column] = (T)(sum[j][2 * half + i] * share);
            }
    }
}
