// attention_few: out = softmax(q kᵀ scale, masked) v for few rows that share keys; a workgroup has 4 rows and a part of the keys, a thread a key of a turn, and then columns.
//
// A vec4 is of the 4 rows. Scores of WORKGROUP_X keys go through workgroup memory, where 8 threads find the rows'
// maxima, which rescale the sums so far (Milakov and Gimelshein 2018). With SPLIT a part leaves its sums, maximum and total,
// and the parts are joined afterwards (Dao et al. 2023, flash decoding). Keys that no row looks at are not read.
//
// With PAGED the mask's place is that of a table, of the blocks of a pool that a row's keys and values lie in
// (Kwon et al. 2023). With NARROW they are codes of so many bits in words, i8 or f16; with SCALED times a number each.

struct Params {
    rows: u32, keys: u32, e: u32, ev: u32, groups: u32, parts: u32, chunk: u32, window: u32, block: u32, blocks: u32,
    scale: f32, softcap: f32,
    q_offset: u32, q_batch: u32, q_head: u32, q_group: u32, q_row: u32,
    k_offset: u32, k_batch: u32, k_head: u32, k_group: u32, k_row: u32,
    v_offset: u32, v_batch: u32, v_head: u32, v_group: u32, v_row: u32,
    mask_offset: u32, mask_batch: u32, mask_head: u32, mask_group: u32, mask_row: u32,
    lengths_offset: u32, lengths_batch: u32, lengths_head: u32, lengths_group: u32,
    slopes_offset: u32, slopes_batch: u32, slopes_head: u32, slopes_group: u32,
    scales_offset: u32, scales_batch: u32, scales_head: u32, scales_row: u32, scales_block: u32, scales_of_values: u32,
    k_block: u32, v_block: u32, out_offset: u32, out_batch: u32, out_head: u32, out_group: u32, out_row: u32, out_part: u32,
}

@group(0) @binding(0) var<storage, read_write> q: array<T>;
@group(0) @binding(1) var<storage, read_write> k: array<CACHE>;
@group(0) @binding(2) var<storage, read_write> v: array<CACHE>;
@group(0) @binding(3) var<storage, read_write> mask: array<MASK>;
@group(0) @binding(4) var<storage, read_write> lengths: array<i32>;
@group(0) @binding(5) var<storage, read_write> slopes: array<f32>;
@group(0) @binding(6) var<storage, read_write> scales: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<OUT>;
@group(0) @binding(PARAMS) var<uniform> params: Params;

const ROWS = 4u;
const IN_WORD = 32u / max(NARROW, 8u);  // codes
const TOPS = 8u;  // threads that look for maxima, of equally many scores each
// Of hidden scores; of what a mask adds to others.
const LOWEST = -3.0e38;
const LEAST = -1.0e38;

var<workgroup> queries: array<vec4<f32>, HEAD>;
var<workgroup> scores: array<vec4<f32>, WORKGROUP_X>;
var<workgroup> tops: array<vec4<f32>, TOPS>;
var<workgroup> weights: array<vec4<f32>, WORKGROUP_X>;
var<workgroup> lines: array<u32, WORKGROUP_X>;  // where values lie, with PAGED

fn is_nan(x: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}

// tanh, which some compute by powers that overflow.
fn bounded(x: vec4<f32>) -> vec4<f32> {
    let above = select(x, vec4<f32>(15.0), x > vec4<f32>(15.0));
    return tanh(select(above, vec4<f32>(-15.0), above < vec4<f32>(-15.0)));
}

fn code(word: u32, place: u32) -> f32 {
    if (NARROW == 8u) { return f32(extractBits(bitcast<i32>(word), 8u * (place % 4u), 8u)); }
    return unpack2x16float(word)[place % 2u];
}

fn key_at(place: u32) -> f32 {
    if (NARROW > 0u) { return code(u32(k[place / IN_WORD]), place); }
    return f32(k[place]);
}

