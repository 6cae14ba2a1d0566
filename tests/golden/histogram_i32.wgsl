// atlas_histogram_i32: a, counts -> counts, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    extent_0: u32,
    step_: i32,
}
@group(0) @binding(2) var<uniform> p: Parameters;
@group(0) @binding(0) var<storage, read> a: array<vec4<i32>>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<i32>>;

fn element(lane: u32, v2: i32) {
    let i0 = lane;
    let v4 = v2 & 15i;
    let v5 = u32(v4);
    let v6 = atomicAdd(&counts[v5], p.step_);
}

@compute @workgroup_size(256)
fn atlas_histogram_i32(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    let lanes = p.extent_0;
    let word = group * 256u + thread_index;
    let first = word * 4u;
    if (first >= lanes) { return; }
    let a_4 = a[word];
    if (first + 3u < lanes) {
        element(first, a_4.x);
        element(first + 1u, a_4.y);
        element(first + 2u, a_4.z);
        element(first + 3u, a_4.w);
    } else {
        {
            element(first, a_4.x);
        }
        if (first + 1u < lanes) {
            element(first + 1u, a_4.y);
        }
        if (first + 2u < lanes) {
            element(first + 2u, a_4.z);
        }
    }
}
