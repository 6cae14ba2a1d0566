// atlas_reverse_f32: a -> out, over 1 axis; 64 threads a workgroup.
struct Parameters {
    extent_0: u32,
}
@group(0) @binding(2) var<uniform> p: Parameters;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
var<workgroup> kept: array<f32, 64>;

@compute @workgroup_size(64)
fn atlas_reverse_f32(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    let lanes = p.extent_0;
    for (var place = thread_index; place < 64u; place += 64u) {
        kept[place] = 0.0f;
    }
    workgroupBarrier();
    let number = group * 64u + thread_index;
    let inside = number < lanes;
    let lane = min(number, lanes - 1u);
    let v2 = a[lane];
    if (inside) {
        kept[thread_index] = v2;
    }
    workgroupBarrier();
    let v4 = 63u - thread_index;
    let v5 = kept[v4];
    if (inside) {
        out[lane] = v5;
    }
}
