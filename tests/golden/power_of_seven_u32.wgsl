// atlas_power_of_seven_u32: a -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    extent_0: u32,
}
@group(0) @binding(2) var<uniform> p: Parameters;
@group(0) @binding(0) var<storage, read> a: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;

fn element(lane: u32, v1: u32) -> u32 {
    let i0 = lane;
    let v3 = v1 < 65536u;
    var v23: u32 = 0u;
    if (v3) {
        var v20: u32 = 1u;
        var v21: u32 = 7u;
        for (var v9 = 0u; v9 < 16u; v9 += 1u) {
            let v12 = v9;
            let v13 = select(v1 >> (v12 & 31u), 0u, v12 > 31u);
            let v14 = v13 & 1u;
            let v16 = v14 != 0u;
            let v17 = v20 * v21;
            let v18 = select(v20, v17, v16);
            let v19 = v21 * v21;
            v20 = v18;
            v21 = v19;
        }
        v23 = v20;
    } else {
        v23 = 0u;
    }
    return v23;
}

@compute @workgroup_size(256)
fn atlas_power_of_seven_u32(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
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
        out[word] = vec4<u32>(e0, e1, e2, e3);
    } else {
        {
            let e0 = element(first, a_4.x);
            out[word].x = e0;
        }
        if (first + 1u < lanes) {
            let e1 = element(first + 1u, a_4.y);
            out[word].y = e1;
        }
        if (first + 2u < lanes) {
            let e2 = element(first + 2u, a_4.z);
            out[word].z = e2;
        }
    }
}
