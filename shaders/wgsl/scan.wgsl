// scan: out = running sums of x along rows, from carry on; a workgroup sums a chunk of ITEMS WORKGROUP_X elements, a thread ITEMS of them in a row.
//
// carry holds the running sums of whole chunks, made beforehand, so that no workgroup waits for another. Threads add up
// their own elements, scan the totals in workgroup memory (Hillis and Steele 1986), and go through their elements again.

struct Params {
    n: u32,
    x_offset: u32, x_row: u32, x_column: u32,
    out_offset: u32, out_row: u32, out_column: u32,
    carry_row: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<T>;
@group(0) @binding(1) var<storage, read_write> carry: array<T>;
@group(0) @binding(2) var<storage, read_write> out: array<T>;
@group(0) @binding(PARAMS) var<uniform> params: Params;

var<workgroup> totals: array<T, WORKGROUP_X>;

@compute @workgroup_size(WORKGROUP_X, WORKGROUP_Y, WORKGROUP_Z)
fn atlas_scan(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let x_start = params.x_offset + group.y * params.x_row;
    let out_start = params.out_offset + group.y * params.out_row;
    let first = (group.x * WORKGROUP_X + thread_index) * ITEMS;
    let stop = min(first + ITEMS, params.n);

    var total = T(0);
    for (var i = first; i < stop; i++) { total += x[x_start + i * params.x_column]; }
    totals[thread_index] = total;
    workgroupBarrier();

    // After each turn a total covers twice as many threads.
    for (var reach = 1u; reach < WORKGROUP_X; reach *= 2u) {
        var before = T(0);
        if (thread_index >= reach) { before = totals[thread_index - reach]; }
        workgroupBarrier();
        totals[thread_index] += before;
        workgroupBarrier();
    }

    var sum = T(0);
    if (group.x > 0u) { sum = carry[group.y * params.carry_row + group.x - 1u]; }
    if (thread_index > 0u) { sum += totals[thread_index - 1u]; }
    for (var i = first; i < stop; i++) {
        sum += x[x_start + i * params.x_column];
        out[out_start + i * params.out_column] = sum;
    }
}
