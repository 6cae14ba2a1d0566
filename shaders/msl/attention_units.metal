// attention_units: out = softmax(q kᵀ scale + mask) v with an online softmax, by simdgroup matrices; a simdgroup computes 16 rows of out, a workgroup 16 SUBGROUPS rows of one head.
//
// Keys and then their values come through threadgroup memory, KEYS at a time, to one place. Which thread holds which element
// of a fragment is not documented, so scores go through threadgroup memory too, where PARTS threads have a row. A mask's
// -infinity hides a score, which is LOWEST then. A row's maximum so far rescales its sums (Milakov and Gimelshein 2018, Dao 2023), which takes
// a way through threadgroup memory as well: so it waits until a maximum has grown by GROWTH powers of 2.

struct Params {
    uint l, s, e, ev, groups;
    float scale;
    uint q_offset, q_batch, q_head, q_group, q_row, q_column;
    uint k_offset, k_batch, k_head, k_group, k_row, k_column;
    uint v_offset, v_batch, v_head, v_group, v_row, v_column;
    uint mask_offset, mask_batch, mask_head, mask_group, mask_row, mask_column;
    uint out_offset, out_batch, out_head, out_group, out_row, out_column;
};

constant constexpr uint THREADS = WORKGROUP_X;
constant constexpr uint WIDTH = THREADS / SUBGROUPS;  // threads of a simdgroup
constant constexpr uint SIDE = 8;  // of a fragment
constant constexpr uint OWN_ROWS = 16, ROWS = OWN_ROWS * SUBGROUPS;
constant constexpr uint PARTS = WIDTH / OWN_ROWS;  // threads that share a row
constant constexpr uint PIECE = 16 / sizeof(T);  // elements of a line that a thread loads at a time
constant constexpr uint LINE = HEAD + 16 / sizeof(T);  // padded against bank conflicts
constant constexpr float LOWEST = -3.0e38f, LEAST = -1.0e38f;  // of hidden scores; of what a mask adds to others
constant constexpr float LOG2_E = 1.44269504f;
constant constexpr float GROWTH = 8.0f;
static_assert(WIDTH % OWN_ROWS == 0 && (PARTS & (PARTS - 1)) == 0 && KEYS % (2 * SIDE) == 0, "rows have threads, keys fill fragments");

