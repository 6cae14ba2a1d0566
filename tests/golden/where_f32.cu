// atlas_where_f32: a, b, c -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    unsigned extent_0;
};

struct alignas(4) bool_4 {
    bool x, y, z, w;
};

// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}

__device__ inline float element(const bool_4* a, const float4* b, const float4* c, float4* out, const Parameters& p, unsigned lane, bool v1, float v2, float v3) {
    const unsigned i0 = lane;
    const float v4 = v1 ? v2 : v3;
    return v4;
}

extern "C" __global__ void __launch_bounds__(256) atlas_where_f32(const bool_4* a, const float4* b, const float4* c, float4* out, const Parameters p) {
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned word = group * 256u + thread_index;
    const unsigned first = word * 4u;
    if (first >= lanes) { return; }
    const bool_4 a_4 = a[word];
    const float4 b_4 = b[word];
    const float4 c_4 = c[word];
    if (first + 3u < lanes) {
        const float e0 = element(a, b, c, out, p, first, a_4.x, b_4.x, c_4.x);
        const float e1 = element(a, b, c, out, p, first + 1u, a_4.y, b_4.y, c_4.y);
        const float e2 = element(a, b, c, out, p, first + 2u, a_4.z, b_4.z, c_4.z);
        const float e3 = element(a, b, c, out, p, first + 3u, a_4.w, b_4.w, c_4.w);
        out[word] = make_float4(e0, e1, e2, e3);
    } else {
        {
            const float e0 = element(a, b, c, out, p, first, a_4.x, b_4.x, c_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const float e1 = element(a, b, c, out, p, first + 1u, a_4.y, b_4.y, c_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const float e2 = element(a, b, c, out, p, first + 2u, a_4.z, b_4.z, c_4.z);
            out[word].z = e2;
        }
    }
}
