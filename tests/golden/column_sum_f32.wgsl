// atlas_column_sum_f32: x -> out, over 2 axes, the last 1 reduced; 256 threads a workgroup, 256 a row.
struct Parameters {
    extent_0: u32,
    extent_1: u32,
}
@group(0) @binding(2) var<uniform> p: Parameters;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
var<workgroup> partial_f32: array<f32, 256>;

fn term_0(i0: u32, i1: u32) -> f32 {
    let v3 = i1 * p.extent_0;
    let v4 = v3 + i0;
    let v5 = x[v4];
    return v5;
}

@compute @workgroup_size(256)
fn atlas_column_sum_f32(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let group = groups.y * 32768u + groups.x;
    let lanes = p.extent_0;
    let number = group;
    let member = thread_index;
    let inside = number < lanes;
    let lane = min(number, lanes - 1u);
    let i0 = lane;
    var v6_0: f32 = 0.0f;
    var before6_0: f32 = 0.0f;
    var v6_1: f32 = 0.0f;
    var before6_1: f32 = 0.0f;
    var v6_2: f32 = 0.0f;
    var before6_2: f32 = 0.0f;
    var v6_3: f32 = 0.0f;
    var before6_3: f32 = 0.0f;
    {
        let length = select(0u, p.extent_1, inside);
        var start: u32 = member;
        let stop = length - min(length, 768u);
        for (var block = start; block < stop; block += 32768u) {
            let block_end = min(block + 32768u, stop);
            for (var next = block; next < block_end; next += 1024u) {
                {
                    let i1 = next;
                    let e0 = term_0(i0, i1);
                    v6_0 = v6_0 + e0;
                }
                {
                    let i1 = next + 256u;
                    let e1 = term_0(i0, i1);
                    v6_1 = v6_1 + e1;
                }
                {
                    let i1 = next + 512u;
                    let e2 = term_0(i0, i1);
                    v6_2 = v6_2 + e2;
                }
                {
                    let i1 = next + 768u;
                    let e3 = term_0(i0, i1);
                    v6_3 = v6_3 + e3;
                }
                start = next + 1024u;
            }
            before6_0 = before6_0 + v6_0;
            v6_0 = 0.0f;
            before6_1 = before6_1 + v6_1;
            v6_1 = 0.0f;
            before6_2 = before6_2 + v6_2;
            v6_2 = 0.0f;
            before6_3 = before6_3 + v6_3;
            v6_3 = 0.0f;
        }
        for (var i1 = start; i1 < length; i1 += 256u) {
            let e0 = term_0(i0, i1);
            v6_0 = v6_0 + e0;
        }
    }
    v6_0 = before6_0 + v6_0;
    v6_1 = before6_1 + v6_1;
    v6_2 = before6_2 + v6_2;
    v6_3 = before6_3 + v6_3;
    let v6_a = v6_0 + v6_1;
    let v6_b = v6_2 + v6_3;
    partial_f32[thread_index] = v6_a + v6_b;
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
    let v6 = partial_f32[thread_index - member];
    workgroupBarrier();
    if (inside && member == 0u) {
        out[i0] = v6;
    }
}
