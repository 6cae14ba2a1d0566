// atlas_add_i8: a, b -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
};

static inline char element(device const char4* a, device const char4* b, device char4* out, constant Parameters& p, uint lane, char v1, char v2) {
    const uint i0 = lane;
    const int v3 = (int)v1;
    const int v4 = (int)v2;
    const int v5 = (int)((uint)v3 + (uint)v4);
    const char v6 = (char)v5;
    return v6;
}

kernel void atlas_add_i8(
    device const char4* a [[buffer(0)]],
    device const char4* b [[buffer(1)]],
    device char4* out [[buffer(2)]],
    constant Parameters& p [[buffer(3)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    const uint word = group * 256u + thread_index;
    const uint first = word * 4u;
    if (first >= lanes) { return; }
    const char4 a_4 = a[word];
    const char4 b_4 = b[word];
    if (first + 3u < lanes) {
        const char e0 = element(a, b, out, p, first, a_4.x, b_4.x);
        const char e1 = element(a, b, out, p, first + 1u, a_4.y, b_4.y);
        const char e2 = element(a, b, out, p, first + 2u, a_4.z, b_4.z);
        const char e3 = element(a, b, out, p, first + 3u, a_4.w, b_4.w);
        out[word] = char4(e0, e1, e2, e3);
    } else {
        {
            const char e0 = element(a, b, out, p, first, a_4.x, b_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const char e1 = element(a, b, out, p, first + 1u, a_4.y, b_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const char e2 = element(a, b, out, p, first + 2u, a_4.z, b_4.z);
            out[word].z = e2;
        }
    }
}
