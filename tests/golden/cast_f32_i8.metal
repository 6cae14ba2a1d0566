// atlas_cast_f32_i8: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
};

static inline int f32_to_i32(float x) {
    return x != x ? 0 : x <= -2147483600.0f ? (-2147483647 - 1) : x >= 2147483600.0f ? 2147483647 : (int)x;
}

static inline char element(device const float4* a, device char4* out, constant Parameters& p, uint lane, float v1) {
    const uint i0 = lane;
    const int v2 = f32_to_i32(v1);
    const int v4 = v2 > -128 ? v2 : -128;
    const int v6 = v4 < 127 ? v4 : 127;
    const char v7 = (char)v6;
    return v7;
}

kernel void atlas_cast_f32_i8(
    device const float4* a [[buffer(0)]],
    device char4* out [[buffer(1)]],
    constant Parameters& p [[buffer(2)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    const uint word = group * 256u + thread_index;
    const uint first = word * 4u;
    if (first >= lanes) { return; }
    const float4 a_4 = a[word];
    if (first + 3u < lanes) {
        const char e0 = element(a, out, p, first, a_4.x);
        const char e1 = element(a, out, p, first + 1u, a_4.y);
        const char e2 = element(a, out, p, first + 2u, a_4.z);
        const char e3 = element(a, out, p, first + 3u, a_4.w);
        out[word] = char4(e0, e1, e2, e3);
    } else {
        {
            const char e0 = element(a, out, p, first, a_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const char e1 = element(a, out, p, first + 1u, a_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const char e2 = element(a, out, p, first + 2u, a_4.z);
            out[word].z = e2;
        }
    }
}
