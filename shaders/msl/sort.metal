// sort: one pass of a stable merge sort of (key, order) along rows; a workgroup writes 4 WORKGROUP_X elements, a thread 4 of them in a row.
//
// The first pass (MERGES false) sorts every block of 4 WORKGROUP_X elements by itself and makes up the order, the positions
// in the row. Each later one (MERGES true) merges neighbouring runs of `run` elements. A workgroup, and in it a thread,
// finds where its elements start in both runs by bisection (merge path: Odeh, Green, Mwassi, Shmueli, Birk 2012), so
// that all have equally many. What lies beyond the end is filled up with the largest key; as equal keys stay in order,
// it comes after all elements.

struct Params {
    uint n;
    uint first_row;
    uint run;
};

constant constexpr uint BLOCK = 4 * WORKGROUP_X;
constant constexpr uint LARGEST = 0xffffffffu;

static inline uint taken_of_rows(device const uint* left, device const uint* right, uint left_count, uint right_count, uint diagonal) {
    // Of the first `diagonal` elements of two merged runs in global memory: how many come from the left one.
    uint low = diagonal > right_count ? diagonal - right_count : 0;
    uint high = diagonal < left_count ? diagonal : left_count;
    while (low < high) {
        const uint middle = (low + high) / 2;
        if (left[middle] <= right[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}

kernel void atlas_sort(
    device const uint* keys [[buffer(0)]],
    device const uint* order [[buffer(1)]],
    device uint* next_keys [[buffer(2)]],
    device uint* next_order [[buffer(3)]],
    constant Params& params [[buffer(PARAMS)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup uint block_keys[BLOCK];
    threadgroup uint block_order[BLOCK];
    const ulong row_start = (ulong)(params.first_row + group.y) * params.n;
    const uint first = group.x * BLOCK;
    const uint count = params.n - first < BLOCK ? params.n - first : BLOCK;  // elements that this workgroup writes
    const uint own = 4 * thread_index;

    // Load: from one run, or from two, one after the other.
    ulong left_start = row_start + first;
    ulong right_start = left_start;
    uint left_count = count;
    if (MERGES) {
        const uint pair = first - first % (2 * params.run);
        const uint left_size = params.run < params.n - pair ? params.run : params.n - pair;
        const uint rest = params.n - pair - left_size;
        const uint right_size = params.run < rest ? params.run : rest;
        const ulong left = row_start + pair;
        const ulong right = left + left_size;
        const uint left_first = taken_of_rows(keys + left, keys + right, left_size, right_size, first - pair);
        const uint left_last = taken_of_rows(keys + left, keys + right, left_size, right_size, first - pair + count);
        left_start = left + left_first;
        right_start = right + (first - pair - left_first);
        left_count = left_last - left_first;
    }
    for (uint i = thread_index; i < BLOCK; i += WORKGROUP_X) {
        block_keys[i] = LARGEST;
        if (i < count) {
            const ulong place = i < left_count ? left_start + i : right_start + (i - left_count);
            block_keys[i] = keys[place];
            block_order[i] = MERGES ? order[place] : first + i;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // Four elements of a thread's own: odd-even transposition, which keeps equal ones in order.
    if (!MERGES) {
#pragma unroll
        for (uint turn = 0; turn < 4; turn++) {
#pragma unroll
            for (uint place = own + turn % 2; place < own + 3; place += 2) {
                const uint here = block_keys[place], there = block_keys[place + 1];
                if (there < here) {
                    block_keys[place] = there;
                    block_keys[place + 1] = here;
                    const uint moved = block_order[place];
                    block_order[place] = block_order[place + 1];
                    block_order[place + 1] = moved;
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // Merge: runs of half `reach` in the block, again and again; or once what came from two runs.
    for (uint reach = MERGES ? BLOCK : 8; reach <= BLOCK; reach *= 2) {
        const uint start = own - own % reach;
        const uint middle = MERGES ? left_count : start + reach / 2;
        const uint stop = start + reach;
        const uint diagonal = own - start;
        // As taken_of_rows, in workgroup memory.
        const uint left_size = middle - start, right_size = stop - middle;
        uint left = diagonal > right_size ? diagonal - right_size : 0;
        uint high = diagonal < left_size ? diagonal : left_size;
        while (left < high) {
            const uint half = (left + high) / 2;
            if (block_keys[start + half] <= block_keys[middle + diagonal - 1 - half]) left = half + 1;
            else high = half;
        }
        uint right = middle + (diagonal - left);
        left += start;
        uint sorted_keys[4], sorted_order[4];
#pragma unroll
        for (uint i = 0; i < 4; i++) {
            // The smaller head, the left one if equal.
            const bool takes_left = left < middle && (right >= stop || block_keys[left] <= block_keys[right]);
            const uint place = takes_left ? left++ : right++;
            sorted_keys[i] = block_keys[place];
            sorted_order[i] = block_order[place];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint i = 0; i < 4; i++) {
            block_keys[own + i] = sorted_keys[i];
            block_order[own + i] = sorted_order[i];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // Store.
    for (uint i = thread_index; i < count; i += WORKGROUP_X) {
        next_keys[row_start + first + i] = block_keys[i];
        next_order[row_start + first + i] = block_order[i];
    }
}
