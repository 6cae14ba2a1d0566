// attention: out = softmax(q kᵀ scale + mask) v with an online softmax; a thread computes a row of out, a workgroup WORKGROUP_X rows of one head.
//
// Keys and values come through workgroup memory, KEYS at a time; the row's query and its sum of values stay in
// registers, for heads of up to 64 elements. A mask's -infinity hides a score, which is LOWEST then. A row's maximum so far
// rescales its sums (Milakov and Gimelshein 2018, Dao et al. 2022).

struct Params {
    uint l, s, e, ev;
    float scale;
    uint q_offset, q_batch, q_head, q_row, q_column;
    uint k_offset, k_batch, k_head, k_row, k_column;
    uint v_offset, v_batch, v_head, v_row, v_column;
    uint mask_offset, mask_batch, mask_head, mask_row, mask_column;
    uint out_offset, out_batch, out_head, out_row, out_column;
};

constant constexpr uint HEAD = 64;
constant constexpr float LOWEST = -3.0e38f, LEAST = -1.0e38f;  // of hidden scores; of what a mask adds to others

kernel void atlas_attention(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const T* mask [[buffer(3)]],
    device T* out [[buffer(4)]],
    constant Params& params [[buffer(PARAMS)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup float k_tile[KEYS][HEAD];
    threadgroup float v_tile[KEYS][HEAD];
    const uint row = group.x * WORKGROUP_X + thread_index;
    // Rows past the end compute the last one again; they must meet the barriers.
    const uint safe_row = row < params.l ? row : params.l - 1;
    device const T* q_start = q + params.q_offset + (ulong)group.z * params.q_batch + (ulong)group.y * params.q_head + (ulong)safe_row * params.q_row;
    device const T* k_start = k + params.k_offset + (ulong)group.z * params.k_batch + (ulong)group.y * params.k_head;
    device const T* v_start = v + params.v_offset + (ulong)group.z * params.v_batch + (ulong)group.y * params.v_head;
    device const T* mask_start = mask + params.mask_offset + (ulong)group.z * params.mask_batch + (ulong)group.y * params.mask_head + (ulong)safe_row * params.mask_row;

    float query[HEAD], sum[HEAD];
#pragma unroll
    for (uint i = 0; i < HEAD; i++) {
        query[i] = i < params.e ? (float)q_start[(ulong)i * params.q_column] * params.scale : 0.0f;
        sum[i] = 0.0f;
    }
    float top = LOWEST;
    float total = 0.0f;

    // A causal row looks at no key after itself.
    uint stop = params.s;
    if (CAUSAL && stop > (group.x + 1) * WORKGROUP_X) stop = (group.x + 1) * WORKGROUP_X;
    for (uint first = 0; first < stop; first += KEYS) {
        for (uint i = thread_index; i < KEYS * HEAD; i += WORKGROUP_X) {
            const uint key = i / HEAD, column = i % HEAD;
            const bool inside = first + key < params.s;
            k_tile[key][column] = inside && column < params.e ? (float)k_start[(ulong)(first + key) * params.k_row + (ulong)column * params.k_column] : 0.0f;
            v_tile[key][column] = inside && column < params.ev ? (float)v_start[(ulong)(first + key) * params.v_row + (ulong)column * params.v_column] : 0.0f;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        for (uint i = 0; i < KEYS && first + i < stop; i++) {
            const uint column = first + i;
            float score = 0.0f;
#pragma unroll
            for (uint j = 0; j < HEAD; j++) score = fma(query[j], k_tile[i][j], score);
            const float added = MASKED ? (float)mask_start[(ulong)column * params.mask_column] : 0.0f;
            score = as_type<uint>(added) == 0xff800000u || (CAUSAL && column > safe_row) ? LOWEST : score + (added < LEAST ? LEAST : added);
            if (score > top) {
                const float factor = exp(top - score);
                top = score;
                total *= factor;
#pragma unroll
                for (uint j = 0; j < HEAD; j++) sum[j] *= factor;
            }
            if (!(score <= LOWEST)) {
                const float weight = exp(score - top);
                total += weight;
#pragma unroll
                for (uint j = 0; j < HEAD; j++) sum[j] = fma(weight, v_tile[i][j], sum[j]);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    if (row >= params.l) return;
    device T* out_start = out + params.out_offset + (ulong)group.z * params.out_batch + (ulong)group.y * params.out_head + (ulong)row * params.out_row;
    const float share = 1.0f / (total == 0.0f ? 1.0f : total);
#pragma unroll
    for (uint i = 0; i < HEAD; i++)
        if (i < params.ev) out_start[(ulong)i * params.out_column] = (T)(sum[i] * share);
}
