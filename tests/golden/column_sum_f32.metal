// atlas_column_sum_f32: x -> out, over 2 axes, the last 1 reduced; 256 threads a workgroup, 256 a row.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
    uint extent_1;
};

static inline float term_0(device const float* x, device float* out, constant Parameters& p, uint i0, uint i1) {
    const uint v3 = i1 * p.extent_0;
    const uint v4 = v3 + i0;
    const float v5 = x[v4];
    return v5;
}

kernel void atlas_column_sum_f32(
    device const float* x [[buffer(0)]],
    device float* out [[buffer(1)]],
    constant Parameters& p [[buffer(2)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    threadgroup float partial_f32[8];
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    const uint number = group;
    const uint member = thread_index;
    const bool inside = number < lanes;
    const uint lane = min(number, lanes - 1u);
    const uint i0 = lane;
    float v6_0 = 0.0f;
    float before6_0 = 0.0f;
    float v6_1 = 0.0f;
    float before6_1 = 0.0f;
    float v6_2 = 0.0f;
    float before6_2 = 0.0f;
    float v6_3 = 0.0f;
    float before6_3 = 0.0f;
    {
        const uint length = inside ? p.extent_1 : 0u;
        uint start = member;
        const uint stop = length - min(length, 768u);
        for (uint block = start; block < stop; block += 32768u) {
            const uint block_end = min(block + 32768u, stop);
            for (uint next = block; next < block_end; next += 1024u) {
                {
                    const uint i1 = next;
                    const float e0 = term_0(x, out, p, i0, i1);
                    v6_0 = v6_0 + e0;
                }
                {
                    const uint i1 = next + 256u;
                    const float e1 = term_0(x, out, p, i0, i1);
                    v6_1 = v6_1 + e1;
                }
                {
                    const uint i1 = next + 512u;
                    const float e2 = term_0(x, out, p, i0, i1);
                    v6_2 = v6_2 + e2;
                }
                {
                    const uint i1 = next + 768u;
                    const float e3 = term_0(x, out, p, i0, i1);
                    v6_3 = v6_3 + e3;
                }
                start = next + 1024u;
            }
            before6_0 = before6_0 + v6_0;
            v6_0 = 0.0f;
            before6_1 = before6_1 + v6_1;
            v6_1 = 0.0f;
            before6_2 = before6_2 + v6_2;
            v6_2 = 0.0f;
            before6_3 = before6_3 + v6_3;
            v6_3 = 0.0f;
        }
        for (uint i1 = start; i1 < length; i1 += 256u) {
            const float e0 = term_0(x, out, p, i0, i1);
            v6_0 = v6_0 + e0;
        }
    }
    v6_0 = before6_0 + v6_0;
    v6_1 = before6_1 + v6_1;
    v6_2 = before6_2 + v6_2;
    v6_3 = before6_3 + v6_3;
    const float v6_a = v6_0 + v6_1;
    const float v6_b = v6_2 + v6_3;
    float v6 = v6_a + v6_b;
    {
        const float v6_other = simd_shuffle_xor(v6, 1);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 2);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 4);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 8);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 16);
        v6 = v6 + v6_other;
    }
    if (thread_index % 32u == 0u) {
        partial_f32[thread_index / 32u] = v6;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    v6 = partial_f32[(thread_index - member) / 32u + thread_index % 8u];
    {
        const float v6_other = simd_shuffle_xor(v6, 1);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 2);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 4);
        v6 = v6 + v6_other;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (inside && member == 0u) {
        out[i0] = v6;
    }
}
