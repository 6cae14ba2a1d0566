// atlas_softmax_f32: x -> out, over 2 axes, the last 1 reduced; 256 threads a workgroup, 256 a row.
struct Parameters {
    extent_0: u32,
    extent_1: u32,
}
@group(0) @binding(2) var<uniform> p: Parameters;
var<private> depth: u32;  // 0, but no compiler knows
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
var<workgroup> partial_f32: array<f32, 256>;

var<private> zero_bits: u32 = 0u;  // keeps naga from folding what it refuses

fn is_nan(x: f32) -> bool {
    // By bits: naga folds x != x to false.
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn maximum(x: f32, y: f32) -> f32 {
    return select(max(x, y), x + y, is_nan(x) || is_nan(y));
}

fn chosen(condition: bool, x: f32, y: f32) -> f32 {
    // Of bits: a choice between the sides of a comparison would be taken for a minimum, which loses NaN.
    return bitcast<f32>(select(bitcast<u32>(y), bitcast<u32>(x), condition));
}

fn i32_of_f32(x: f32) -> i32 {
    // False for NaN, which gives 0.
    let fits = x > -2147483600.0f && x < 2147483600.0f;
    let converted = i32(select(0.0f, x, fits));
    return select(select(converted, 2147483647i, x >= 2147483600.0f), (-2147483647i - 1i), x <= -2147483600.0f);
}

fn hidden_f32(x: f32) -> f32 {
    // Keeps Mesa from rearranging sums: it cannot know that the dispatch is one group deep.
    return bitcast<f32>(bitcast<u32>(x) | depth);
}

fn quotient(x: f32, y: f32) -> f32 {
    // Vulkan promises nothing of a divisor beyond 2^126: from 2^125 on a quarter of both sides is divided.
    let size = bitcast<u32>(y) & 0x7fffffffu;
    let large = size >= 0x7e000000u && size < 0x7f800000u;
    let divisor = bitcast<f32>(bitcast<u32>(y) - select(0u, 0x01000000u, large));
    return x * select(1.0f, 0.25f, large) / divisor;
}

fn term_0(i1: u32, v5: f32) -> f32 {
    return v5;
}

fn term_1(v6: f32, i1: u32, v5: f32) -> f32 {
    let v7 = v5 - v6;
    let v9 = v7 > 89.0f;
    let v10 = bitcast<i32>(v7);
    let v12 = v10 & 2147483647i;
    let v14 = v12 > 2139095040i;
    let v15 = chosen(v9, 89.0f, v7);
    let v16 = chosen(v14, v7, v15);
    let v18 = v16 < -104.0f;
    let v19 = bitcast<i32>(v16);
    let v20 = v19 & 2147483647i;
    let v21 = v20 > 2139095040i;
    let v22 = chosen(v18, -104.0f, v16);
    let v23 = chosen(v21, v16, v22);
    let v25 = v23 * 1.442695f;
    let v26 = round(v25);
    let v27 = i32_of_f32(v26);
    let v29 = v27 + 254i;
    let v31 = hidden_f32(fma(v26, -0.69314575f, v23));
    let v33 = hidden_f32(fma(v26, -1.4286068e-06f, v31));
    let v34 = v33 * v33;
    let v37 = fma(0.0013950554f, v33, 0.008369047f);
    let v39 = fma(v37, v33, 0.041666206f);
    let v41 = fma(v39, v33, 0.16666518f);
    let v43 = fma(v41, v33, 0.5f);
    let v44 = fma(v34, v43, v33);
    let v46 = select(v29 << (u32(22i) & 31u), 0i, u32(22i) > 31u);
    let v48 = v46 & -8388608i;
    let v49 = bitcast<f32>(v48);
    let v51 = select(v29 << (u32(23i) & 31u), 0i, u32(23i) > 31u);
    let v52 = v51 - v48;
    let v53 = bitcast<f32>(v52);
    let v54 = fma(v49, v44, v49);
    let v55 = hidden_f32(v54 * v53);
    return v55;
}

fn term_2(v6: f32, v56: f32, i1: u32, v5: f32) -> f32 {
    let v7 = v5 - v6;
    let v9 = v7 > 89.0f;
    let v10 = bitcast<i32>(v7);
    let v12 = v10 & 2147483647i;
    let v14 = v12 > 2139095040i;
    let v15 = chosen(v9, 89.0f, v7);
    let v16 = chosen(v14, v7, v15);
    let v18 = v16 < -104.0f;
    let v19 = bitcast<i32>(v16);
    let v20 = v19 & 2147483647i;
    let v21 = v20 > 2139095040i;
    let v22 = chosen(v18, -104.0f, v16);
    let v23 = chosen(v21, v16, v22);
    let v25 = v23 * 1.442695f;
    let v26 = round(v25);
    let v27 = i32_of_f32(v26);
    let v29 = v27 + 254i;
    let v31 = hidden_f32(fma(v26, -0.69314575f, v23));
    let v33 = hidden_f32(fma(v26, -1.4286068e-06f, v31));
    let v34 = v33 * v33;
    let v37 = fma(0.0013950554f, v33, 0.008369047f);
    let v39 = fma(v37, v33, 0.041666206f);
    let v41 = fma(v39, v33, 0.16666518f);
    let v43 = fma(v41, v33, 0.5f);
    let v44 = fma(v34, v43, v33);
    let v46 = select(v29 << (u32(22i) & 31u), 0i, u32(22i) > 31u);
    let v48 = v46 & -8388608i;
    let v49 = bitcast<f32>(v48);
    let v51 = select(v29 << (u32(23i) & 31u), 0i, u32(23i) > 31u);
    let v52 = v51 - v48;
    let v53 = bitcast<f32>(v52);
    let v54 = fma(v49, v44, v49);
    let v55 = hidden_f32(v54 * v53);
    let v57 = quotient(v55, v56);
    return v57;
}

@compute @workgroup_size(256)
fn atlas_softmax_f32(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    depth = groups.z;
    let lanes = p.extent_0;
    let number = group;
    let member = thread_index;
    let inside = number < lanes;
    let lane = min(number, lanes - 1u);
    let i0 = lane;
    let v2 = i0 * p.extent_1;
    var v6_0: f32 = bitcast<f32>(0xff800000u | zero_bits);
    var v6_1: f32 = bitcast<f32>(0xff800000u | zero_bits);
    var v6_2: f32 = bitcast<f32>(0xff800000u | zero_bits);
    var v6_3: f32 = bitcast<f32>(0xff800000u | zero_bits);
    {
        let length = select(0u, p.extent_1, inside);
        var start: u32 = member;
        var aligned: bool = true;
        {
            let i1 = 0u;
            let v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            let whole = length / 4u * 4u;
            for (var i1 = member * 4u; i1 < whole; i1 += 1024u) {
                let v4 = v2 + i1;
                let v5_4 = x[v4 / 4u];
                let e0 = term_0(i1, v5_4.x);
                v6_0 = maximum(v6_0, e0);
                let e1 = term_0(i1 + 1u, v5_4.y);
                v6_1 = maximum(v6_1, e1);
                let e2 = term_0(i1 + 2u, v5_4.z);
                v6_2 = maximum(v6_2, e2);
                let e3 = term_0(i1 + 3u, v5_4.w);
                v6_3 = maximum(v6_3, e3);
            }
            start = whole + member;
        } else {
            let stop = length - min(length, 768u);
            for (var next = start; next < stop; next += 1024u) {
                {
                    let i1 = next;
                    let v4 = v2 + i1;
                    let e0 = term_0(i1, x[v4 / 4u][v4 % 4u]);
                    v6_0 = maximum(v6_0, e0);
                }
                {
                    let i1 = next + 256u;
                    let v4 = v2 + i1;
                    let e1 = term_0(i1, x[v4 / 4u][v4 % 4u]);
                    v6_1 = maximum(v6_1, e1);
                }
                {
                    let i1 = next + 512u;
                    let v4 = v2 + i1;
                    let e2 = term_0(i1, x[v4 / 4u][v4 % 4u]);
                    v6_2 = maximum(v6_2, e2);
                }
                {
                    let i1 = next + 768u;
                    let v4 = v2 + i1;
                    let e3 = term_0(i1, x[v4 / 4u][v4 % 4u]);
                    v6_3 = maximum(v6_3, e3);
                }
                start = next + 1024u;
            }
        }
        for (var i1 = start; i1 < length; i1 += 256u) {
            let v4 = v2 + i1;
            let e0 = term_0(i1, x[v4 / 4u][v4 % 4u]);
            v6_0 = maximum(v6_0, e0);
        }
    }
    let v6_a = maximum(v6_0, v6_1);
    let v6_b = maximum(v6_2, v6_3);
    partial_f32[thread_index] = maximum(v6_a, v6_b);
    workgroupBarrier();
    if (member < 128u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 128u]);
    }
    workgroupBarrier();
    if (member < 64u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 64u]);
    }
    workgroupBarrier();
    if (member < 32u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 32u]);
    }
    workgroupBarrier();
    if (member < 16u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 16u]);
    }
    workgroupBarrier();
    if (member < 8u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 8u]);
    }
    workgroupBarrier();
    if (member < 4u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 4u]);
    }
    workgroupBarrier();
    if (member < 2u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 2u]);
    }
    workgroupBarrier();
    if (member < 1u) {
        partial_f32[thread_index] = maximum(partial_f32[thread_index], partial_f32[thread_index + 1u]);
    }
    workgroupBarrier();
    let v6 = partial_f32[thread_index - member];
    workgroupBarrier();
    var v56_0: f32 = 0.0f;
    var before56_0: f32 = 0.0f;
    var v56_1: f32 = 0.0f;
    var before56_1: f32 = 0.0f;
    var v56_2: f32 = 0.0f;
    var before56_2: f32 = 0.0f;
    var v56_3: f32 = 0.0f;
    var before56_3: f32 = 0.0f;
    {
        let length = select(0u, p.extent_1, inside);
        var start: u32 = member;
        var aligned: bool = true;
        {
            let i1 = 0u;
            let v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            let whole = length / 4u * 4u;
            for (var block = member * 4u; block < whole; block += 32768u) {
                let block_end = min(block + 32768u, whole);
                for (var i1 = block; i1 < block_end; i1 += 1024u) {
                    let v4 = v2 + i1;
                    let v5_4 = x[v4 / 4u];
                    let e0 = term_1(v6, i1, v5_4.x);
                    v56_0 = v56_0 + e0;
                    let e1 = term_1(v6, i1 + 1u, v5_4.y);
                    v56_1 = v56_1 + e1;
                    let e2 = term_1(v6, i1 + 2u, v5_4.z);
                    v56_2 = v56_2 + e2;
                    let e3 = term_1(v6, i1 + 3u, v5_4.w);
                    v56_3 = v56_3 + e3;
                }
                before56_0 = before56_0 + v56_0;
                v56_0 = 0.0f;
                before56_1 = before56_1 + v56_1;
                v56_1 = 0.0f;
                before56_2 = before56_2 + v56_2;
                v56_2 = 0.0f;
                before56_3 = before56_3 + v56_3;
                v56_3 = 0.0f;
            }
            start = whole + member;
        } else {
            let stop = length - min(length, 768u);
            for (var block = start; block < stop; block += 32768u) {
                let block_end = min(block + 32768u, stop);
                for (var next = block; next < block_end; next += 1024u) {
                    {
                        let i1 = next;
                        let v4 = v2 + i1;
                        let e0 = term_1(v6, i1, x[v4 / 4u][v4 % 4u]);
                        v56_0 = v56_0 + e0;
                    }
                    {
                        let i1 = next + 256u;
                        let v4 = v2 + i1;
                        let e1 = term_1(v6, i1, x[v4 / 4u][v4 % 4u]);
                        v56_1 = v56_1 + e1;
                    }
                    {
                        let i1 = next + 512u;
                        let v4 = v2 + i1;
                        let e2 = term_1(v6, i1, x[v4 / 4u][v4 % 4u]);
                        v56_2 = v56_2 + e2;
                    }
                    {
                        let i1 = next + 768u;
                        let v4 = v2 + i1;
                        let e3 = term_1(v6, i1, x[v4 / 4u][v4 % 4u]);
                        v56_3 = v56_3 + e3;
                    }
                    start = next + 1024u;
                }
                before56_0 = before56_0 + v56_0;
                v56_0 = 0.0f;
                before56_1 = before56_1 + v56_1;
                v56_1 = 0.0f;
                before56_2 = before56_2 + v56_2;
                v56_2 = 0.0f;
                before56_3 = before56_3 + v56_3;
                v56_3 = 0.0f;
            }
        }
        for (var i1 = start; i1 < length; i1 += 256u) {
            let v4 = v2 + i1;
            let e0 = term_1(v6, i1, x[v4 / 4u][v4 % 4u]);
            v56_0 = v56_0 + e0;
        }
    }
    v56_0 = before56_0 + v56_0;
    v56_1 = before56_1 + v56_1;
    v56_2 = before56_2 + v56_2;
    v56_3 = before56_3 + v56_3;
    let v56_a = v56_0 + v56_1;
    let v56_b = v56_2 + v56_3;
    partial_f32[thread_index] = v56_a + v56_b;
    workgroupBarrier();
    if (member < 128u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 128u];
    }
    workgroupBarrier();
    if (member < 64u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 64u];
    }
    workgroupBarrier();
    if (member < 32u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 32u];
    }
    workgroupBarrier();
    if (member < 16u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 16u];
    }
    workgroupBarrier();
    if (member < 8u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 8u];
    }
    workgroupBarrier();
    if (member < 4u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 4u];
    }
    workgroupBarrier();
    if (member < 2u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 2u];
    }
    workgroupBarrier();
    if (member < 1u) {
        partial_f32[thread_index] = partial_f32[thread_index] + partial_f32[thread_index + 1u];
    }
    workgroupBarrier();
    let v56 = partial_f32[thread_index - member];
    workgroupBarrier();
    {
        let length = select(0u, p.extent_1, inside);
        var start: u32 = member;
        var aligned: bool = true;
        {
            let i1 = 0u;
            let v4 = v2 + i1;
            aligned = aligned && v4 % 4u == 0u;
            aligned = aligned && v4 % 4u == 0u;
        }
        if (aligned) {
            let whole = length / 4u * 4u;
            for (var i1 = member * 4u; i1 < whole; i1 += 1024u) {
                let v4 = v2 + i1;
                let v5_4 = x[v4 / 4u];
                let e0 = term_2(v6, v56, i1, v5_4.x);
                let e1 = term_2(v6, v56, i1 + 1u, v5_4.y);
                let e2 = term_2(v6, v56, i1 + 2u, v5_4.z);
                let e3 = term_2(v6, v56, i1 + 3u, v5_4.w);
                out[v4 / 4u] = vec4<f32>(e0, e1, e2, e3);
            }
            start = whole + member;
        } else {
            let stop = length - min(length, 768u);
            for (var next = start; next < stop; next += 1024u) {
                {
                    let i1 = next;
                    let v4 = v2 + i1;
                    let e0 = term_2(v6, v56, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e0;
                }
                {
                    let i1 = next + 256u;
                    let v4 = v2 + i1;
                    let e1 = term_2(v6, v56, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e1;
                }
                {
                    let i1 = next + 512u;
                    let v4 = v2 + i1;
                    let e2 = term_2(v6, v56, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e2;
                }
                {
                    let i1 = next + 768u;
                    let v4 = v2 + i1;
                    let e3 = term_2(v6, v56, i1, x[v4 / 4u][v4 % 4u]);
                    out[v4 / 4u][v4 % 4u] = e3;
                }
                start = next + 1024u;
            }
        }
        for (var i1 = start; i1 < length; i1 += 256u) {
            let v4 = v2 + i1;
            let e0 = term_2(v6, v56, i1, x[v4 / 4u][v4 % 4u]);
            out[v4 / 4u][v4 % 4u] = e0;
        }
    }
}
