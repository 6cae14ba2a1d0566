// atlas_softmax_f32: x -> out, over 2 axes, the last 1 reduced; 256 threads a workgroup, 256 a row.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
    uint extent_1;
};

static inline float maximum(float x, float y) {
    return x != x || y != y ? x + y : x > y ? x : y;
}

static inline float term_0(device const float4* x, device float4* out, constant Parameters& p, uint i1, float v5) {
    return v5;
}

static inline float term_1(device const float4* x, device float4* out, constant Parameters& p, float v6, uint i1, float v5) {
    const float v7 = v5 - v6;
    const float v8 = exp(v7);
    return v8;
}

static inline float term_2(device const float4* x, device float4* out, constant Parameters& p, float v6, float v9, uint i1, float v5) {
    const float v7 = v5 - v6;
    const float v8 = exp(v7);
    const float v10 = v8 / v9;
    return v10;
}

kernel void atlas_softmax_f32(
    device const float4* x [[buffer(0)]],
    device float4* out [[buffer(1)]],
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
    const uint v2 = i0 * p.extent_1;
    float v6_0 = as_type<float>(0xff800000u);
    float v6_1 = as_type<float>(0xff800000u);
    float v6_2 = as_type<float>(0xff800000u);
    float v6_3 = as_type<float>(0xff800000u);
    {
        const uint length = inside ? p.extent_1 : 0u;
        uint start = member;
        bool aligned = true;
        {
            const uint i1 = 0u;
            const uint v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            const uint whole = length / 4u * 4u;
            for (uint i1 = member * 4u; i1 < whole; i1 += 1024u) {
                const uint v4 = v2 + i1;
                const float4 v5_4 = x[v4 / 4u];
                const float e0 = term_0(x, out, p, i1, v5_4.x);
                v6_0 = maximum(v6_0, e0);
                const float e1 = term_0(x, out, p, i1 + 1u, v5_4.y);
                v6_1 = maximum(v6_1, e1);
                const float e2 = term_0(x, out, p, i1 + 2u, v5_4.z);
                v6_2 = maximum(v6_2, e2);
                const float e3 = term_0(x, out, p, i1 + 3u, v5_4.w);
                v6_3 = maximum(v6_3, e3);
            }
            start = whole + member;
        } else {
            const uint stop = length - min(length, 768u);
            for (uint next = start; next < stop; next += 1024u) {
                {
                    const uint i1 = next;
                    const uint v4 = v2 + i1;
                    const float e0 = term_0(x, out, p, i1, x[v4 / 4u][v4 % 4u]);
                    v6_0 = maximum(v6_0, e0);
                }
                {
                    const uint i1 = next + 256u;
                    const uint v4 = v2 + i1;
                    const float e1 = term_0(x, out, p, i1, x[v4 / 4u][v4 % 4u]);
                    v6_1 = maximum(v6_1, e1);
                }
                {
                    const uint i1 = next + 512u;
                    const uint v4 = v2 + i1;
                    const float e2 = term_0(x, out, p, i1, x[v4 / 4u][v4 % 4u]);
                    v6_2 = maximum(v6_2, e2);
                }
                {
                    const uint i1 = next + 768u;
                    const uint v4 = v2 + i1;
                    const float e3 = term_0(x, out, p, i1, x[v4 / 4u][v4 % 4u]);
                    v6_3 = maximum(v6_3, e3);
                }
                start = next + 1024u;
            }
        }
        for (uint i1 = start; i1 < length; i1 += 256u) {
            const uint v4 = v2 + i1;
            const float e0 = term_0(x, out, p, i1, x[v4 / 4u][v4 % 4u]);
            v6_0 = maximum(v6_0, e0);
        }
    }
    const float v6_a = maximum(v6_0, v6_1);
    const float v6_b = maximum(v6_2, v6_3);
    float v6 = maximum(v6_a, v6_b);
    {
        const float v6_other = simd_shuffle_xor(v6, 1);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 2);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 4);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 8);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 16);
        v6 = maximum(v6, v6_other);
    }
    if (thread_index % 32u == 0u) {
        partial_f32[thread_index / 32u] = v6;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    v6 = partial_f32[(thread_index - member) / 32u + thread_index % 8u];
    {
        const float v6_other = simd_shuffle_xor(v6, 1);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 2);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = simd_shuffle_xor(v6, 4);
        v6 = maximum(v6, v6_other);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float v9_0 = 0.0f;
    float before9_0 = 0.0f;
    float v9_1 = 0.0f;
    float before9_1 = 0.0f;
    float v9_2 = 0.0f;
    float before9_2 = 0.0f;
    float v9_3 = 0.0f;
    float before9_3 = 0.0f;
    {
        const uint length = inside ? p.extent_1 : 0u;
        uint start = member;
        bool aligned = true;
        {
            const uint i1 = 0u;
            const uint v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            const uint whole = length / 4u * 4u;
            for (uint block = member * 4u; block < whole; block += 32768u) {
                const uint block_end = min(block + 32768u, whole);
                for (uint i1 = block; i1 < block_end; i1 += 1024u) {
                    const uint v4 = v2 + i1;
                    const float4 v5_4 = x[v4 / 4u];
                    const float e0 = term_1(x, out, p, v6, i1, v5_4.x);
                    v9_0 = v9_0 + e0;
                    const float e1 = term_1(x, out, p, v6, i1 + 1u, v5_4.y);
                    v9_1 = v9_1 + e1;
                    const float e2 = term_1(x, out, p, v6, i1 + 2u, v5_4.z);
                    v9_2 = v9_2 + e2;
                    const float e3 = term_1(x, out, p, v6, i1 + 3u, v5_4.w);
                    v9_3 = v9_3 + e3;
                }
                before9_0 = before9_0 + v9_0;
                v9_0 = 0.0f;
                before9_1 = before9_1 + v9_1;
                v9_1 = 0.0f;
                before9_2 = before9_2 + v9_2;
                v9_2 = 0.0f;
                before9_3 = before9_3 + v9_3;
                v9_3 = 0.0f;
            }
            start = whole + member;
        } else {
            const uint stop = length - min(length, 768u);
            for (uint block = start; block < stop; block += 32768u) {
                const uint block_end = min(block + 32768u, stop);
                for (uint next = block; next < block_end; next += 1024u) {
                    {
                        const uint i1 = next;
                        const uint v4 = v2 + i1;
                        const float e0 = term_1(x, out, p, v6, i1, x[v4 / 4u][v4 % 4u]);
                        v9_0 = v9_0 + e0;
                    }
                    {
                        const uint i1 = next + 256u;
                        const uint v4 = v2 + i1;
                        const float e1 = term_1(x, out, p, v6, i1, x[v4 / 4u][v4 % 4u]);
                        v9_1 = v9_1 + e1;
                    }
                    {
                        const uint i1 = next + 512u;
                        const uint v4 = v2 + i1;
                        const float e2 = term_1(x, out, p, v6, i1, x[v4 / 4u][v4 % 4u]);
                        v9_2 = v9_2 + e2;
                    }
                    {
                        const uint i1 = next + 768u;
                        const uint v4 = v2 + i1;
                        const float e3 = term_1(x, out, p, v6, i1, x[v4 / 4u][v4 % 4u]);
                        v9_3 = v9_3 + e3;
                    }
                    start = next + 1024u;
                }
                before9_0 = before9_0 + v9_0;
                v9_0 = 0.0f;
                before9_1 = before9_1 + v9_1;
                v9_1 = 0.0f;
                before9_2 = before9_2 + v9_2;
                v9_2 = 0.0f;
                before9_3 = before9_3 + v9_3;
                v9_3 = 0.0f;
            }
        }
        for (uint i1 = start; i1 < length; i1 += 256u) {
            const uint v4 = v2 + i1;
            const float e0 = term_1(x, out, p, v6, i1, x[v4 / 4u][v4 % 4u]);
            v9_0 = v9_0 + e0;
        }
    }
    v9_0 = before9_0 + v9_0;
    v9_1 = before9_1 + v9_1;
    v9_2 = before9_2 + v9_2;
    v9_3 = before9_3 + v9_3;
    const float v9_a = v9_0 + v9_1;
    const float v9_b = v9_2 + v9_3;
    float v9 = v9_a + v9_b;
    {
        const float v9_other = simd_shuffle_xor(v9, 1);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = simd_shuffle_xor(v9, 2);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = simd_shuffle_xor(v9, 4);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = simd_shuffle_xor(v9, 8);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = simd_shuffle_xor(v9, 16);
        v9 = v9 + v9_other;
    }
    if (thread_index % 32u == 0u) {
        partial_f32[thread_index / 32u] = v9;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    v9 = partial_f32[(thread_index - member) / 32u + thread_index % 8u];
    {
        const float v9_other = simd_shuffle_xor(v9, 1);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = simd_shuffle_xor(v9, 2);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = simd_shuffle_xor(v9, 4);
        v9 = v9 + v9_other;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    {
        const uint length = inside ? p.extent_1 : 0u;
        uint start = member;
        bool aligned = true;
        {
            const uint i1 = 0u;
            const uint v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            const uint whole = length / 4u * 4u;
            for (uint i1 = member * 4u; i1 < whole; i1 += 1024u) {
                const uint v4 = v2 + i1;
                const float4 v5_4 = x[v4 / 4u];
                const float e0 = term_2(x, out, p, v6, v9, i1, v5_4.x);
                const float e1 = term_2(x, out, p, v6, v9, i1 + 1u, v5_4.y);
                const float e2 = term_2(x, out, p, v6, v9, i1 + 2u, v5_4.z);
                const float e3 = term_2(x, out, p, v6, v9, i1 + 3u, v5_4.w);
                out[v4 / 4u] = float4(e0, e1, e2, e3);
            }
            start = whole + member;
        } else {
            const uint stop = length - min(length, 768u);
            for (uint next = start; next < stop; next += 1024u) {
                {
                    const uint i1 = next;
                    const uint v4 = v2 + i1;
                    const float e0 = term_2(x, out, p, v6, v9, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e0;
                }
                {
                    const uint i1 = next + 256u;
                    const uint v4 = v2 + i1;
                    const float e1 = term_2(x, out, p, v6, v9, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e1;
                }
                {
                    const uint i1 = next + 512u;
                    const uint v4 = v2 + i1;
                    const float e2 = term_2(x, out, p, v6, v9, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e2;
                }
                {
                    const uint i1 = next + 768u;
                    const uint v4 = v2 + i1;
                    const float e3 = term_2(x, out, p, v6, v9, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e3;
                }
                start = next + 1024u;
            }
        }
        for (uint i1 = start; i1 < length; i1 += 256u) {
            const uint v4 = v2 + i1;
            const float e0 = term_2(x, out, p, v6, v9, i1, x[v4 / 4u][v4 % 4u]);
            out[v4 / 4u][v4 % 4u] = e0;
        }
    }
}
