// atlas_where_f32: a, b, c -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
};

static inline float element(device const bool4* a, device const float4* b, device const float4* c, device float4* out, constant Parameters& p, uint lane, bool v1, float v2, float v3) {
    const uint i0 = lane;
    const float v4 = v1 ? v2 : v3;
    return v4;
}

kernel void atlas_where_f32(
    device const bool4* a [[buffer(0)]],
    device const float4* b [[buffer(1)]],
    device const float4* c [[buffer(2)]],
    device float4* out [[buffer(3)]],
    constant Parameters& p [[buffer(4)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    const uint word = group * 256u + thread_index;
    const uint first = word * 4u;
    if (first >= lanes) { return; }
    const bool4 a_4 = a[word];
    const float4 b_4 = b[word];
    const float4 c_4 = c[word];
    if (first + 3u < lanes) {
        const float e0 = element(a, b, c, out, p, first, a_4.x, b_4.x, c_4.x);
        const float e1 = element(a, b, c, out, p, first + 1u, a_4.y, b_4.y, c_4.y);
        const float e2 = element(a, b, c, out, p, first + 2u, a_4.z, b_4.z, c_4.z);
        const float e3 = element(a, b, c, out, p, first + 3u, a_4.w, b_4.w, c_4.w);
        out[word] = float4(e0, e1, e2, e3);
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
