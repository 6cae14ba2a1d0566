// scan: out = running sums of x along rows, from carry on; a workgroup sums a chunk of ITEMS WORKGROUP_X elements, a thread ITEMS of them in a row.
//
// carry holds the running sums of whole chunks, made beforehand, so that no workgroup waits for another. Threads add up
// their own elements, scan the totals in workgroup memory (Hillis and Steele 1986), and go through their elements again.

struct Params {
    uint n;
    uint x_offset, x_row, x_column;
    uint out_offset, out_row, out_column;
    uint carry_row;
};

kernel void atlas_scan(
    device const T* x [[buffer(0)]],
    device const T* carry [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant Params& params [[buffer(PARAMS)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup T totals[WORKGROUP_X];
    device const T* x_start = x + params.x_offset + (ulong)group.y * params.x_row;
    device T* out_start = out + params.out_offset + (ulong)group.y * params.out_row;
    const uint first = (group.x * WORKGROUP_X + thread_index) * ITEMS;
    const uint stop = first + ITEMS < params.n ? first + ITEMS : params.n;

    T total = (T)0;
    for (uint i = first; i < stop; i++) total += x_start[(ulong)i * params.x_column];
    totals[thread_index] = total;
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // After each turn a total covers twice as many threads.
    for (uint reach = 1; reach < WORKGROUP_X; reach *= 2) {
        const T before = thread_index >= reach ? totals[thread_index - reach] : (T)0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        totals[thread_index] += before;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    T sum = group.x > 0 ? carry[(ulong)group.y * params.carry_row + group.x - 1] : (T)0;
    if (thread_index > 0) sum += totals[thread_index - 1];
    for (uint i = first; i < stop; i++) {
        sum += x_start[(ulong)i * params.x_column];
        out_start[(ulong)i * params.out_column] = sum;
    }
}
