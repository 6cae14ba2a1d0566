// atlas_power_of_seven_u32: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
};

static inline uint element(device const uint4* a, device uint4* out, constant Parameters& p, uint lane, uint v1) {
    const uint i0 = lane;
    const bool v3 = v1 < 65536u;
    uint v23 = 0u;
    if (v3) {
        uint v20 = 1u;
        uint v21 = 7u;
        for (uint v9 = 0u; v9 < 16u; v9 += 1u) {
            const uint v12 = (uint)v9;
            const uint v13 = v12 > 31 ? 0 : v1 >> v12;
            const uint v14 = v13 & 1u;
            const bool v16 = v14 != 0u;
            const uint v17 = v20 * v21;
            const uint v18 = v16 ? v17 : v20;
            const uint v19 = v21 * v21;
            v20 = v18;
            v21 = v19;
        }
        v23 = v20;
    } else {
        v23 = 0u;
    }
    return v23;
}

kernel void atlas_power_of_seven_u32(
    device const uint4* a [[buffer(0)]],
    device uint4* out [[buffer(1)]],
    constant Parameters& p [[buffer(2)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    const uint word = group * 256u + thread_index;
    const uint first = word * 4u;
    if (first >= lanes) { return; }
    const uint4 a_4 = a[word];
    if (first + 3u < lanes) {
        const uint e0 = element(a, out, p, first, a_4.x);
        const uint e1 = element(a, out, p, first + 1u, a_4.y);
        const uint e2 = element(a, out, p, first + 2u, a_4.z);
        const uint e3 = element(a, out, p, first + 3u, a_4.w);
        out[word] = uint4(e0, e1, e2, e3);
    } else {
        {
            const uint e0 = element(a, out, p, first, a_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            const uint e1 = element(a, out, p, first + 1u, a_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            const uint e2 = element(a, out, p, first + 2u, a_4.z);
            out[word].z = e2;
        }
    }
}
