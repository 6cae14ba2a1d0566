// atlas_softmax_f32: x -> out, over 2 axes, the last 1 reduced; 256 threads a workgroup, 256 a row.
struct Parameters {
    unsigned extent_0;
    unsigned extent_1;
};

// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}

__device__ inline float maximum(float x, float y) {
    return x != x || y != y ? x + y : x > y ? x : y;
}

__device__ inline float term_0(const float4* x, float4* out, const Parameters& p, unsigned i1, float v5) {
    return v5;
}

__device__ inline float term_1(const float4* x, float4* out, const Parameters& p, float v6, unsigned i1, float v5) {
    const float v7 = v5 - v6;
    const float v8 = expf(v7);
    return v8;
}

__device__ inline float term_2(const float4* x, float4* out, const Parameters& p, float v6, float v9, unsigned i1, float v5) {
    const float v7 = v5 - v6;
    const float v8 = expf(v7);
    const float v10 = v8 / v9;
    return v10;
}

extern "C" __global__ void __launch_bounds__(256) atlas_softmax_f32(const float4* x, float4* out, const Parameters p) {
    __shared__ float partial_f32[8];
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned number = group;
    const unsigned member = thread_index;
    const bool inside = number < lanes;
    const unsigned lane = min(number, lanes - 1u);
    const unsigned i0 = lane;
    const unsigned v2 = i0 * p.extent_1;
    float v6_0 = __uint_as_float(0xff800000u);
    float v6_1 = __uint_as_float(0xff800000u);
    float v6_2 = __uint_as_float(0xff800000u);
    float v6_3 = __uint_as_float(0xff800000u);
    {
        const unsigned length = inside ? p.extent_1 : 0u;
        unsigned start = member;
        bool aligned = true;
        {
            const unsigned i1 = 0u;
            const unsigned v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            const unsigned whole = length / 4u * 4u;
            for (unsigned i1 = member * 4u; i1 < whole; i1 += 1024u) {
                const unsigned v4 = v2 + i1;
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
            const unsigned stop = length - min(length, 768u);
            for (unsigned next = start; next < stop; next += 1024u) {
                {
                    const unsigned i1 = next;
                    const unsigned v4 = v2 + i1;
                    const float e0 = term_0(x, out, p, i1, lane_of(x, v4));
                    v6_0 = maximum(v6_0, e0);
                }
                {
                    const unsigned i1 = next + 256u;
                    const unsigned v4 = v2 + i1;
                    const float e1 = term_0(x, out, p, i1, lane_of(x, v4));
                    v6_1 = maximum(v6_1, e1);
                }
                {
                    const unsigned i1 = next + 512u;
                    const unsigned v4 = v2 + i1;
                    const float e2 = term_0(x, out, p, i1, lane_of(x, v4));
                    v6_2 = maximum(v6_2, e2);
                }
                {
                    const unsigned i1 = next + 768u;
                    const unsigned v4 = v2 + i1;
                    const float e3 = term_0(x, out, p, i1, lane_of(x, v4));
                    v6_3 = maximum(v6_3, e3);
                }
                start = next + 1024u;
            }
        }
        for (unsigned i1 = start; i1 < length; i1 += 256u) {
            const unsigned v4 = v2 + i1;
            const float e0 = term_0(x, out, p, i1, lane_of(x, v4));
            v6_0 = maximum(v6_0, e0);
        }
    }
    const float v6_a = maximum(v6_0, v6_1);
    const float v6_b = maximum(v6_2, v6_3);
    float v6 = maximum(v6_a, v6_b);
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 1);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 2);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 4);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 8);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 16);
        v6 = maximum(v6, v6_other);
    }
    if (thread_index % 32u == 0u) {
        partial_f32[thread_index / 32u] = v6;
    }
    __syncthreads();
    v6 = partial_f32[(thread_index - member) / 32u + thread_index % 8u];
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 1);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 2);
        v6 = maximum(v6, v6_other);
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 4);
        v6 = maximum(v6, v6_other);
    }
    __syncthreads();
    float v9_0 = 0.0f;
    float before9_0 = 0.0f;
    float v9_1 = 0.0f;
    float before9_1 = 0.0f;
    float v9_2 = 0.0f;
    float before9_2 = 0.0f;
    float v9_3 = 0.0f;
    float before9_3 = 0.0f;
    {
        const unsigned length = inside ? p.extent_1 : 0u;
        unsigned start = member;
        bool aligned = true;
        {
            const unsigned i1 = 0u;
            const unsigned v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            const unsigned whole = length / 4u * 4u;
            for (unsigned block = member * 4u; block < whole; block += 32768u) {
                const unsigned block_end = min(block + 32768u, whole);
                for (unsigned i1 = block; i1 < block_end; i1 += 1024u) {
                    const unsigned v4 = v2 + i1;
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
            const unsigned stop = length - min(length, 768u);
            for (unsigned block = start; block < stop; block += 32768u) {
                const unsigned block_end = min(block + 32768u, stop);
                for (unsigned next = block; next < block_end; next += 1024u) {
                    {
                        const unsigned i1 = next;
                        const unsigned v4 = v2 + i1;
                        const float e0 = term_1(x, out, p, v6, i1, lane_of(x, v4));
                        v9_0 = v9_0 + e0;
                    }
                    {
                        const unsigned i1 = next + 256u;
                        const unsigned v4 = v2 + i1;
                        const float e1 = term_1(x, out, p, v6, i1, lane_of(x, v4));
                        v9_1 = v9_1 + e1;
                    }
                    {
                        const unsigned i1 = next + 512u;
                        const unsigned v4 = v2 + i1;
                        const float e2 = term_1(x, out, p, v6, i1, lane_of(x, v4));
                        v9_2 = v9_2 + e2;
                    }
                    {
                        const unsigned i1 = next + 768u;
                        const unsigned v4 = v2 + i1;
                        const float e3 = term_1(x, out, p, v6, i1, lane_of(x, v4));
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
        for (unsigned i1 = start; i1 < length; i1 += 256u) {
            const unsigned v4 = v2 + i1;
            const float e0 = term_1(x, out, p, v6, i1, lane_of(x, v4));
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
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 1);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 2);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 4);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 8);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 16);
        v9 = v9 + v9_other;
    }
    if (thread_index % 32u == 0u) {
        partial_f32[thread_index / 32u] = v9;
    }
    __syncthreads();
    v9 = partial_f32[(thread_index - member) / 32u + thread_index % 8u];
    {
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 1);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 2);
        v9 = v9 + v9_other;
    }
    {
        const float v9_other = __shfl_xor_sync(0xffffffffu, v9, 4);
        v9 = v9 + v9_other;
    }
    __syncthreads();
    {
        const unsigned length = inside ? p.extent_1 : 0u;
        unsigned start = member;
        bool aligned = true;
        {
            const unsigned i1 = 0u;
            const unsigned v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            const unsigned whole = length / 4u * 4u;
            for (unsigned i1 = member * 4u; i1 < whole; i1 += 1024u) {
                const unsigned v4 = v2 + i1;
                const float4 v5_4 = x[v4 / 4u];
                const float e0 = term_2(x, out, p, v6, v9, i1, v5_4.x);
                const float e1 = term_2(x, out, p, v6, v9, i1 + 1u, v5_4.y);
                const float e2 = term_2(x, out, p, v6, v9, i1 + 2u, v5_4.z);
                const float e3 = term_2(x, out, p, v6, v9, i1 + 3u, v5_4.w);
                out[v4 / 4u] = make_float4(e0, e1, e2, e3);
            }
            start = whole + member;
        } else {
            const unsigned stop = length - min(length, 768u);
            for (unsigned next = start; next < stop; next += 1024u) {
                {
                    const unsigned i1 = next;
                    const unsigned v4 = v2 + i1;
                    const float e0 = term_2(x, out, p, v6, v9, i1, lane_of(x, v4));
                    lane_of(out, v4) = e0;
                }
                {
                    const unsigned i1 = next + 256u;
                    const unsigned v4 = v2 + i1;
                    const float e1 = term_2(x, out, p, v6, v9, i1, lane_of(x, v4));
                    lane_of(out, v4) = e1;
                }
                {
                    const unsigned i1 = next + 512u;
                    const unsigned v4 = v2 + i1;
                    const float e2 = term_2(x, out, p, v6, v9, i1, lane_of(x, v4));
                    lane_of(out, v4) = e2;
                }
                {
                    const unsigned i1 = next + 768u;
                    const unsigned v4 = v2 + i1;
                    const float e3 = term_2(x, out, p, v6, v9, i1, lane_of(x, v4));
                    lane_of(out, v4) = e3;
                }
                start = next + 1024u;
            }
        }
        for (unsigned i1 = start; i1 < length; i1 += 256u) {
            const unsigned v4 = v2 + i1;
            const float e0 = term_2(x, out, p, v6, v9, i1, lane_of(x, v4));
            lane_of(out, v4) = e0;
        }
    }
}
