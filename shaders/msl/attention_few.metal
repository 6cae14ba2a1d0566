// attention_few: out = softmax(q kᵀ scale, masked) v for few rows that share keys; a workgroup has 4 rows and a part of the keys, a thread a key of a turn, and then columns.
//
// Scores of WORKGROUP_X keys go through workgroup memory, where 8 threads find the rows' maxima, which rescale the sums
// so far (Milakov and Gimelshein 2018). With SPLIT a part leaves its sums, maximum and total, and the parts are joined
// afterwards (Dao et al. 2023, flash decoding). Keys that no row looks at are not read.
//
// With PAGED the mask's place is that of a table, of the blocks of a pool that a row's keys and values lie in
// (Kwon et al. 2023). With NARROW they are codes of so many bits in words, i8 or f16; with SCALED times a number each.

struct Params {
    uint rows, keys, e, ev, groups, parts, chunk, window, block, blocks;
    float scale, softcap;
    uint q_offset, q_batch, q_head, q_group, q_row;
    uint k_offset, k_batch, k_head, k_group, k_row;
    uint v_offset, v_batch, v_head, v_group, v_row;
    uint mask_offset, mask_batch, mask_head, mask_group, mask_row;
    uint lengths_offset, lengths_batch, lengths_head, lengths_group;
    uint slopes_offset, slopes_batch, slopes_head, slopes_group;
    uint scales_offset, scales_batch, scales_head, scales_row, scales_block, scales_of_values;
    uint k_block, v_block, out_offset, out_batch, out_head, out_group, out_row, out_part;
};

constant constexpr uint ROWS = 4, TOPS = 8, COLUMNS = HEAD / WORKGROUP_X;
constant constexpr float LOWEST = -3.0e38f, LEAST = -1.0e38f;  // of hidden scores; of what a mask adds to others

// A number of the cache.
static inline float code(device const CACHE* codes, ulong place) {
    if (NARROW == 0) return (float)codes[place];
    if (NARROW == 8) return (float)((device const char*)codes)[place];
    return (float)((device const half*)codes)[place];
}

