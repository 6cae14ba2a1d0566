// attention_few: out = softmax(q kᵀ scale, masked) v for few rows that share keys; a workgroup has 4 rows and a part of the keys, a thread a key of a turn, and then columns.
//
// Scores of WORKGROUP_X keys go through workgroup memory, where 8 threads find the rows' maxima, which rescale the sums
// so far (Milakov and Gimelshein 2018). With SPLIT a part leaves its sums, maximum and total, and the parts are joined
// afterwards (Dao et al. 2023, flash decoding). Keys that no row looks at are not read.
//
// With PAGED the mask's place is that of a table, of the blocks of a pool that a row's keys and values lie in
// (Kwon et al. 2023). With NARROW they are codes of so many bits in words, i8 or f16; with SCALED times a number each.

struct Params {
    unsigned rows, keys, e, ev, groups, parts, chunk, window, block, blocks;
    float scale, softcap;
    unsigned q_offset, q_batch, q_head, q_group, q_row;
    unsigned k_offset, k_batch, k_head, k_group, k_row;
    unsigned v_offset, v_batch, v_head, v_group, v_row;
    unsigned mask_offset, mask_batch, mask_head, mask_group, mask_row;
    unsigned lengths_offset, lengths_batch, lengths_head, lengths_group;
    unsigned slopes_offset, slopes_batch, slopes_head, slopes_group;
    unsigned scales_offset, scales_batch, scales_head, scales_row, scales_block, scales_of_values;
    unsigned k_block, v_block, out_offset, out_batch, out_head, out_group, out_row, out_part;
};

constexpr unsigned ROWS = 4, TOPS = 8, COLUMNS = HEAD / WORKGROUP_X;
constexpr float LOWEST = -3.0e38f, LEAST = -1.0e38f;  // of hidden scores; of what a mask adds to others

// A number of the cache.
__device__ float code(const CACHE* codes, size_t place) {
    if (NARROW == 0) return (float)codes[place];
    if (NARROW == 8) return (float)((const signed char*)codes)[place];
    const unsigned bits = ((const unsigned short*)codes)[place], size = (bits & 0x7fffu) << 13;
    const float value = (bits & 0x7c00u) == 0x7c00u ? __uint_as_float(size | 0x7f800000u) : __uint_as_float(size) * 0x1p112f;
    return bits & 0x8000u ? -value : value;
}

extern "C" __global__ void atlas_attention_few(const T* q, const CACHE* k, const CACHE* v, const MASK* mask, const int* lengths, const float* slopes, const float* scales, OUT* out, Params params) {
    const unsigned thread_index = threadIdx.x;
    __shared__ float queries[HEAD][ROWS];
    __shared__ float scores[WORKGROUP_X][ROWS];
    __shared__ float tops[TOPS][ROWS];
    __shared__ float weights[WORKGROUP_X][ROWS];
    __shared__ size_t lines[WORKGROUP_X];  // where values lie, with PAGED
    const unsigned part = blockIdx.x % params.parts;
    const unsigned first_row = blockIdx.x / params.parts * ROWS;
    const unsigned count = params.rows * params.groups;

    // What each row looks at: keys from `low` to before `high`.
    int low[ROWS], high[ROWS], position[ROWS];
    float slope[ROWS];
    const T* q_start[ROWS];
    size_t mask_start[ROWS];
    int lowest = (int)params.keys, highest = 0;
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++) {
        const unsigned index = first_row + i < count ? first_row + i : count - 1;
        const unsigned entry = index / params.rows, row = index % params.rows;
        q_start[i] = q + params.q_offset + (size_t)blockIdx.z * params.q_batch + (size_t)blockIdx.y * params.q_head + (size_t)entry * params.q_group + (size_t)row * params.q_row;
        mask_start[i] = params.mask_offset + (size_t)blockIdx.z * params.mask_batch + (size_t)blockIdx.y * params.mask_head + (size_t)entry * params.mask_group + (size_t)row * params.mask_row;
        position[i] = (int)row;
        low[i] = 0;
        high[i] = (int)params.keys;
        if (LENGTHS) {
            const int length = lengths[params.lengths_offset + (size_t)blockIdx.z * params.lengths_batch + (size_t)blockIdx.y * params.lengths_head + (size_t)entry * params.lengths_group];
            position[i] += length - (int)params.rows;
            high[i] = high[i] < length ? high[i] : length;
        }
        if (CAUSAL && high[i] > position[i] + 1) high[i] = position[i] + 1;
        if (WINDOW) {
            low[i] = position[i] + 1 > (int)params.window ? position[i] + 1 - (int)params.window : 0;
            if (!CAUSAL && high[i] > position[i] + (int)params.window) high[i] = position[i] + (int)params.window;
        }
        slope[i] = SLOPES ? slopes[params.slopes_offset + (size_t)blockIdx.z * params.slopes_batch + (size_t)blockIdx.y * params.slopes_head + (size_t)entry * params.slopes_group] : 0.0f;
        if (first_row + i >= count) high[i] = 0;
        lowest = lowest < low[i] ? lowest : low[i];
        highest = highest > high[i] ? highest : high[i];
    }
    for (unsigned column = thread_index; column < HEAD; column += WORKGROUP_X)
