// atlas_add_i8: a, b -> out, over 1 axis; 256 threads a workgroup, 4 elements a thread.
struct Parameters {
    extent_0: u32,
}
@group(0) @binding(3) var<uniform> p: Parameters;
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

fn element(lane: u32, v1: i32, v2: i32) -> i32 {
    let i0 = lane;
    let v3 = v1;
    let v4 = v2;
    let v5 = v3 + v4;
    let v6 = (v5 << 24u) >> 24u;
    return v6;
}

@compute @workgroup_size(256)
fn atlas_add_i8(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    let lanes = p.extent_0;
    let word = group * 256u + thread_index;
    let first = word * 4u;
    if (first >= lanes) { return; }
    let a_4 = a[word];
    let b_4 = b[word];
    if (first + 3u < lanes) {
        let e0 = element(first, bitcast<i32>(a_4 << 24u) >> 24u, bitcast<i32>(b_4 << 24u) >> 24u);
        let e1 = element(first + 1u, bitcast<i32>((a_4 >> 8u) << 24u) >> 24u, bitcast<i32>((b_4 >> 8u) << 24u) >> 24u);
        let e2 = element(first + 2u, bitcast<i32>((a_4 >> 16u) << 24u) >> 24u, bitcast<i32>((b_4 >> 16u) << 24u) >> 24u);
        let e3 = element(first + 3u, bitcast<i32>((a_4 >> 24u) << 24u) >> 24u, bitcast<i32>((b_4 >> 24u) << 24u) >> 24u);
        out[word] = (bitcast<u32>(e0) & 255u) | ((bitcast<u32>(e1) & 255u) << 8u) | ((bitcast<u32>(e2) & 255u) << 16u) | ((bitcast<u32>(e3) & 255u) << 24u);
    } else {
        {
            let e0 = element(first, bitcast<i32>(a_4 << 24u) >> 24u, bitcast<i32>(b_4 << 24u) >> 24u);
            out[word] = (out[word] & 0xffffff00u) | ((bitcast<u32>(e0) & 255u) << 0u);
        }
        if (first + 1u < lanes) {
            let e1 = element(first + 1u, bitcast<i32>((a_4 >> 8u) << 24u) >> 24u, bitcast<i32>((b_4 >> 8u) << 24u) >> 24u);
            out[word] = (out[word] & 0xffff00ffu) | ((bitcast<u32>(e1) & 255u) << 8u);
        }
        if (first + 2u < lanes) {
            let e2 = element(first + 2u, bitcast<i32>((a_4 >> 16u) << 24u) >> 24u, bitcast<i32>((b_4 >> 16u) << 24u) >> 24u);
            out[word] = (out[word] & 0xff00ffffu) | ((bitcast<u32>(e2) & 255u) << 16u);
        }
    }
}
