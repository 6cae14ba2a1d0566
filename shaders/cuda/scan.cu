// scan: out = running sums of x along rows, from carry on; a workgroup sums a chunk of ITEMS WORKGROUP_X elements, a thread ITEMS of them in a row.
//
// carry holds the running sums of whole chunks, made beforehand, so that no workgroup waits for another. Threads add up
// their own elements, scan the totals in workgroup memory (Hillis and Steele 1986), and go through their elements again.

struct Params {
    unsigned n;
    unsigned x_offset, x_row, x_column;
    unsigned out_offset, out_row, out_column;
    unsigned carry_row;
};

extern "C" __global__ void atlas_scan(const T* x, const T* carry, T* out, Params params) {
    __shared__ T totals[WORKGROUP_X];
    const unsigned thread_index = threadIdx.x;
    const T* x_start = x + params.x_offset + (size_t)blockIdx.y * params.x_row;
    T* out_start = out + params.out_offset + (size_t)blockIdx.y * params.out_row;
    const unsigned first = (blockIdx.x * WORKGROUP_X + thread_index) * ITEMS;
    const unsigned stop = first + ITEMS < params.n ? first + ITEMS : params.n;

    T total = (T)0;
    for (unsigned i = first; i < stop; i++) total += x_start[(size_t)i * params.x_column];
    totals[thread_index] = total;
    __syncthreads();

    // After each turn a total covers twice as many threads.
    for (unsigned reach = 1; reach < WORKGROUP_X; reach *= 2) {
        const T before = thread_index >= reach ? totals[thread_index - reach] : (T)0;
        __syncthreads();
        totals[thread_index] += before;
        __syncthreads();
    }

    T sum = blockIdx.x > 0 ? carry[(size_t)blockIdx.y * params.carry_row + blockIdx.x - 1] : (T)0;
    if (thread_index > 0) sum += totals[thread_index - 1];
    for (unsigned i = first; i < stop; i++) {
        sum += x_start[(size_t)i * params.x_column];
        out_start[(size_t)i * params.out_column] = sum;
    }
}
