// atlas_silu_f16: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    extent_0: u32,
}
@group(0) @binding(2) var<uniform> p: Parameters;
var<private> depth: u32;  // 0, but no compiler knows
@group(0) @binding(0) var<storage, read> a: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec2<u32>>;

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

fn f16_bits(x: f32) -> u32 {
    // To nearest, ties to even. Adding 0.5 aligns a subnormal's last bit with that of the sum.
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    let normal = (size - 0x38000000u + 0xfffu + ((size >> 13u) & 1u)) >> 13u;
    let subnormal = bitcast<u32>(bitcast<f32>(size) + 0.5f) - 0x3f000000u;
    let finite = select(normal, subnormal, size < 0x38800000u);
    let large = select(0x7c00u, 0x7e00u, size > 0x7f800000u);
    return sign | select(finite, large, size >= 0x477ff000u);
}

fn f16_value(bits: u32) -> f32 {
    let size = bits & 0x7fffu;
    let normal = bitcast<f32>(select((size << 13u) + 0x38000000u, (size << 13u) | 0x7f800000u, size >= 0x7c00u));
    let value = select(normal, f32(size) * 5.9604645e-08f, size < 0x400u);
    return bitcast<f32>(bitcast<u32>(value) | ((bits & 0x8000u) << 16u));
}

fn element(lane: u32, v1: f32) -> f32 {
    let i0 = lane;
    let v2 = v1;
    let v3 = -v2;
    let v5 = v3 > 89.0f;
    let v6 = bitcast<i32>(v3);
    let v8 = v6 & 2147483647i;
    let v10 = v8 > 2139095040i;
    let v11 = chosen(v5, 89.0f, v3);
    let v12 = chosen(v10, v3, v11);
    let v14 = v12 < -104.0f;
    let v15 = bitcast<i32>(v12);
    let v16 = v15 & 2147483647i;
    let v17 = v16 > 2139095040i;
    let v18 = chosen(v14, -104.0f, v12);
    let v19 = chosen(v17, v12, v18);
    let v21 = v19 * 1.442695f;
    let v22 = round(v21);
    let v23 = i32_of_f32(v22);
    let v25 = v23 + 254i;
    let v27 = hidden_f32(fma(v22, -0.69314575f, v19));
    let v29 = hidden_f32(fma(v22, -1.4286068e-06f, v27));
    let v30 = v29 * v29;
    let v33 = fma(0.0013950554f, v29, 0.008369047f);
    let v35 = fma(v33, v29, 0.041666206f);
    let v37 = fma(v35, v29, 0.16666518f);
    let v39 = fma(v37, v29, 0.5f);
    let v40 = fma(v30, v39, v29);
    let v42 = select(v25 << (u32(22i) & 31u), 0i, u32(22i) > 31u);
    let v44 = v42 & -8388608i;
    let v45 = bitcast<f32>(v44);
    let v47 = select(v25 << (u32(23i) & 31u), 0i, u32(23i) > 31u);
    let v48 = v47 - v44;
    let v49 = bitcast<f32>(v48);
    let v50 = fma(v45, v40, v45);
    let v51 = hidden_f32(v50 * v49);
    let v53 = v51 + 1.0f;
    let v54 = quotient(v2, v53);
    let v55 = f16_value(f16_bits(v54));
    return v55;
}

@compute @workgroup_size(256)
fn atlas_silu_f16(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    depth = groups.z;
    let lanes = p.extent_0;
    let word = group * 256u + thread_index;
    let first = word * 4u;
    if (first >= lanes) { return; }
    let a_4 = a[word];
    if (first + 3u < lanes) {
        let e0 = element(first, f16_value(a_4.x & 65535u));
        let e1 = element(first + 1u, f16_value((a_4.x >> 16u) & 65535u));
        let e2 = element(first + 2u, f16_value(a_4.y & 65535u));
        let e3 = element(first + 3u, f16_value((a_4.y >> 16u) & 65535u));
        out[word] = vec2<u32>(f16_bits(e0) | (f16_bits(e1) << 16u), f16_bits(e2) | (f16_bits(e3) << 16u));
    } else {
        {
            let e0 = element(first, f16_value(a_4.x & 65535u));
            out[word].x = (out[word].x & 0xffff0000u) | (f16_bits(e0) << 0u);
        }
        if (first + 1u < lanes) {
            let e1 = element(first + 1u, f16_value((a_4.x >> 16u) & 65535u));
            out[word].x = (out[word].x & 0xffffu) | (f16_bits(e1) << 16u);
        }
        if (first + 2u < lanes) {
            let e2 = element(first + 2u, f16_value(a_4.y & 65535u));
            out[word].y = (out[word].y & 0xffff0000u) | (f16_bits(e2) << 0u);
        }
    }
}
