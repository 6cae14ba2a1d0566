// atlas_silu_f16: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
};

static inline half element(device const half4* a, device half4* out, constant Parameters& p, uint lane, half v1) {
    const uint i0 = lane;
    const float v2 = float(v1);
    const float v3 = -(v2);
    const float v4 = exp(v3);
    const float v6 = v4 + 1.0f;
    const float v7 = v2 / v6;
    const half v8 = half(v7);
    return v8;
}

kernel void atlas_silu_f16(
    device const half4* a [[buffer(0)]],
    device half4* out [[buffer(1)]],
    constant Parameters& p [[buffer(2)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    const uint word = group * 256u + thread_index;
    const uint first = word * 4u;
    if (first >= lanes) { return; }
    const half4 a_4 = a[word];
    if (first + 3u < lanes) {
        const half e0 = element(a, out, p, first, a_4.x);
        const half e1 = element(a, out, p, first + 1u, a_4.y);
        const half e2 = element(a, out, p, first + 2u, a_4.z);
        const half e3 = element(a, out, p, first + 3u, a_4.w);
        out[word] = half4(e0, e1, e2, e3);
    } else {
        {
            const half e0 = element(a, out, p, first, a_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const half e1 = element(a, out, p, first + 1u, a_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const half e2 = element(a, out, p, first + 2u, a_4.z);
            out[word].z = e2;
        }
    }
}
