// attention: out = softmax(q kᵀ scale + mask) v with an online softmax; a thread computes a row of out, a workgroup WORKGROUP_X rows of one head.
//
// Keys and values come through workgroup memory, KEYS at a time; the row's query and its sum of values stay in named
// registers, for heads of up to 64 elements. A mask's -infinity hides a score, which is LOWEST then. A row's maximum so far
// rescales its sums (Milakov and Gimelshein 2018, Dao et al. 2022).

struct Params {
    l: u32, s: u32, e: u32, ev: u32, scale: f32,
    q_offset: u32, q_batch: u32, q_head: u32, q_row: u32, q_column: u32,
    k_offset: u32, k_batch: u32, k_head: u32, k_row: u32, k_column: u32,
    v_offset: u32, v_batch: u32, v_head: u32, v_row: u32, v_column: u32,
    mask_offset: u32, mask_batch: u32, mask_head: u32, mask_row: u32, mask_column: u32,
    out_offset: u32, out_batch: u32, out_head: u32, out_row: u32, out_column: u32,
}

@group(0) @binding(0) var<storage, read_write> q: array<T>;
@group(0) @binding(1) var<storage, read_write> k: array<T>;
@group(0) @binding(2) var<storage, read_write> v: array<T>;
@group(0) @binding(3) var<storage, read_write> mask: array<T>;
@group(0) @binding(4) var<storage, read_write> out: array<T>;
@group(0) @binding(PARAMS) var<uniform> params: Params;

const QUADS = 16u;  // vec4s of a head
// Of hidden scores; of what a mask adds to others.
const LOWEST = -3.0e38;
const LEAST = -1.0e38;

var<workgroup> k_tile: array<vec4<f32>, KEYS * QUADS>;
var<workgroup> v_tile: array<vec4<f32>, KEYS * QUADS>;

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn q_quad(start: u32, quad: u32) -> vec4<f32> {
    var found = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        let column = 4u * quad + i;
        if (column < params.e) { found[i] = f32(q[start + column * params.q_column]); }
    }
    return found * params.scale;
}

fn k_quad(start: u32, row: u32, quad: u32) -> vec4<f32> {
    var found = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        let column = 4u * quad + i;
        if (row < params.s && column < params.e) { found[i] = f32(k[start + row * params.k_row + column * params.k_column]); }
    }
    return found;
}

fn v_quad(start: u32, row: u32, quad: u32) -> vec4<f32> {
    var found = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        let column = 4u * quad + i;
        if (row < params.s && column < params.ev) { found[i] = f32(v[start + row * params.v_row + column * params.v_column]); }
    }
    return found;
}

fn store(start: u32, quad: u32, value: vec4<f32>) {
    for (var i = 0u; i < 4u; i++) {
        let column = 4u * quad + i;
        if (column < params.ev) { out[start + column * params.out_column] = T(value[i]); }
    }
}

