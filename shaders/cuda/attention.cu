// attention: out = softmax(q kᵀ scale + mask) v with an online softmax; a thread computes a row of out, a workgroup WORKGROUP_X rows of one head.
//
// Keys and values come through workgroup memory, KEYS at a time; the row's query and its sum of values stay in
// registers, for heads of up to 64 elements. A mask's -infinity hides a score, which is LOWEST then. A row's maximum so far
// rescales its sums (Milakov and Gimelshein 2018, Dao et al. 2022).

struct Params {
    unsigned l, s, e, ev;
    float scale;
    unsigned q_offset, q_batch, q_head, q_row, q_column;
    unsigned k_offset, k_batch, k_head, k_row, k_column;
    unsigned v_offset, v_batch, v_head, v_row, v_column;
    unsigned mask_offset, mask_batch, mask_head, mask_row, mask_column;
    unsigned out_offset, out_batch, out_head, out_row, out_column;
};

constexpr unsigned HEAD = 64;
constexpr float LOWEST = -3.0e38f, LEAST = -1.0e38f;  // of hidden scores; of what a mask adds to others

extern "C" __global__ void atlas_attention(const T* q, const T* k, const T* v, const T* mask, T* out, Params params) {
    __shared__ float k_tile[KEYS][HEAD];
    __shared__ float v_tile[KEYS][HEAD];
    const unsigned thread_index = threadIdx.x;
    const unsigned row = blockIdx.x * WORKGROUP_X + thread_index;
    // Rows past the end compute the last one again; they must meet the barriers.
    const unsigned safe_row = row < params.l ? row : params.l - 1;
    const T* q_start = q + params.q_offset + (size_t)blockIdx.z * params.q_batch + (size_t)blockIdx.y * params.q_head + (size_t)safe_row * params.q_row;
    const T* k_start = k + params.k_offset + (size_t)blockIdx.z * params.k_batch + (size_t)blockIdx.y * params.k_head;
    const T* v_start = v + params.v_offset + (size_t)blockIdx.z * params.v_batch + (size_t)blockIdx.y * params.v_head;
    const T* mask_start = mask + params.mask_offset + (size_t)blockIdx.z * params.mask_batch + (size_t)blockIdx.y * params.mask_head + (size_t)safe_row * params.mask_row;

    float query[HEAD], sum[HEAD];
#pragma unroll
    for (unsigned i = 0; i < HEAD; i++) {
        query[i] = i < params.e ? (float)q_start[(size_t)i * params.q_column] * params.scale : 0.0f;
        sum[i] = 0.0f;
    }
    float top = LOWEST;
    float total = 0.0f;

    // A causal row looks at no key after itself.
    unsigned stop = params.s;
    if (CAUSAL && stop > (blockIdx.x + 1) * WORKGROUP_X) stop = (blockIdx.x + 1) * WORKGROUP_X;
    for (unsigned first = 0; first < stop; first += KEYS) {
        for (unsigned i = thread_index; i < KEYS * HEAD; i += WORKGROUP_X) {
            const unsigned key = i / HEAD, column = i % HEAD;
            const bool inside = first + key < params.s;
            k_tile[key][column] = inside && column < params.e ? (float)k_start[(size_t)(first + key) * params.k_row + (size_t)column * params.k_column] : 0.0f;
            v_tile[key][column] = inside && column < params.ev ? (float)v_start[(size_t)(first + key) * params.v_row + (size_t)column * params.v_column] : 0.0f;
        }
        __syncthreads();

        for (unsigned i = 0; i < KEYS && first + i < stop; i++) {
            const unsigned column = first + i;
            float score = 0.0f;
#pragma unroll
            for (unsigned j = 0; j < HEAD; j++) score = fma(query[j], k_tile[i][j], score);
            const float added = MASKED ? (float)mask_start[(size_t)column * params.mask_column] : 0.0f;
            score = __float_as_uint(added) == 0xff800000u || (CAUSAL && column > safe_row) ? LOWEST : score + (added < LEAST ? LEAST : added);
            if (score > top) {
                const float factor = exp(top - score);
                top = score;
                total *= factor;
#pragma unroll
                for (unsigned j = 0; j < HEAD; j++) sum[j] *= factor;
            }
            if (!(score <= LOWEST)) {
                const float weight = exp(score - top);
                total += weight;
#pragma unroll
                for (unsigned j = 0; j < HEAD; j++) sum[j] = fma(weight, v_tile[i][j], sum[j]);
            }
        }
        __syncthreads();
    }

    if (row >= params.l) return;
    T* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch + (size_t)blockIdx.y * params.out_head + (size_t)row * params.out_row;
    const float share = 1.0f / (total == 0.0f ? 1.0f : total);
#pragma unroll
    for (unsigned i = 0; i < HEAD; i++)
        if (i < params.ev) out_start[(size_t)i * params.out_column] = (T)(sum[i] * share);
}
