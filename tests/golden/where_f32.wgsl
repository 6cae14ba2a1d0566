// atlas_where_f32: a, b, c -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    extent_0: u32,
}
@group(0) @binding(4) var<uniform> p: Parameters;
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> c: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

fn chosen(condition: bool, x: f32, y: f32) -> f32 {
    // Of bits: a choice between the sides of a comparison would be taken for a minimum, which loses NaN.
    return bitcast<f32>(select(bitcast<u32>(y), bitcast<u32>(x), condition));
}

fn element(lane: u32, v1: bool, v2: f32, v3: f32) -> f32 {
    let i0 = lane;
    let v4 = chosen(v1, v2, v3);
    return v4;
}

@compute @workgroup_size(256)
fn atlas_where_f32(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    let lanes = p.extent_0;
    let word = group * 256u + thread_index;
    let first = word * 4u;
    if (first >= lanes) { return; }
    let a_4 = a[word];
    let b_4 = b[word];
    let c_4 = c[word];
    if (first + 3u < lanes) {
        let e0 = element(first, (a_4 & 255u) != 0u, b_4.x, c_4.x);
        let e1 = element(first + 1u, ((a_4 >> 8u) & 255u) != 0u, b_4.y, c_4.y);
        let e2 = element(first + 2u, ((a_4 >> 16u) & 255u) != 0u, b_4.z, c_4.z);
        let e3 = element(first + 3u, ((a_4 >> 24u) & 255u) != 0u, b_4.w, c_4.w);
        out[word] = vec4<f32>(e0, e1, e2, e3);
    } else {
        {
            let e0 = element(first, (a_4 & 255u) != 0u, b_4.x, c_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            let e1 = element(first + 1u, ((a_4 >> 8u) & 255u) != 0u, b_4.y, c_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            let e2 = element(first + 2u, ((a_4 >> 16u) & 255u) != 0u, b_4.z, c_4.z);
            out[word].z = e2;
        }
    }
}
