// atlas_reverse_f32: a -> out, over 1 axis; 64 threads a workgroup.
struct Parameters {
    unsigned extent_0;
};

extern "C" __global__ void __launch_bounds__(64) atlas_reverse_f32(const float* a, float* out, const Parameters p) {
    __shared__ float kept[64];
    const unsigned group = blockIdx.y * 32768u + blockIdx.x;
    const unsigned thread_index = threadIdx.x;
    const unsigned lanes = p.extent_0;
    for (unsigned place = thread_index; place < 64u; place += 64u) {
        kept[place] = 0.0f;
    }
    __syncthreads();
    const unsigned number = group * 64u + thread_index;
    const bool inside = number < lanes;
    const unsigned lane = min(number, lanes - 1u);
    const float v2 = a[lane];
    if (inside) {
        kept[thread_index] = v2;
    }
    __syncthreads();
    const unsigned v4 = 63u - thread_index;
    const float v5 = kept[v4];
    if (inside) {
        out[lane] = v5;
    }
}