kernel void atlas_attention_few(
    device const T* q [[buffer(0)]],
    device const CACHE* k [[buffer(1)]],
    device const CACHE* v [[buffer(2)]],
    device const MASK* mask [[buffer(3)]],
    device const int* lengths [[buffer(4)]],
    device const float* slopes [[buffer(5)]],
    device const float* scales [[buffer(6)]],
    device OUT* out [[buffer(7)]],
    constant Params& params [[buffer(PARAMS)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup float queries[HEAD][ROWS];
    threadgroup float scores[WORKGROUP_X][ROWS];
    threadgroup float tops[TOPS][ROWS];
    threadgroup float weights[WORKGROUP_X][ROWS];
    threadgroup ulong lines[WORKGROUP_X];  // where values lie, with PAGED
    const uint part = group.x % params.parts;
    const uint first_row = group.x / params.parts * ROWS;
    const uint count = params.rows * params.groups;

    // What each row looks at: keys from `low` to before `high`.
    int low[ROWS], high[ROWS], position[ROWS];
    float slope[ROWS];
    device const T* q_start[ROWS];
    ulong mask_start[ROWS];
    int lowest = (int)params.keys, highest = 0;
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        const uint index = first_row + i < count ? first_row + i : count - 1;
        const uint entry = index / params.rows, row = index % params.rows;
        q_start[i] = q + params.q_offset + (ulong)group.z * params.q_batch + (ulong)group.y * params.q_head + (ulong)entry * params.q_group + (ulong)row * params.q_row;
        mask_start[i] = params.mask_offset + (ulong)group.z * params.mask_batch + (ulong)group.y * params.mask_head + (ulong)entry * params.mask_group + (ulong)row * params.mask_row;
        position[i] = (int)row;
        low[i] = 0;
        high[i] = (int)params.keys;
        if (LENGTHS) {
            const int length = lengths[params.lengths_offset + (ulong)group.z * params.lengths_batch + (ulong)group.y * params.lengths_head + (ulong)entry * params.lengths_group];
            position[i] += length - (int)params.rows;
            high[i] = high[i] < length ? high[i] : length;
        }
        if (CAUSAL && high[i] > position[i] + 1) high[i] = position[i] + 1;
        if (WINDOW) {
            low[i] = position[i] + 1 > (int)params.window ? position[i] + 1 - (int)params.window : 0;
            if (!CAUSAL && high[i] > position[i] + (int)params.window) high[i] = position[i] + (int)params.window;
        }
        slope[i] = SLOPES ? slopes[params.slopes_offset + (ulong)group.z * params.slopes_batch + (ulong)group.y * params.slopes_head + (ulong)entry * params.slopes_group] : 0.0f;
        if (first_row + i >= count) high[i] = 0;
        lowest = lowest < low[i] ? lowest : low[i];
        highest = highest > high[i] ? highest : high[i];
    }
    for (uint column = thread_index; column < HEAD; column += WORKGROUP_X)
#pragma unroll
        for (uint i = 0; i < ROWS; i++) queries[column][i] = column < params.e ? (float)q_start[i][column] * params.scale : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const ulong k_start = params.k_offset + (ulong)group.z * params.k_batch + (ulong)group.y * params.k_head;
    const ulong v_start = params.v_offset + (ulong)group.z * params.v_batch + (ulong)group.y * params.v_head;
    const ulong scales_start = params.scales_offset + (ulong)group.z * params.scales_batch + (ulong)group.y * params.scales_head;
    const ulong table_start = params.mask_offset + (ulong)group.z * params.mask_batch + (ulong)group.y * params.mask_head;
    float top[ROWS], total[ROWS], sum[COLUMNS][ROWS];
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        top[i] = LOWEST;
        total[i] = 0.0f;
#pragma unroll
        for (uint j = 0; j < COLUMNS; j++) sum[j][i] = 0.0f;
    }
    const uint stop = (part + 1) * params.chunk < params.keys ? (part + 1) * params.chunk : params.keys;
    for (uint first = part * params.chunk; first < stop; first += WORKGROUP_X) {
        const uint key = first + thread_index;
        const int end = (int)(stop < first + WORKGROUP_X ? stop : first + WORKGROUP_X);
        const bool live = (int)first < highest && end > lowest;

        // Its block, and where it is in there.
        ulong page = 0;
        uint place = key;
        if (PAGED && live && key < stop) {
            page = (uint)mask[table_start + (ulong)(key / params.block) * params.mask_row];
            page = page < params.blocks ? page : 0;
            place = key % params.block;
        }
        const ulong scale_place = scales_start + page * params.scales_block + (ulong)place * params.scales_row;

        // A score of each row.
        float score[ROWS], added[ROWS];
        bool seen[ROWS], found_any = false;
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            score[i] = 0.0f;
            seen[i] = live && key < stop && (int)key >= low[i] && (int)key < high[i];
            added[i] = slope[i] * (float)((int)key - position[i]);
            if (MASKED && seen[i]) {
                if (BYTES) {
                    seen[i] = ((device const uchar*)mask)[mask_start[i] + key] != 0;
                } else {
                    const float bias = (float)mask[mask_start[i] + key];
                    seen[i] = as_type<uint>(bias) != 0xff800000u;
                    added[i] += bias < LEAST ? LEAST : bias;
                }
            }
            found_any = found_any || seen[i];
        }
        const ulong key_start = k_start + page * params.k_block + (ulong)place * params.k_row;
        if (found_any)
            for (uint column = 0; column < params.e; column++) {
                const float found = code(k, key_start + column);
#pragma unroll
                for (uint i = 0; i < ROWS; i++) score[i] = fma(queries[column][i], found, score[i]);
            }
        const float key_scale = SCALED && found_any ? scales[scale_place] : 1.0f;
        const float value_scale = SCALED && found_any ? scales[scale_place + params.scales_of_values] : 1.0f;
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            if (SCALED) score[i] *= key_scale;
            if (SOFTCAP) {
                // Some compute tanh by powers that overflow.
                const float above = score[i] / params.softcap > 15.0f ? 15.0f : score[i] / params.softcap;
                score[i] = tanh(above < -15.0f ? -15.0f : above) * params.softcap;
            }
            score[i] = seen[i] ? score[i] + added[i] : LOWEST;
            scores[thread_index][i] = score[i];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Its weight, relative to the largest score so far.
        if (thread_index < TOPS)
#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                float found = score[i];
                for (uint j = thread_index + TOPS; j < WORKGROUP_X; j += TOPS) found = fmax(found, scores[j][i]);
                tops[thread_index][i] = found;
            }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float highest_score[ROWS], weight[ROWS];
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            highest_score[i] = top[i];
            for (uint j = 0; live && j < TOPS; j++) highest_score[i] = fmax(highest_score[i], tops[j][i]);
            weight[i] = score[i] <= LOWEST ? 0.0f : exp(score[i] - highest_score[i]);
            weights[thread_index][i] = weight[i] * value_scale;
        }
        lines[thread_index] = v_start + page * params.v_block + (ulong)place * params.v_row;
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Values times weights.
        if (live) {
#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                const float factor = exp(top[i] - highest_score[i]);
                top[i] = highest_score[i];
                total[i] = total[i] * factor + weight[i];
#pragma unroll
                for (uint j = 0; j < COLUMNS; j++) sum[j][i] *= factor;
            }
            const uint seen_end = (uint)(end < highest ? end : highest);
            for (uint n = first; n < seen_end; n++) {
                const ulong start = PAGED ? lines[n - first] : v_start + (ulong)n * params.v_row;
#pragma unroll
                for (uint j = 0; j < COLUMNS; j++) {
                    const uint column = thread_index + j * WORKGROUP_X;
                    const float value = column < params.ev ? code(v, start + column) : 0.0f;
#pragma unroll
                    for (uint i = 0; i < ROWS; i++) sum[j][i] = fma(weights[n - first][i], value, sum[j][i]);
                }
            }
        }
    }

    // Totals of all threads.
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint i = 0; i < ROWS; i++) scores[thread_index][i] = total[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        total[i] = 0.0f;
        for (uint j = 0; j < WORKGROUP_X; j++) total[i] += scores[j][i];
    }

    for (uint i = 0; i < ROWS && first_row + i < count; i++) {
        const uint entry = (first_row + i) / params.rows, row = (first_row + i) % params.rows;
        device OUT* start = out + params.out_offset + (ulong)group.z * params.out_batch + (ulong)group.y * params.out_head + (ulong)entry * params.out_group + (ulong)row * params.out_row + (ulong)part * params.out_part;
        const float share = SPLIT ? 1.0f : 1.0f / (total[i] == 0.0f ? 1.0f : total[i]);
#pragma unroll
        for (uint j = 0; j < COLUMNS; j++)
            if (thread_index + j * WORKGROUP_X < params.ev) start[thread_index + j * WORKGROUP_X] = (OUT)(sum[j][i] * share);
        if (SPLIT && thread_index == 0) {
            start[params.ev] = (OUT)top[i];
            start[params.ev + 1] = (OUT)total[i];
        }
    }
}
