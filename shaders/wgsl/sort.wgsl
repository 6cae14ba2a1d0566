// sort: one pass of a stable merge sort of (key, order) along rows; a workgroup writes 4 WORKGROUP_X elements, a thread 4 of them in a row.
//
// The first pass (MERGES false) sorts every block of 4 WORKGROUP_X elements by itself and makes up the order, the positions
// in the row. Each later one (MERGES true) merges neighbouring runs of `run` elements. A workgroup, and in it a thread,
// finds where its elements start in both runs by bisection (merge path: Odeh, Green, Mwassi, Shmueli, Birk 2012), so
// that all have equally many. What lies beyond the end is filled up with the largest key; as equal keys stay in order,
// it comes after all elements.

struct Params {
    n: u32,
    first_row: u32,
    run: u32,
}

@group(0) @binding(0) var<storage, read_write> keys: array<u32>;
@group(0) @binding(1) var<storage, read_write> order: array<u32>;
@group(0) @binding(2) var<storage, read_write> next_keys: array<u32>;
@group(0) @binding(3) var<storage, read_write> next_order: array<u32>;
@group(0) @binding(PARAMS) var<uniform> params: Params;

const BLOCK = 4u * WORKGROUP_X;
const LARGEST = 0xffffffffu;

var<workgroup> block_keys: array<u32, BLOCK>;
var<workgroup> block_order: array<u32, BLOCK>;

fn taken_of_rows(left: u32, right: u32, left_count: u32, right_count: u32, diagonal: u32) -> u32 {
    // Of the first `diagonal` elements of two merged runs in global memory: how many come from the left one.
    var low = diagonal - min(diagonal, right_count);
    var high = min(diagonal, left_count);
    while (low < high) {
        let middle = (low + high) / 2u;
        if (keys[left + middle] <= keys[right + diagonal - 1u - middle]) { low = middle + 1u; } else { high = middle; }
    }
    return low;
}

fn taken_of_block(left: u32, right: u32, left_count: u32, right_count: u32, diagonal: u32) -> u32 {
    // The same in workgroup memory.
    var low = diagonal - min(diagonal, right_count);
    var high = min(diagonal, left_count);
    while (low < high) {
        let middle = (low + high) / 2u;
        if (block_keys[left + middle] <= block_keys[right + diagonal - 1u - middle]) { low = middle + 1u; } else { high = middle; }
    }
    return low;
}

fn next_place(left: ptr<function, u32>, right: ptr<function, u32>, left_stop: u32, right_stop: u32) -> u32 {
    // The place of the smaller head of two runs in workgroup memory, of the left one if equal; that run moves on.
    let left_head = *left;
    let right_head = *right;
    var takes_left = left_head < left_stop;
    if (takes_left && right_head < right_stop) { takes_left = block_keys[left_head] <= block_keys[right_head]; }
    if (takes_left) {
        *left = left_head + 1u;
        return left_head;
    }
    *right = right_head + 1u;
    return right_head;
}

fn exchange(place: u32) {
    // Puts two neighbours in order.
    let here = block_keys[place];
    let there = block_keys[place + 1u];
    if (there < here) {
        block_keys[place] = there;
        block_keys[place + 1u] = here;
        let moved = block_order[place];
        block_order[place] = block_order[place + 1u];
        block_order[place + 1u] = moved;
    }
}

@compute @workgroup_size(WORKGROUP_X, WORKGROUP_Y, WORKGROUP_Z)
fn atlas_sort(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {
    let row_start = (params.first_row + group.y) * params.n;
    let first = group.x * BLOCK;
    let count = min(params.n - first, BLOCK);  // elements that this workgroup writes
    let own = 4u * thread_index;

    // Load: from one run, or from two, one after the other.
    var left_start = row_start + first;
    var right_start = left_start;
    var left_count = count;
    if (MERGES) {
        let pair = first - first % (2u * params.run);
        let left_size = min(params.run, params.n - pair);
        let right_size = min(params.run, params.n - pair - left_size);
        let left = row_start + pair;
        let right = left + left_size;
        let left_first = taken_of_rows(left, right, left_size, right_size, first - pair);
        let left_last = taken_of_rows(left, right, left_size, right_size, first - pair + count);
        left_start = left + left_first;
        right_start = right + (first - pair - left_first);
        left_count = left_last - left_first;
    }
    for (var i = thread_index; i < BLOCK; i += WORKGROUP_X) {
        block_keys[i] = LARGEST;
        if (i < count) {
            var place = left_start + i;
            if (i >= left_count) { place = right_start + (i - left_count); }
            block_keys[i] = keys[place];
            if (MERGES) { block_order[i] = order[place]; } else { block_order[i] = first + i; }
        }
    }
    workgroupBarrier();

    // Four elements of a thread's own: odd-even transposition, which keeps equal ones in order.
    if (!MERGES) {
        for (var turn = 0u; turn < 2u; turn++) {
            exchange(own); exchange(own + 2u);
            exchange(own + 1u);
        }
        workgroupBarrier();
    }

    // Merge: runs of half `reach` in the block, again and again; or once what came from two runs.
    var reach = 8u;
    if (MERGES) { reach = BLOCK; }
    for (; reach <= BLOCK; reach *= 2u) {
        let start = own - own % reach;
        var middle = start + reach / 2u;
        if (MERGES) { middle = left_count; }
        let stop = start + reach;
        let diagonal = own - start;
        var left = taken_of_block(start, middle, middle - start, stop - middle, diagonal);
        var right = middle + (diagonal - left);
        left += start;
        let p0 = next_place(&left, &right, middle, stop);
        let p1 = next_place(&left, &right, middle, stop);
        let p2 = next_place(&left, &right, middle, stop);
        let p3 = next_place(&left, &right, middle, stop);
        let sorted_keys = vec4<u32>(block_keys[p0], block_keys[p1], block_keys[p2], block_keys[p3]);
        let sorted_order = vec4<u32>(block_order[p0], block_order[p1], block_order[p2], block_order[p3]);
        workgroupBarrier();
        block_keys[own] = sorted_keys.x; block_order[own] = sorted_order.x;
        block_keys[own + 1u] = sorted_keys.y; block_order[own + 1u] = sorted_order.y;
        block_keys[own + 2u] = sorted_keys.z; block_order[own + 2u] = sorted_order.z;
        block_keys[own + 3u] = sorted_keys.w; block_order[own + 3u] = sorted_order.w;
        workgroupBarrier();
    }

    // Store.
    for (var i = thread_index; i < count; i += WORKGROUP_X) {
        next_keys[row_start + first + i] = block_keys[i];
        next_order[row_start + first + i] = block_order[i];
    }
}
