// atlas_cast_f32_i8: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    unsigned extent_0;
};

// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}

__device__ inline int f32_to_i32(float x) {
    return x != x ? 0 : x <= -2147483600.0f ? (-2147483647 - 1) : x >= 2147483600.0f ? 2147483647 : (int)x;
}

__device__ inline signed char element(const float4* a, char4* out, const Parameters& p, unsigned lane, float v1) {
    const unsigned i0 = lane;
    const int v2 = f32_to_i32(v1);
    const int v4 = v2 > -128 ? v2 : -128;
    const int v6 = v4 < 127 ? v4 : 127;
    const signed char v7 = (signed char)v6;
    return v7;
}

extern "C" __global__ void __launch_bounds__(256) atlas_cast_f32_i8(const float4* a, char4* out, const Parameters p) {
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned word = group * 256u + thread_index;
    const unsigned first = word * 4u;
    if (first >= lanes) { return; }
    const float4 a_4 = a[word];
    if (first + 3u < lanes) {
        const signed char e0 = element(a, out, p, first, a_4.x);
        const signed char e1 = element(a, out, p, first + 1u, a_4.y);
        const signed char e2 = element(a, out, p, first + 2u, a_4.z);
        const signed char e3 = element(a, out, p, first + 3u, a_4.w);
        out[word] = make_char4(e0, e1, e2, e3);
    } else {
        {
            const signed char e0 = element(a, out, p, first, a_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const signed char e1 = element(a, out, p, first + 1u, a_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const signed char e2 = element(a, out, p, first + 2u, a_4.z);
            out[word].z = e2;
        }
    }
}
