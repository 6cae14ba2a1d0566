// atlas_reverse_f32: a -> out, over 1 axis; 64 threads a workgroup.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Parameters {
    uint extent_0;
};

kernel void atlas_reverse_f32(
    device const float* a [[buffer(0)]],
    device float* out [[buffer(1)]],
    constant Parameters& p [[buffer(2)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]
) {
    threadgroup float kept[64];
    const uint group = groups.y * 32768u + groups.x;
    const uint lanes = p.extent_0;
    for (uint place = thread_index; place < 64u; place += 64u) {
        kept[place] = 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint number = group * 64u + thread_index;
    const bool inside = number < lanes;
    const uint lane = min(number, lanes - 1u);
    const float v2 = a[lane];
    if (inside) {
        kept[thread_index] = v2;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint v4 = 63u - thread_index;
    const float v5 = kept[v4];
    if (inside) {
        out[lane] = v5;
    }
}
