// atlas_cast_f32_i8: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    extent_0: u32,
}
@group(0) @binding(2) var<uniform> p: Parameters;
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;

fn i32_of_f32(x: f32) -> i32 {
    // False for NaN, which gives 0.
    let fits = x > -2147483600.0f && x < 2147483600.0f;
    let converted = i32(select(0.0f, x, fits));
    return select(select(converted, 2147483647i, x >= 2147483600.0f), (-2147483647i - 1i), x <= -2147483600.0f);
}

fn element(lane: u32, v1: f32) -> i32 {
    let i0 = lane;
    let v2 = i32_of_f32(v1);
    let v4 = max(v2, -128i);
    let v6 = min(v4, 127i);
    let v7 = (v6 << 24u) >> 24u;
    return v7;
}

@compute @workgroup_size(256)
fn atlas_cast_f32_i8(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    let lanes = p.extent_0;
    let word = group * 256u + thread_index;
    let first = word * 4u;
    if (first >= lanes) { return; }
    let a_4 = a[word];
    if (first + 3u < lanes) {
        let e0 = element(first, a_4.x);
        let e1 = element(first + 1u, a_4.y);
        let e2 = element(first + 2u, a_4.z);
        let e3 = element(first + 3u, a_4.w);
        out[word] = (bitcast<u32>(e0) & 255u) | ((bitcast<u32>(e1) & 255u) << 8u) | ((bitcast<u32>(e2) & 255u) << 16u) | ((bitcast<u32>(e3) & 255u) << 24u);
    } else {
        {
            let e0 = element(first, a_4.x);
            out[word] = (out[word] & 0xffffff00u) | ((bitcast<u32>(e0) & 255u) << 0u);
        }
        if (first + 1u < lanes) {
            let e1 = element(first + 1u, a_4.y);
            out[word] = (out[word] & 0xffff00ffu) | ((bitcast<u32>(e1) & 255u) << 8u);
        }
        if (first + 2u < lanes) {
            let e2 = element(first + 2u, a_4.z);
            out[word] = (out[word] & 0xff00ffffu) | ((bitcast<u32>(e2) & 255u) << 16u);
        }
    }
}