#pragma unroll
        for (unsigned i = 0; i < ROWS; i++) queries[column][i] = column < params.e ? (float)q_start[i][column] * params.scale : 0.0f;
    __syncthreads();

    const size_t k_start = params.k_offset + (size_t)blockIdx.z * params.k_batch + (size_t)blockIdx.y * params.k_head;
    const size_t v_start = params.v_offset + (size_t)blockIdx.z * params.v_batch + (size_t)blockIdx.y * params.v_head;
    const size_t scales_start = params.scales_offset + (size_t)blockIdx.z * params.scales_batch + (size_t)blockIdx.y * params.scales_head;
    const size_t table_start = params.mask_offset + (size_t)blockIdx.z * params.mask_batch + (size_t)blockIdx.y * params.mask_head;
    float top[ROWS], total[ROWS], sum[COLUMNS][ROWS];
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++) {
        top[i] = LOWEST;
        total[i] = 0.0f;
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) sum[j][i] = 0.0f;
    }
    const unsigned stop = (part + 1) * params.chunk < params.keys ? (part + 1) * params.chunk : params.keys;
    for (unsigned first = part * params.chunk; first < stop; first += WORKGROUP_X) {
        const unsigned key = first + thread_index;
        const int end = (int)(stop < first + WORKGROUP_X ? stop : first + WORKGROUP_X);
        const bool live = (int)first < highest && end > lowest;

        // Its block, and where it is in there.
        size_t page = 0;
        unsigned place = key;
        if (PAGED && live && key < stop) {
            page = (unsigned)mask[table_start + (size_t)(key / params.block) * params.mask_row];
            page = page < params.blocks ? page : 0;
            place = key % params.block;
        }
        const size_t scale_place = scales_start + page * params.scales_block + (size_t)place * params.scales_row;

        // A score of each row.
        float score[ROWS], added[ROWS];
        bool seen[ROWS], found_any = false;
#pragma unroll
        for (unsigned i = 0; i < ROWS; i++) {
            score[i] = 0.0f;
            seen[i] = live && key < stop && (int)key >= low[i] && (int)key < high[i];
            added[i] = slope[i] * (float)((int)key - position[i]);
            if (MASKED && seen[i]) {
                if (BYTES) {
                    seen[i] = ((const unsigned char*)mask)[mask_start[i] + key] != 0;
                } else {
                    const float bias = (float)mask[mask_start[i] + key];
                    seen[i] = __float_as_uint(bias) != 0xff800000u;
                    added[i] += bias < LEAST ? LEAST : bias;
                }
            }
            found_any = found_any || seen[i];
        }
        const size_t key_start = k_start + page * params.k_block + (size_t)place * params.k_row;
        if (found_any)
            for (unsigned column = 0; column < params.e; column++) {
                const float found = code(k, key_start + column);
#pragma unroll
                for (unsigned i = 0; i < ROWS; i++) score[i] = fma(queries[column][i], found, score[i]);
            }
        const float key_scale = SCALED && found_any ? scales[scale_place] : 1.0f;
        const float value_scale = SCALED && found_any ? scales[scale_place + params.scales_of_values] : 1.0f;
#pragma unroll
        for (unsigned i = 0; i < ROWS; i++) {
            if (SCALED) score[i] *= key_scale;
            if (SOFTCAP) {
                // Some compute tanh by powers that overflow.
                const float above = score[i] / params.softcap > 15.0f ? 15.0f : score[i] / params.softcap;
                score[i] = tanh(above < -15.0f ? -15.0f : above) * params.softcap;
            }
            score[i] = seen[i] ? score[i] + added[i] : LOWEST;
            scores[thread_index][i] = score[i];
        }
        __syncthreads();

        // Its weight, relative to the largest score so far.
        if (thread_index < TOPS)
#pragma unroll
            for (unsigned i = 0; i < ROWS; i++) {
                float found = score[i];
                for (unsigned j = thread_index + TOPS; j < WORKGROUP_X; j += TOPS) found = fmaxf(found, scores[j][i]);
                tops[thread_index][i] = found;
            }
        __syncthreads();
        float highest_score[ROWS], weight[ROWS];
#pragma unroll
        for (unsigned i = 0; i < ROWS; i++) {
            highest_score[i] = top[i];
            for (unsigned j = 0; live && j < TOPS; j++) highest_score[i] = fmaxf(highest_score[i], tops[j][i]);
            weight[i] = score[i] <= LOWEST ? 0.0f : exp(score[i] - highest_score[i]);
            weights[thread_index][i] = weight[i] * value_scale;
        }
        lines[thread_index] = v_start + page * params.v_block + (size_t)place * params.v_row;
        __syncthreads();

        // Values times weights.
        if (live) {
#pragma unroll
            for (unsigned i = 0; i < ROWS; i++) {
                const float factor = exp(top[i] - highest_score[i]);
                top[i] = highest_score[i];
                total[i] = total[i] * factor + weight[i];
#pragma unroll
                for (unsigned j = 0; j < COLUMNS; j++) sum[j][i] *= factor;
            }
            const unsigned seen_end = (unsigned)(end < highest ? end : highest);
            for (unsigned n = first; n < seen_end; n++) {
                const size_t start = PAGED ? lines[n - first] : v_start + (size_t)n * params.v_row;
#pragma unroll
                for (unsigned j = 0; j < COLUMNS; j++) {
                    const unsigned column = thread_index + j * WORKGROUP_X;
                    const float value = column < params.ev ? code(v, start + column) : 0.0f;
#pragma unroll
                    for (unsigned i = 0; i < ROWS; i++) sum[j][i] = fma(weights[n - first][i], value, sum[j][i]);
                }
            }
        }
    }

    // Totals of all threads.
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++) scores[thread_index][i] = total[i];
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++) {
        total[i] = 0.0f;
        for (unsigned j = 0; j < WORKGROUP_X; j++) total[i] += scores[j][i];
    }

    for (unsigned i = 0; i < ROWS && first_row + i < count; i++) {
        const unsigned entry = (first_row + i) / params.rows, row = (first_row + i) % params.rows;
        OUT* start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch + (size_t)blockIdx.y * params.out_head + (size_t)entry * params.out_group + (size_t)row * params.out_row + (size_t)part * params.out_part;
        const float share = SPLIT ? 1.0f : 1.0f / (total[i] == 0.0f ? 1.0f : total[i]);
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++)
            if (thread_index + j * WORKGROUP_X < params.ev) start[thread_index + j * WORKGROUP_X] = (OUT)(sum[j][i] * share);
        if (SPLIT && thread_index == 0) {
            start[params.ev] = (OUT)top[i];
            start[params.ev + 1] = (OUT)total[i];
        }
    }
}
