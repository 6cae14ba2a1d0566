// atlas_histogram_i32: a, counts -> counts, over 1 axis; 256 threads a workgroup, 4 elements a thread.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
    int step;
};

static inline void element(device const int4* a, device atomic_int* counts, constant Parameters& p, uint lane, int v2) {
    const uint i0 = lane;
    const int v4 = v2 & 15;
    const uint v5 = (uint)v4;
    const int v6 = atomic_fetch_add_explicit(&counts[v5], p.step, memory_order_relaxed);
}

kernel void atlas_histogram_i32(
    device const int4* a [[buffer(0)]],
    device atomic_int* counts [[buffer(1)]],
    constant Parameters& p [[buffer(2)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    const uint word = group * 256u + thread_index;
    const uint first = word * 4u;
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
