// atlas_column_sum_f32: x -> out, over 2 axes, the last 1 reduced; 256 threads a workgroup, 256 a row.
struct Parameters {
    unsigned extent_0;
    unsigned extent_1;
};

__device__ inline float term_0(const float* x, float* out, const Parameters& p, unsigned i0, unsigned i1) {
    const unsigned v3 = i1 * p.extent_0;
    const unsigned v4 = v3 + i0;
    const float v5 = x[v4];
    return v5;
}

extern "C" __global__ void __launch_bounds__(256) atlas_column_sum_f32(const float* x, float* out, const Parameters p) {
    __shared__ float partial_f32[8];
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned number = group;
    const unsigned member = thread_index;
    const bool inside = number < lanes;
    const unsigned lane = min(number, lanes - 1u);
    const unsigned i0 = lane;
    float v6_0 = 0.0f;
    float before6_0 = 0.0f;
    float v6_1 = 0.0f;
    float before6_1 = 0.0f;
    float v6_2 = 0.0f;
    float before6_2 = 0.0f;
    float v6_3 = 0.0f;
    float before6_3 = 0.0f;
    {
        const unsigned length = inside ? p.extent_1 : 0u;
        unsigned start = member;
        const unsigned stop = length - min(length, 768u);
        for (unsigned block = start; block < stop; block += 32768u) {
            const unsigned block_end = min(block + 32768u, stop);
            for (unsigned next = block; next < block_end; next += 1024u) {
                {
                    const unsigned i1 = next;
                    const float e0 = term_0(x, out, p, i0, i1);
                    v6_0 = v6_0 + e0;
                }
                {
                    const unsigned i1 = next + 256u;
                    const float e1 = term_0(x, out, p, i0, i1);
                    v6_1 = v6_1 + e1;
                }
                {
                    const unsigned i1 = next + 512u;
                    const float e2 = term_0(x, out, p, i0, i1);
                    v6_2 = v6_2 + e2;
                }
                {
                    const unsigned i1 = next + 768u;
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
        for (unsigned i1 = start; i1 < length; i1 += 256u) {
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
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 1);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 2);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 4);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 8);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 16);
        v6 = v6 + v6_other;
    }
    if (thread_index % 32u == 0u) {
        partial_f32[thread_index / 32u] = v6;
    }
    __syncthreads();
    v6 = partial_f32[(thread_index - member) / 32u + thread_index % 8u];
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 1);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 2);
        v6 = v6 + v6_other;
    }
    {
        const float v6_other = __shfl_xor_sync(0xffffffffu, v6, 4);
        v6 = v6 + v6_other;
    }
    __syncthreads();
    if (inside && member == 0u) {
        out[i0] = v6;
    }
}