@compute @workgroup_size(WORKGROUP_X, WORKGROUP_Y, WORKGROUP_Z)
fn atlas_attention(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let row = group.x * WORKGROUP_X + thread_index;
    // Rows past the end compute the last one again; they must meet the barriers.
    let safe_row = min(row, params.l - 1u);
    let q_start = params.q_offset + group.z * params.q_batch + group.y * params.q_head + safe_row * params.q_row;
    let k_start = params.k_offset + group.z * params.k_batch + group.y * params.k_head;
    let v_start = params.v_offset + group.z * params.v_batch + group.y * params.v_head;
    let mask_start = params.mask_offset + group.z * params.mask_batch + group.y * params.mask_head + safe_row * params.mask_row;

    let q0 = q_quad(q_start, 0u);
    let q1 = q_quad(q_start, 1u);
    let q2 = q_quad(q_start, 2u);
    let q3 = q_quad(q_start, 3u);
    let q4 = q_quad(q_start, 4u);
    let q5 = q_quad(q_start, 5u);
    let q6 = q_quad(q_start, 6u);
    let q7 = q_quad(q_start, 7u);
    let q8 = q_quad(q_start, 8u);
    let q9 = q_quad(q_start, 9u);
    let q10 = q_quad(q_start, 10u);
    let q11 = q_quad(q_start, 11u);
    let q12 = q_quad(q_start, 12u);
    let q13 = q_quad(q_start, 13u);
    let q14 = q_quad(q_start, 14u);
    let q15 = q_quad(q_start, 15u);
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    var sum4 = vec4<f32>();
    var sum5 = vec4<f32>();
    var sum6 = vec4<f32>();
    var sum7 = vec4<f32>();
    var sum8 = vec4<f32>();
    var sum9 = vec4<f32>();
    var sum10 = vec4<f32>();
    var sum11 = vec4<f32>();
    var sum12 = vec4<f32>();
    var sum13 = vec4<f32>();
    var sum14 = vec4<f32>();
    var sum15 = vec4<f32>();
    var top = LOWEST;
    var total = 0.0;

    // A causal row looks at no key after itself.
    var stop = params.s;
    if (CAUSAL) { stop = min(stop, (group.x + 1u) * WORKGROUP_X); }
    for (var first = 0u; first < stop; first += KEYS) {
        for (var i = thread_index; i < KEYS * QUADS; i += WORKGROUP_X) {
            k_tile[i] = k_quad(k_start, first + i / QUADS, i % QUADS);
            v_tile[i] = v_quad(v_start, first + i / QUADS, i % QUADS);
        }
        workgroupBarrier();

        for (var i = 0u; i < min(KEYS, stop - first); i++) {
            let column = first + i;
            let line = i * QUADS;
            var score = dot(q0, k_tile[line]);
            score += dot(q1, k_tile[line + 1u]);
            score += dot(q2, k_tile[line + 2u]);
            score += dot(q3, k_tile[line + 3u]);
            score += dot(q4, k_tile[line + 4u]);
            score += dot(q5, k_tile[line + 5u]);
            score += dot(q6, k_tile[line + 6u]);
            score += dot(q7, k_tile[line + 7u]);
            score += dot(q8, k_tile[line + 8u]);
            score += dot(q9, k_tile[line + 9u]);
            score += dot(q10, k_tile[line + 10u]);
            score += dot(q11, k_tile[line + 11u]);
            score += dot(q12, k_tile[line + 12u]);
            score += dot(q13, k_tile[line + 13u]);
            score += dot(q14, k_tile[line + 14u]);
            score += dot(q15, k_tile[line + 15u]);
            var added = 0.0;
            if (MASKED) { added = f32(mask[mask_start + column * params.mask_column]); }
            let hidden = bitcast<u32>(added) == 0xff800000u || (CAUSAL && column > safe_row);
            score = select(score + select(added, LEAST, added < LEAST), LOWEST, hidden);
            if (score > top) {
                let factor = exp(top - score);
                top = score;
                total *= factor;
                sum0 *= factor;
                sum1 *= factor;
                sum2 *= factor;
                sum3 *= factor;
                sum4 *= factor;
                sum5 *= factor;
                sum6 *= factor;
                sum7 *= factor;
                sum8 *= factor;
                sum9 *= factor;
                sum10 *= factor;
                sum11 *= factor;
                sum12 *= factor;
                sum13 *= factor;
                sum14 *= factor;
                sum15 *= factor;
            }
            if (score > LOWEST || is_nan(score)) {
                let weight = exp(score - top);
                total += weight;
                sum0 += weight * v_tile[line];
                sum1 += weight * v_tile[line + 1u];
                sum2 += weight * v_tile[line + 2u];
                sum3 += weight * v_tile[line + 3u];
                sum4 += weight * v_tile[line + 4u];
                sum5 += weight * v_tile[line + 5u];
                sum6 += weight * v_tile[line + 6u];
                sum7 += weight * v_tile[line + 7u];
                sum8 += weight * v_tile[line + 8u];
                sum9 += weight * v_tile[line + 9u];
                sum10 += weight * v_tile[line + 10u];
                sum11 += weight * v_tile[line + 11u];
                sum12 += weight * v_tile[line + 12u];
                sum13 += weight * v_tile[line + 13u];
                sum14 += weight * v_tile[line + 14u];
                sum15 += weight * v_tile[line + 15u];
            }
        }
        workgroupBarrier();
    }

    if (row >= params.l) { return; }
    let out_start = params.out_offset + group.z * params.out_batch + group.y * params.out_head + row * params.out_row;
    let share = 1.0 / select(total, 1.0, total == 0.0);
    store(out_start, 0u, sum0 * share);
    store(out_start, 1u, sum1 * share);
    store(out_start, 2u, sum2 * share);
    store(out_start, 3u, sum3 * share);
    store(out_start, 4u, sum4 * share);
    store(out_start, 5u, sum5 * share);
    store(out_start, 6u, sum6 * share);
    store(out_start, 7u, sum7 * share);
    store(out_start, 8u, sum8 * share);
    store(out_start, 9u, sum9 * share);
    store(out_start, 10u, sum10 * share);
    store(out_start, 11u, sum11 * share);
    store(out_start, 12u, sum12 * share);
    store(out_start, 13u, sum13 * share);
    store(out_start, 14u, sum14 * share);
    store(out_start, 15u, sum15 * share);
}
