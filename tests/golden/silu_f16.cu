// atlas_silu_f16: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
#include <cuda_fp16.h>
struct Parameters {
    unsigned extent_0;
};

struct alignas(8) half_4 {
    __half x, y, z, w;
};

// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}

__device__ inline __half element(const half_4* a, half_4* out, const Parameters& p, unsigned lane, __half v1) {
    const unsigned i0 = lane;
    const float v2 = __half2float(v1);
    const float v3 = -(v2);
    const float v4 = expf(v3);
    const float v6 = v4 + 1.0f;
    const float v7 = v2 / v6;
    const __half v8 = __float2half(v7);
    return v8;
}

extern "C" __global__ void __launch_bounds__(256) atlas_silu_f16(const half_4* a, half_4* out, const Parameters p) {
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned word = group * 256u + thread_index;
    const unsigned first = word * 4u;
    if (first >= lanes) { return; }
    const half_4 a_4 = a[word];
    if (first + 3u < lanes) {
        const __half e0 = element(a, out, p, first, a_4.x);
        const __half e1 = element(a, out, p, first + 1u, a_4.y);
        const __half e2 = element(a, out, p, first + 2u, a_4.z);
        const __half e3 = element(a, out, p, first + 3u, a_4.w);
        out[word] = half_4{e0, e1, e2, e3};
    } else {
        {
            const __half e0 = element(a, out, p, first, a_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const __half e1 = element(a, out, p, first + 1u, a_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const __half e2 = element(a, out, p, first + 2u, a_4.z);
            out[word].z = e2;
        }
    }
}
