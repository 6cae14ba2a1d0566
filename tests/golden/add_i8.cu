// atlas_add_i8: a, b -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    unsigned extent_0;
};

// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}

__device__ inline signed char element(const char4* a, const char4* b, char4* out, const Parameters& p, unsigned lane, signed char v1, signed char v2) {
    const unsigned i0 = lane;
    const int v3 = (int)v1;
    const int v4 = (int)v2;
    const int v5 = (int)((unsigned)v3 + (unsigned)v4);
    const signed char v6 = (signed char)v5;
    return v6;
}

extern "C" __global__ void __launch_bounds__(256) atlas_add_i8(const char4* a, const char4* b, char4* out, const Parameters p) {
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned word = group * 256u + thread_index;
    const unsigned first = word * 4u;
    if (first >= lanes) { return; }
    const char4 a_4 = a[word];
    const char4 b_4 = b[word];
    if (first + 3u < lanes) {
        const signed char e0 = element(a, b, out, p, first, a_4.x, b_4.x);
        const signed char e1 = element(a, b, out, p, first + 1u, a_4.y, b_4.y);
        const signed char e2 = element(a, b, out, p, first + 2u, a_4.z, b_4.z);
        const signed char e3 = element(a, b, out, p, first + 3u, a_4.w, b_4.w);
        out[word] = make_char4(e0, e1, e2, e3);
    } else {
        {
            const signed char e0 = element(a, b, out, p, first, a_4.x, b_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const signed char e1 = element(a, b, out, p, first + 1u, a_4.y, b_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const signed char e2 = element(a, b, out, p, first + 2u, a_4.z, b_4.z);
            out[word].z = e2;
        }
    }
}