kernel void atlas_attention_units(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const float* mask [[buffer(3)]],
    device T* out [[buffer(4)]],
    constant Params& params [[buffer(PARAMS)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup T tile[KEYS * LINE];
    threadgroup T weights[ROWS * KEYS];
    threadgroup float scores[ROWS * KEYS];
    threadgroup float factors[ROWS];
    const uint subgroup = thread_index / WIDTH, lane = thread_index % WIDTH;
    const uint head = group.y / params.groups, group_of_head = group.y % params.groups;
    // Causal rows further down take longer, so they begin first.
    const uint tiles = (params.l + ROWS - 1) / ROWS;
    const uint tile_row = (CAUSAL ? tiles - 1 - group.x : group.x) * ROWS;
    const uint first = subgroup * OWN_ROWS;  // of the simdgroup's rows among the workgroup's
    device const T* q_start = q + params.q_offset + (ulong)group.z * params.q_batch + (ulong)head * params.q_head + (ulong)group_of_head * params.q_group;
    device const T* k_start = k + params.k_offset + (ulong)group.z * params.k_batch + (ulong)head * params.k_head + (ulong)group_of_head * params.k_group;
    device const T* v_start = v + params.v_offset + (ulong)group.z * params.v_batch + (ulong)head * params.v_head + (ulong)group_of_head * params.v_group;
    device const float* mask_start = mask + params.mask_offset + (ulong)group.z * params.mask_batch + (ulong)head * params.mask_head + (ulong)group_of_head * params.mask_group;

    // Queries, SIDE columns at a time by way of the weights' place.
    simdgroup_matrix<T, 8, 8> query[2][HEAD / SIDE];
#pragma unroll
    for (uint n = 0; n < HEAD / SIDE; n++) {
        for (uint i = lane; i < OWN_ROWS * SIDE; i += WIDTH) {
            const uint row = tile_row + first + i / SIDE, column = SIDE * n + i % SIDE;
            const bool inside = row < params.l && column < params.e;
            weights[first * KEYS + i] = inside ? q_start[(ulong)row * params.q_row + (ulong)column * params.q_column] : (T)0;
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint i = 0; i < 2; i++) simdgroup_load(query[i][n], weights + first * KEYS + SIDE * SIDE * i, SIDE);
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }

    simdgroup_matrix<float, 8, 8> sum[2][HEAD / SIDE];
#pragma unroll
    for (uint i = 0; i < 2; i++)
#pragma unroll
        for (uint n = 0; n < HEAD / SIDE; n++) sum[i][n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    const uint own_row = lane / PARTS, part = lane % PARTS;  // the row whose scores this thread sees, and which of them
    const uint row = tile_row + first + own_row;
    float top = LOWEST, total = 0.0f;
    const float scale = params.scale * LOG2_E;

    // A causal row looks at no key after itself.
    const uint stop = CAUSAL ? min(params.s, tile_row + ROWS) : params.s;
    for (uint turn = 0; turn < stop; turn += KEYS) {
        for (uint i = thread_index; i < KEYS * HEAD / PIECE; i += THREADS) {
            const uint line = i / (HEAD / PIECE), first_column = i % (HEAD / PIECE) * PIECE, key = turn + line;
            const bool whole = key < params.s && first_column + PIECE <= params.e;
            device const T* piece = k_start + (ulong)key * params.k_row + (ulong)first_column * params.k_column;
            const uint apart = K_WHOLE ? 1 : params.k_column;
#pragma unroll
            for (uint n = 0; n < PIECE; n++) {
                const bool inside = whole || (key < params.s && first_column + n < params.e);
                tile[line * LINE + first_column + n] = inside ? piece[(ulong)n * apart] : (T)0;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Scores.
        simdgroup_matrix<float, 8, 8> score[2][KEYS / SIDE];
#pragma unroll
        for (uint i = 0; i < 2; i++)
#pragma unroll
            for (uint j = 0; j < KEYS / SIDE; j++) score[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
#pragma unroll
        for (uint n = 0; n < HEAD / SIDE; n++)
#pragma unroll
            for (uint j = 0; j < KEYS / SIDE; j++) {
                simdgroup_matrix<T, 8, 8> right;
                simdgroup_load(right, tile + SIDE * j * LINE + SIDE * n, LINE, ulong2(0, 0), true);
#pragma unroll
                for (uint i = 0; i < 2; i++) simdgroup_multiply_accumulate(score[i][j], query[i][n], right, score[i][j]);
            }
#pragma unroll
        for (uint i = 0; i < 2; i++)
#pragma unroll
            for (uint j = 0; j < KEYS / SIDE; j++) simdgroup_store(score[i][j], scores + (first + SIDE * i) * KEYS + SIDE * j, KEYS);
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Values take the keys' place, while scores become weights, in powers of 2.
        for (uint i = thread_index; i < KEYS * HEAD / PIECE; i += THREADS) {
            const uint line = i / (HEAD / PIECE), first_column = i % (HEAD / PIECE) * PIECE, key = turn + line;
            const bool whole = key < params.s && first_column + PIECE <= params.ev;
            device const T* piece = v_start + (ulong)key * params.v_row + (ulong)first_column * params.v_column;
            const uint apart = V_WHOLE ? 1 : params.v_column;
#pragma unroll
            for (uint n = 0; n < PIECE; n++) {
                const bool inside = whole || (key < params.s && first_column + n < params.ev);
                tile[line * LINE + first_column + n] = inside ? piece[(ulong)n * apart] : (T)0;
            }
        }
        float value[KEYS / PARTS];
        float highest = top;
#pragma unroll
        for (uint j = 0; j < KEYS / PARTS; j++) {
            const uint place = PARTS * j + part, key = turn + place;
            float added = 0.0f;
            if (MASKED && row < params.l && key < params.s)
                added = mask_start[(ulong)row * params.mask_row + (ulong)key * params.mask_column];
            value[j] = scores[(first + own_row) * KEYS + place] * scale + (added < LEAST ? LEAST : added) * LOG2_E;
            if (as_type<uint>(added) == 0xff800000u || key >= params.s || (CAUSAL && key > row)) value[j] = LOWEST;
            highest = fmax(highest, value[j]);
        }
        for (uint distance = 1; distance < PARTS; distance *= 2) highest = fmax(highest, simd_shuffle_xor(highest, distance));
        if (simd_any(highest - top > GROWTH)) {
            const float factor = exp2(top - highest);
            top = highest;
            total *= factor;
            if (turn > 0) {
                factors[first + own_row] = factor;
                // Scores have been read: theirs is the place where sums are rescaled.
#pragma unroll
                for (uint n = 0; n < HEAD / SIDE; n++) {
                    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
                    for (uint i = 0; i < 2; i++) simdgroup_store(sum[i][n], scores + first * KEYS + SIDE * SIDE * i, SIDE);
                    simdgroup_barrier(mem_flags::mem_threadgroup);
                    for (uint i = lane; i < OWN_ROWS * SIDE; i += WIDTH) scores[first * KEYS + i] *= factors[first + i / SIDE];
                    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
                    for (uint i = 0; i < 2; i++) simdgroup_load(sum[i][n], scores + first * KEYS + SIDE * SIDE * i, SIDE);
                }
            }
        }
#pragma unroll
        for (uint j = 0; j < KEYS / PARTS; j++) {
            const float weight = value[j] <= LOWEST ? 0.0f : exp2(value[j] - top);
            total += weight;
            weights[(first + own_row) * KEYS + PARTS * j + part] = (T)weight;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Sums of values.
#pragma unroll
        for (uint j = 0; j < KEYS / SIDE; j++) {
            simdgroup_matrix<T, 8, 8> left[2];
#pragma unroll
            for (uint i = 0; i < 2; i++) simdgroup_load(left[i], weights + (first + SIDE * i) * KEYS + SIDE * j, KEYS);
#pragma unroll
            for (uint n = 0; n < HEAD / SIDE; n++) {
                simdgroup_matrix<T, 8, 8> right;
                simdgroup_load(right, tile + SIDE * j * LINE + SIDE * n, LINE);
#pragma unroll
                for (uint i = 0; i < 2; i++) simdgroup_multiply_accumulate(sum[i][n], left[i], right, sum[i][n]);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // Store, a column of fragments at a time.
    for (uint distance = 1; distance < PARTS; distance *= 2) total += simd_shuffle_xor(total, distance);
    factors[first + own_row] = 1.0f / (total == 0.0f ? 1.0f : total);
    device T* out_start = out + params.out_offset + (ulong)group.z * params.out_batch + (ulong)head * params.out_head + (ulong)group_of_head * params.out_group;
#pragma unroll
    for (uint n = 0; n < HEAD / SIDE; n++) {
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint i = 0; i < 2; i++) simdgroup_store(sum[i][n], scores + first * KEYS + SIDE * SIDE * i, SIDE);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = lane; i < OWN_ROWS * SIDE; i += WIDTH) {
            const uint out_row = tile_row + first + i / SIDE, column = SIDE * n + i % SIDE;
            if (out_row < params.l && column < params.ev)
                out_start[(ulong)out_row * params.out_row + (ulong)column * params.out_column] = (T)(scores[first * KEYS + i] * factors[first + i / SIDE]);
        }
    }
}
