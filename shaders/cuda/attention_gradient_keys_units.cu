// attention_gradient_keys_units: dv = pᵀ cotangent, dk = (p (cotangent vᵀ - mean))ᵀ q scale for p = softmax(q kᵀ scale + mask), by matrix units; a subgroup computes 16 rows of both, a workgroup WORKGROUP_X / 2 rows of one head.
//
// Dao, FlashAttention-2 (2023), algorithm 2, as two kernels without atomics, so that results are the same every time.
// Each block of keys goes over the queries, and over all `shared` neighbouring groups that have the same keys.

#include "attention_gradient.h"

extern "C" __global__ void __launch_bounds__(THREADS)
atlas_attention_gradient_keys_units(const T* q, const T* k, const T* v, const float* mask, const T* cotangent, const float* lse, const float* mean, float* dk, float* dv, Params params) {
    alignas(16) __shared__ T k_tile[ROWS * HEAD];
    alignas(16) __shared__ T v_tile[ROWS * HEAD];
    alignas(16) __shared__ T q_tile[STEP * HEAD];
    alignas(16) __shared__ T c_tile[STEP * HEAD];
    using Rows = SharedTile<T, ROWS, HEAD>;
    using Some = SharedTile<T, STEP, HEAD>;
    const unsigned lane = threadIdx.x % 32, pair = lane % 4 * 2, own = threadIdx.x / 32 * 16;
    const unsigned tile_key = blockIdx.x * ROWS, first_key = tile_key + own + lane / 4;
    float k_sum[HEAD / 8][4] = {}, v_sum[HEAD / 8][4] = {};
    const float scale = params.scale * LOG2_E;
    for (unsigned member = 0; member < params.shared; member++) {
        const unsigned number = blockIdx.y * params.shared + member;
        const unsigned head = number / params.groups, group = number % params.groups;
        const T *q_start = START(q), *k_start = START(k), *v_start = START(v), *c_start = START(cotangent);
        const float* mask_start = START(mask);
        const size_t line = ((size_t)blockIdx.z * params.heads + number) * params.l;
        if (member == 0) {
            Rows::load<K_WHOLE, THREADS>(k_tile, k_start, params.k_row, params.k_column, tile_key, params.s, 0, params.e);
            Rows::load<V_WHOLE, THREADS>(v_tile, v_start, params.v_row, params.v_column, tile_key, params.s, 0, params.ev);
        }
        // Causal queries before the block look at none of its keys.
        for (unsigned start = CAUSAL ? tile_key / STEP * STEP : 0; start < params.l; start += STEP) {
            __syncthreads();
            Some::load<Q_WHOLE, THREADS>(q_tile, q_start, params.q_row, params.q_column, start, params.l, 0, params.e);
            Some::load<C_WHOLE, THREADS>(c_tile, c_start, params.cotangent_row, params.cotangent_column, start, params.l, 0, params.ev);
            commit_copies();
            wait_for_copies<0>();
            __syncthreads();
            float weight[STEP / 8][4] = {}, change[STEP / 8][4] = {};
            products<ROWS, STEP>(weight, k_tile, own, q_tile);
            products<ROWS, STEP>(change, v_tile, own, c_tile);
#pragma unroll
            for (unsigned j = 0; j < STEP / 8; j++)
#pragma unroll
                for (unsigned part = 0; part < 4; part++) {
                    const unsigned key = first_key + part / 2 * 8, row = start + 8 * j + pair + part % 2;
                    bool counts = row < params.l && key < params.s && !(CAUSAL && key > row);
                    const float added = MASKED && counts ? mask_start[(size_t)row * params.mask_row + (size_t)key * params.mask_column] : 0.0f;
                    counts = counts && __float_as_uint(added) != 0xff800000u;
                    const float value = counts ? weight[j][part] * scale + (added < LEAST ? LEAST : added) * LOG2_E : LOWEST;
                    const float share = value <= LOWEST ? 0.0f : exp2f(value - lse[2 * (line + row)] - lse[2 * (line + row) + 1]);
                    weight[j][part] = share;
                    change[j][part] = share * (change[j][part] - (counts ? mean[line + row] : 0.0f));
                }
            add_products<STEP>(v_sum, weight, c_tile);
            add_products<STEP>(k_sum, change, q_tile);
        }
    }
    const size_t line = ((size_t)blockIdx.z * (params.heads / params.shared) + blockIdx.y) * params.s;
#pragma unroll
    for (unsigned part = 0; part < 4; part++) {
        const unsigned key = first_key + part / 2 * 8;
        if (key >= params.s) continue;
#pragma unroll
        for (unsigned j = 0; j < HEAD / 8; j++) {
            const unsigned column = 8 * j + pair + part % 2;
            if (column < params.e) dk[(line + key) * params.e + column] = k_sum[j][part] * params.scale;
            if (column < params.ev) dv[(line + key) * params.ev + column] = v_sum[j][part];
        }
    }
}
