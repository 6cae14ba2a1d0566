// atlas_histogram_i32: a, counts -> counts, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    unsigned extent_0;
    int step;
};

// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}

__device__ inline void element(const int4* a, int* counts, const Parameters& p, unsigned lane, int v2) {
    const unsigned i0 = lane;
    const int v4 = v2 & 15;
    const unsigned v5 = (unsigned)v4;
    const int v6 = atomicAdd(&counts[v5], p.step);
}

extern "C" __global__ void __launch_bounds__(256) atlas_histogram_i32(const int4* a, int* counts, const Parameters p) {
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    const unsigned word = group * 256u + thread_index;
    const unsigned first = word * 4u;
    if (first >= lanes) { return; }
    const int4 a_4 = a[word];
    if (first + 3u < lanes) {
        element(a, counts, p, first, a_4.x);
        element(a, counts, p, first + 1u, a_4.y);
        element(a, counts, p, first + 2u, a_4.z);
        element(a, counts, p, first + 3u, a_4.w);
    } else {
        {
            element(a, counts, p, first, a_4.x);
        }
        if (first + 1u < lanes) {
            element(a, counts, p, first + 1u, a_4.y);
        }
        if (first + 2u < lanes) {
            element(a, counts, p, first + 2u, a_4.z);
        }
    }
}
