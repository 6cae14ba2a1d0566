// sort: one pass of a stable merge sort of (key, order) along rows; a workgroup writes 4 WORKGROUP_X elements, a thread 4 of them in a row.
//
// The first pass (MERGES false) sorts every block of 4 WORKGROUP_X elements by itself and makes up the order, the positions
// in the row. Each later one (MERGES true) merges neighbouring runs of `run` elements. A workgroup, and in it a thread,
// finds where its elements start in both runs by bisection (merge path: Odeh, Green, Mwassi, Shmueli, Birk 2012), so
// that all have equally many. What lies beyond the end is filled up with the largest key; as equal keys stay in order,
// it comes after all elements.

struct Params {
    unsigned n;
    unsigned first_row;
    unsigned run;
};

constexpr unsigned BLOCK = 4 * WORKGROUP_X;
constexpr unsigned LARGEST = 0xffffffffu;

__device__ inline unsigned taken_of_rows(const unsigned* left, const unsigned* right, unsigned left_count, unsigned right_count, unsigned diagonal) {
    // Of the first `diagonal` elements of two merged runs in global memory: how many come from the left one.
    unsigned low = diagonal > right_count ? diagonal - right_count : 0;
    unsigned high = diagonal < left_count ? diagonal : left_count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (left[middle] <= right[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(WORKGROUP_X)
atlas_sort(const unsigned* keys, const unsigned* order, unsigned* next_keys, unsigned* next_order, Params params) {
    __shared__ unsigned block_keys[BLOCK];
    __shared__ unsigned block_order[BLOCK];
    const unsigned thread_index = threadIdx.x;
    const size_t row_start = (size_t)(params.first_row + blockIdx.y) * params.n;
    const unsigned first = blockIdx.x * BLOCK;
    const unsigned count = params.n - first < BLOCK ? params.n - first : BLOCK;  // elements that this workgroup writes
    const unsigned own = 4 * thread_index;

    // Load: from one run, or from two, one after the other.
    size_t left_start = row_start + first;
    size_t right_start = left_start;
    unsigned left_count = count;
    if (MERGES) {
        const unsigned pair = first - first % (2 * params.run);
        const unsigned left_size = params.run < params.n - pair ? params.run : params.n - pair;
        const unsigned rest = params.n - pair - left_size;
        const unsigned right_size = params.run < rest ? params.run : rest;
        const size_t left = row_start + pair;
        const size_t right = left + left_size;
        const unsigned left_first = taken_of_rows(keys + left, keys + right, left_size, right_size, first - pair);
        const unsigned left_last = taken_of_rows(keys + left, keys + right, left_size, right_size, first - pair + count);
        left_start = left + left_first;
        right_start = right + (first - pair - left_first);
        left_count = left_last - left_first;
    }
    for (unsigned i = thread_index; i < BLOCK; i += WORKGROUP_X) {
        block_keys[i] = LARGEST;
        if (i < count) {
            const size_t place = i < left_count ? left_start + i : right_start + (i - left_count);
            block_keys[i] = keys[place];
            block_order[i] = MERGES ? order[place] : first + i;
        }
    }
    __syncthreads();

    // Four elements of a thread's own: odd-even transposition, which keeps equal ones in order.
    if (!MERGES) {
#pragma unroll
        for (unsigned turn = 0; turn < 4; turn++) {
#pragma unroll
            for (unsigned place = own + turn % 2; place < own + 3; place += 2) {
                const unsigned here = block_keys[place], there = block_keys[place + 1];
                if (there < here) {
                    block_keys[place] = there;
                    block_keys[place + 1] = here;
                    const unsigned moved = block_order[place];
                    block_order[place] = block_order[place + 1];
                    block_order[place + 1] = moved;
                }
            }
        }
        __syncthreads();
    }

    // Merge: runs of half `reach` in the block, again and again; or once what came from two runs.
    for (unsigned reach = MERGES ? BLOCK : 8; reach <= BLOCK; reach *= 2) {
        const unsigned start = own - own % reach;
        const unsigned middle = MERGES ? left_count : start + reach / 2;
        const unsigned stop = start + reach;
        const unsigned diagonal = own - start;
        // As taken_of_rows, in workgroup memory.
        const unsigned left_size = middle - start, right_size = stop - middle;
        unsigned left = diagonal > right_size ? diagonal - right_size : 0;
        unsigned high = diagonal < left_size ? diagonal : left_size;
        while (left < high) {
            const unsigned half = (left + high) / 2;
            if (block_keys[start + half] <= block_keys[middle + diagonal - 1 - half]) left = half + 1;
            else high = half;
        }
        unsigned right = middle + (diagonal - left);
        left += start;
        unsigned sorted_keys[4], sorted_order[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            // The smaller head, the left one if equal.
            const bool takes_left = left < middle && (right >= stop || block_keys[left] <= block_keys[right]);
            const unsigned place = takes_left ? left++ : right++;
            sorted_keys[i] = block_keys[place];
            sorted_order[i] = block_order[place];
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            block_keys[own + i] = sorted_keys[i];
            block_order[own + i] = sorted_order[i];
        }
        __syncthreads();
    }

    // Store.
    for (unsigned i = thread_index; i < count; i += WORKGROUP_X) {
        next_keys[row_start + first + i] = block_keys[i];
        next_order[row_start + first + i] = block_order[i];
    }
}
