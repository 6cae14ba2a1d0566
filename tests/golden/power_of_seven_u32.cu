// atlas_power_of_seven_u32: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    unsigned extent_0;
};

// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}

__device__ inline unsigned element(const uint4* a, uint4* out, const Parameters& p, unsigned lane, unsigned v1) {
    const unsigned i0 = lane;
    const bool v3 = v1 < 65536u;
    unsigned v23 = 0u;
    if (v3) {
        unsigned v20 = 1u;
        unsigned v21 = 7u;
        for (unsigned v9 = 0u; v9 < 16u; v9 += 1u) {
            const unsigned v12 = (unsigned)v9;
            const unsigned v13 = v12 > 31 ? 0 : v1 >> v12;
            const unsigned v14 = v13 & 1u;
            const bool v16 = v14 != 0u;
            const unsigned v17 = v20 * v21;
            const unsigned v18 = v16 ? v17 : v20;
            const unsigned v19 = v21 * v21;
            v20 = v18;
            v21 = v19;
        }
        v23 = v20;
    } else {
        v23 = 0u;
    }
    return v23;
}

extern "C" __global__ void __launch_bounds__(256) atlas_power_of_seven_u32(const uint4* a, uint4* out, const Parameters p) {
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned word = group * 256u + thread_index;
    const unsigned first = word * 4u;
    if (first >= lanes) { return; }
    const uint4 a_4 = a[word];
    if (first + 3u < lanes) {
        const unsigned e0 = element(a, out, p, first, a_4.x);
        const unsigned e1 = element(a, out, p, first + 1u, a_4.y);
        const unsigned e2 = element(a, out, p, first + 2u, a_4.z);
        const unsigned e3 = element(a, out, p, first + 3u, a_4.w);
        out[word] = make_uint4(e0, e1, e2, e3);
    } else {
        {
            const unsigned e0 = element(a, out, p, first, a_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const unsigned e1 = element(a, out, p, first + 1u, a_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const unsigned e2 = element(a, out, p, first + 2u, a_4.z);
            out[word].z = e2;
        }
    }
}
