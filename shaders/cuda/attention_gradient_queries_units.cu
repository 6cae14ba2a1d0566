// attention_gradient_queries_units: dq = (p (cotangent vᵀ - mean)) k scale for p = softmax(q kᵀ scale + mask), by matrix units; a subgroup computes 16 rows of dq, a workgroup WORKGROUP_X / 2 rows of one head.
//
// Dao, FlashAttention-2 (2023), algorithm 2, as two kernels without atomics, so that results are the same every time.
// A first pass over the keys makes each row's log-sum-exp, as its maximum and what the sum is above it (a mask's -1e9 swallows
// that), and mean = rowsum(p (cotangent vᵀ)), that paper's D; the other kernel reads them too; a second one makes weights again and adds up dq. Scores are powers of 2.

#include "attention_gradient.h"

extern "C" __global__ void __launch_bounds__(THREADS)
atlas_attention_gradient_queries_units(const T* q, const T* k, const T* v, const float* mask, const T* cotangent, float* lse, float* mean, float* dq, Params params) {
    alignas(16) __shared__ T q_tile[ROWS * HEAD];
    alignas(16) __shared__ T c_tile[ROWS * HEAD];
    alignas(16) __shared__ T k_tile[STEP * HEAD];
    alignas(16) __shared__ T v_tile[STEP * HEAD];
    using Rows = SharedTile<T, ROWS, HEAD>;
    using Some = SharedTile<T, STEP, HEAD>;
    const unsigned lane = threadIdx.x % 32, pair = lane % 4 * 2, own = threadIdx.x / 32 * 16;
    const unsigned head = blockIdx.y / params.groups, group = blockIdx.y % params.groups;
    const unsigned tile_row = blockIdx.x * ROWS, first_row = tile_row + own + lane / 4;
    const T *q_start = START(q), *k_start = START(k), *v_start = START(v), *c_start = START(cotangent);
    const float* mask_start = START(mask);
    Rows::load<Q_WHOLE, THREADS>(q_tile, q_start, params.q_row, params.q_column, tile_row, params.l, 0, params.e);
    Rows::load<C_WHOLE, THREADS>(c_tile, c_start, params.cotangent_row, params.cotangent_column, tile_row, params.l, 0, params.ev);
    commit_copies();

    const unsigned stop = CAUSAL ? min(params.s, tile_row + ROWS) : params.s;
    const float scale = params.scale * LOG2_E;
    float sum[HEAD / 8][4] = {};
    float top[2] = {LOWEST, LOWEST}, total[2] = {}, weighted[2] = {}, above[2];
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned start = 0; start < stop; start += STEP) {
            // All are done with the keys before.
            __syncthreads();
            Some::load<K_WHOLE, THREADS>(k_tile, k_start, params.k_row, params.k_column, start, params.s, 0, params.e);
            Some::load<V_WHOLE, THREADS>(v_tile, v_start, params.v_row, params.v_column, start, params.s, 0, params.ev);
            commit_copies();
            wait_for_copies<0>();
            __syncthreads();
            float score[STEP / 8][4] = {}, change[STEP / 8][4] = {};
            products<ROWS, STEP>(score, q_tile, own, k_tile);
            products<ROWS, STEP>(change, c_tile, own, v_tile);
            float highest[2] = {top[0], top[1]};
#pragma unroll
            for (unsigned j = 0; j < STEP / 8; j++)
#pragma unroll
                for (unsigned part = 0; part < 4; part++) {
                    const unsigned row = first_row + part / 2 * 8, column = start + 8 * j + pair + part % 2;
                    float value = score[j][part] * scale, added = 0.0f;
                    if (MASKED && row < params.l && column < params.s)
                        added = mask_start[(size_t)row * params.mask_row + (size_t)column * params.mask_column];
                    const bool hidden = __float_as_uint(added) == 0xff800000u || column >= params.s || (CAUSAL && column > row);
                    value = hidden ? LOWEST : value + (added < LEAST ? LEAST : added) * LOG2_E;
                    score[j][part] = value;
                    highest[part / 2] = fmaxf(highest[part / 2], value);
                }
            if (pass == 0) {
#pragma unroll
                for (unsigned half = 0; half < 2; half++) {
                    highest[half] = of_row(highest[half], [](float x, float y) { return fmaxf(x, y); });
                    const float factor = exp2f(top[half] - highest[half]);
                    top[half] = highest[half], total[half] *= factor, weighted[half] *= factor;
                }
#pragma unroll
                for (unsigned j = 0; j < STEP / 8; j++)
#pragma unroll
                    for (unsigned part = 0; part < 4; part++) {
                        const float value = score[j][part], weight = value <= LOWEST ? 0.0f : exp2f(value - top[part / 2]);
                        total[part / 2] += weight;
                        weighted[part / 2] += weight * change[j][part];
                    }
            } else {
                // top and above are the log-sum-exp now, weighted the mean.
#pragma unroll
                for (unsigned j = 0; j < STEP / 8; j++)
#pragma unroll
                    for (unsigned part = 0; part < 4; part++) {
                        const float value = score[j][part], weight = value <= LOWEST ? 0.0f : exp2f(value - top[part / 2] - above[part / 2]);
                        score[j][part] = weight * (change[j][part] - weighted[part / 2]);
                    }
                add_products<STEP>(sum, score, k_tile);
            }
        }
        if (pass == 0)
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                const auto add = [](float x, float y) { return x + y; };
                const float all = of_row(total[half], add), some = of_row(weighted[half], add);
                above[half] = all == 0.0f ? 0.0f : log2f(all);
                weighted[half] = all == 0.0f ? 0.0f : some / all;
            }
    }
    const size_t line = ((size_t)blockIdx.z * params.heads + blockIdx.y) * params.l;
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        const unsigned row = first_row + 8 * half;
        if (row >= params.l) continue;
        if (lane % 4 == 0) {
            lse[2 * (line + row)] = top[half], lse[2 * (line + row) + 1] = above[half];
            mean[line + row] = weighted[half];
        }
#pragma unroll
        for (unsigned j = 0; j < HEAD / 8; j++)
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                const unsigned column = 8 * j + pair + i;
                if (column < params.e) dq[(line + row) * params.e + column] = sum[j][2 * half + i] * params.scale;
            }
    }
}