fn value_at(start: u32, column: u32) -> f32 {
    if (column >= params.ev) { return 0.0; }
    if (NARROW > 0u) { return code(u32(v[(start + column) / IN_WORD]), start + column); }
    return f32(v[start + column]);
}

@compute @workgroup_size(WORKGROUP_X, WORKGROUP_Y, WORKGROUP_Z)
fn atlas_attention_few(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let part = group.x % params.parts;
    let first_row = group.x / params.parts * ROWS;
    let count = params.rows * params.groups;

    // What each row looks at: keys from `low` to before `high`.
    var low = vec4<i32>();
    var high = vec4<i32>();
    var position = vec4<i32>();
    var slope = vec4<f32>();
    var q_start = vec4<u32>();
    var mask_start = vec4<u32>();
    for (var i = 0u; i < ROWS; i++) {
        let index = min(first_row + i, count - 1u);
        let entry = index / params.rows;
        let row = index % params.rows;
        q_start[i] = params.q_offset + group.z * params.q_batch + group.y * params.q_head + entry * params.q_group + row * params.q_row;
        mask_start[i] = params.mask_offset + group.z * params.mask_batch + group.y * params.mask_head + entry * params.mask_group + row * params.mask_row;
        position[i] = i32(row);
        high[i] = i32(params.keys);
        if (LENGTHS) {
            let length = lengths[params.lengths_offset + group.z * params.lengths_batch + group.y * params.lengths_head + entry * params.lengths_group];
            position[i] += length - i32(params.rows);
            high[i] = min(high[i], length);
        }
        if (CAUSAL) { high[i] = min(high[i], position[i] + 1); }
        if (WINDOW) {
            low[i] = max(position[i] + 1 - i32(params.window), 0);
            if (!CAUSAL) { high[i] = min(high[i], position[i] + i32(params.window)); }
        }
        if (SLOPES) { slope[i] = slopes[params.slopes_offset + group.z * params.slopes_batch + group.y * params.slopes_head + entry * params.slopes_group]; }
        if (first_row + i >= count) { high[i] = 0; }
    }
    let lowest = min(min(low.x, low.y), min(low.z, low.w));
    let highest = max(max(high.x, high.y), max(high.z, high.w));
    for (var column = thread_index; column < HEAD; column += WORKGROUP_X) {
        var found = vec4<f32>();
        if (column < params.e) {
            found = vec4<f32>(f32(q[q_start.x + column]), f32(q[q_start.y + column]), f32(q[q_start.z + column]), f32(q[q_start.w + column]));
        }
        queries[column] = found * params.scale;
    }
    workgroupBarrier();

    let k_start = params.k_offset + group.z * params.k_batch + group.y * params.k_head;
    let v_start = params.v_offset + group.z * params.v_batch + group.y * params.v_head;
    let scales_start = params.scales_offset + group.z * params.scales_batch + group.y * params.scales_head;
    let table_start = params.mask_offset + group.z * params.mask_batch + group.y * params.mask_head;
    var top = vec4<f32>(LOWEST);
    var total = vec4<f32>();
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    let stop = min((part + 1u) * params.chunk, params.keys);
    for (var first = part * params.chunk; first < stop; first += WORKGROUP_X) {
        let key = first + thread_index;
        let end = i32(min(stop, first + WORKGROUP_X));
        let live = i32(first) < highest && end > lowest;

        // Its block, and where it is in there.
        var page = 0u;
        var place = key;
        if (PAGED && live && key < stop) {
            page = u32(mask[table_start + key / params.block * params.mask_row]);
            page = select(0u, page, page < params.blocks);
            place = key % params.block;
        }
        let scale_place = scales_start + page * params.scales_block + place * params.scales_row;

        // A score of each row.
        var score = vec4<f32>(LOWEST);
        var value_scale = 1.0;
        if (live && key < stop) {
            var seen = select(vec4<bool>(false), vec4<i32>(i32(key)) < high, vec4<i32>(i32(key)) >= low);
            var added = slope * vec4<f32>(vec4<i32>(i32(key)) - position);
            for (var i = 0u; MASKED && i < ROWS; i++) {
                let at = mask_start[i] + key;
                if (BYTES) {
                    let word = u32(mask[at / 4u]);
                    seen[i] = seen[i] && ((word >> (8u * (at % 4u))) & 255u) != 0u;
                } else {
                    let bias = f32(mask[at]);
                    seen[i] = seen[i] && bitcast<u32>(bias) != 0xff800000u;
                    added[i] += select(bias, LEAST, bias < LEAST);
                }
            }
            if (any(seen)) {
                let start = k_start + page * params.k_block + place * params.k_row;
                var sum = vec4<f32>();
                for (var column = 0u; column < params.e; column++) { sum += queries[column] * key_at(start + column); }
                if (SCALED) {
                    sum *= scales[scale_place];
                    value_scale = scales[scale_place + params.scales_of_values];
                }
                if (SOFTCAP) { sum = bounded(sum / params.softcap) * params.softcap; }
                score = select(vec4<f32>(LOWEST), sum + added, seen);
            }
        }
        scores[thread_index] = score;
        workgroupBarrier();

        // Its weight, relative to the largest score so far.
        if (thread_index < TOPS) {
            var found = score;
            for (var i = thread_index + TOPS; i < WORKGROUP_X; i += TOPS) { found = max(found, scores[i]); }
            tops[thread_index] = found;
        }
        workgroupBarrier();
        var highest_score = top;
        for (var i = 0u; live && i < TOPS; i++) { highest_score = max(highest_score, tops[i]); }
        let share = exp(score - highest_score);
        let weight = select(select(vec4<f32>(), share, is_nan(score)), share, score > vec4<f32>(LOWEST));
        weights[thread_index] = weight * value_scale;
        lines[thread_index] = v_start + page * params.v_block + place * params.v_row;
        workgroupBarrier();

        // Values times weights.
        if (live) {
            let factor = exp(top - highest_score);
            top = highest_score;
            total = total * factor + weight;
            sum0 *= factor;
            sum1 *= factor;
            sum2 *= factor;
            sum3 *= factor;
            for (var i = 0u; i < u32(min(end, highest)) - first; i++) {
                let share = weights[i];
                var start = v_start + (first + i) * params.v_row;
                if (PAGED) { start = lines[i]; }
                sum0 += share * value_at(start, thread_index);
                if (HEAD > 64u) { sum1 += share * value_at(start, thread_index + 64u); }
                if (HEAD > 128u) { sum2 += share * value_at(start, thread_index + 128u); }
                if (HEAD > 192u) { sum3 += share * value_at(start, thread_index + 192u); }
            }
        }
    }

    // Totals of all threads.
    workgroupBarrier();
    scores[thread_index] = total;
    workgroupBarrier();
    total = vec4<f32>();
    for (var i = 0u; i < WORKGROUP_X; i++) { total += scores[i]; }

    for (var i = 0u; i < ROWS && first_row + i < count; i++) {
        let entry = (first_row + i) / params.rows;
        let row = (first_row + i) % params.rows;
        let start = params.out_offset + group.z * params.out_batch + group.y * params.out_head + entry * params.out_group + row * params.out_row + part * params.out_part;
        var share = 1.0;
        if (!SPLIT) { share = 1.0 / select(total[i], 1.0, total[i] == 0.0); }
        if (thread_index < params.ev) { out[start + thread_index] = OUT(sum0[i] * share); }
        if (HEAD > 64u && thread_index + 64u < params.ev) { out[start + thread_index + 64u] = OUT(sum1[i] * share); }
        if (HEAD > 128u && thread_index + 128u < params.ev) { out[start + thread_index + 128u] = OUT(sum2[i] * share); }
        if (HEAD > 192u && thread_index + 192u < params.ev) { out[start + thread_index + 192u] = OUT(sum3[i] * share); }
        if (SPLIT && thread_index == 0u) {
            out[start + params.ev] = OUT(top[i]);
            out[start + params.ev + 1u] = OUT(total[i]);
        }
    }
}
