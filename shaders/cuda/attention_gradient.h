// What the two kernels of attention's gradient by matrix units have in common.
#include "shared_tile.h"

struct Params {
    unsigned l, s, e, ev, heads, groups, shared;
    float scale;
    unsigned q_offset, q_batch, q_head, q_group, q_row, q_column;
    unsigned k_offset, k_batch, k_head, k_group, k_row, k_column;
    unsigned v_offset, v_batch, v_head, v_group, v_row, v_column;
    unsigned mask_offset, mask_batch, mask_head, mask_group, mask_row, mask_column;
    unsigned cotangent_offset, cotangent_batch, cotangent_head, cotangent_group, cotangent_row, cotangent_column;
};

constexpr unsigned THREADS = WORKGROUP_X, ROWS = THREADS / 2;
constexpr float LOWEST = -3.0e38f, LEAST = -1.0e38f;  // of hidden scores; of what a mask adds to others
constexpr float LOG2_E = 1.44269504f;

// c = a bᵀ for 16 lines of `left` from `line` on and all COUNT lines of `right`.
template <unsigned LEFT, unsigned COUNT>
__device__ inline void products(float (&c)[COUNT / 8][4], const T* left, unsigned line, const T* right) {
#pragma unroll
    for (unsigned i = 0; i < HEAD / 16; i++) {
        unsigned a[4];
        SharedTile<T, LEFT, HEAD>::template fragments<false, false>(a, left, line, 16 * i);
#pragma unroll
        for (unsigned j = 0; j < COUNT / 16; j++) {
            unsigned b[4];
            SharedTile<T, COUNT, HEAD>::template fragments<true, false>(b, right, 16 * j, 16 * i);
            multiply_add(c[2 * j], a, b[0], b[1], T());
            multiply_add(c[2 * j + 1], a, b[2], b[3], T());
        }
    }
}

// sum += a b for a in fragments of a result, b of COUNT lines.
template <unsigned COUNT>
__device__ inline void add_products(float (&sum)[HEAD / 8][4], const float (&a)[COUNT / 8][4], const T* right) {
#pragma unroll
    for (unsigned i = 0; i < COUNT / 16; i++) {
        unsigned left[4];
#pragma unroll
        for (unsigned part = 0; part < 4; part++) {
            const float* two = a[2 * i + part / 2] + part % 2 * 2;
            left[part] = packed((T)two[0], (T)two[1]);
        }
#pragma unroll
        for (unsigned j = 0; j < HEAD / 16; j++) {
            unsigned b[4];
            SharedTile<T, COUNT, HEAD>::template fragments<false, true>(b, right, 16 * i, 16 * j);
            multiply_add(sum[2 * j], left, b[0], b[1], T());
            multiply_add(sum[2 * j + 1], left, b[2], b[3], T());
        }
    }
}

#define START(name) (name + params.name##_offset + (size_t)blockIdx.z * params.name##_batch + (size_t)head * params.name##_head + (size_t)group * params.name##_group)
