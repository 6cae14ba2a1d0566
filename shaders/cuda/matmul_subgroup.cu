// matmul_subgroup: out = epilogue(a @ b), batched; a subgroup computes ROWS x (4 SUBGROUP) results in registers, a thread ROWS x 4 of them.
//
// For devices without fast workgroup memory, whose subgroups exchange values cheaply: the lanes of a subgroup share rows of
// a: lane i loads rows 4 i to 4 i + 3 of the tile, and every lane gets them by broadcasts; a lane has four columns of b of
// its own. Operands are read as they lie: along k (A_ALONG_K, B_ALONG_K) or across it. What lies past the end of k (RAGGED)
// is replaced by 0.

struct Params {
    unsigned m, k, n;
    unsigned a_offset, a_batch, a_row, a_column;
    unsigned b_offset, b_batch, b_row, b_column;
    unsigned out_offset, out_batch, out_row, out_column;
};

extern "C" __global__ void __launch_bounds__(WORKGROUP_X)
atlas_matmul_subgroup(const T* a, const T* b, T* out, Params params, Epilogue epilogue) {
    const unsigned thread_index = threadIdx.x;
    // No thread may leave: the others need its rows of a.
    const unsigned lane = thread_index % SUBGROUP;
    const unsigned first_row = (blockIdx.y * (WORKGROUP_X / SUBGROUP) + thread_index / SUBGROUP) * ROWS;
    const unsigned column = (blockIdx.x * SUBGROUP + lane) * 4;
    const T* a_start = a + params.a_offset + (size_t)blockIdx.z * params.a_batch;
    const T* b_start = b + params.b_offset + (size_t)blockIdx.z * params.b_batch;

    // Where four lines of a and of b begin; those past the end repeat the last one.
    const T* a_lines[4];
    const T* b_lines[4];
    for (unsigned i = 0; i < 4; i++) {
        a_lines[i] = a_start + (size_t)min(first_row + lane * 4 % ROWS + i, params.m - 1) * params.a_row;
        b_lines[i] = b_start + (size_t)min(column + i, params.n - 1) * params.b_column;
    }
    const unsigned a_step = A_ALONG_K ? 1 : params.a_column;
    const unsigned b_step = B_ALONG_K ? 1 : params.b_row;

    ACC c[ROWS][4] = {};
    for (unsigned k = 0; k < params.k; k += 4) {
        ACC left[4][4], right[4][4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                const bool inside = !RAGGED || k + j < params.k;
                left[i][j] = inside ? (ACC)a_lines[i][(size_t)(k + j) * a_step] : (ACC)0;
                right[j][i] = inside ? (ACC)b_lines[i][(size_t)(k + j) * b_step] : (ACC)0;
            }
#pragma unroll
        for (unsigned row = 0; row < ROWS; row++)
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                const ACC shared = __shfl_sync(0xFFFFFFFFu, left[row % 4][j], row / 4, SUBGROUP);
#pragma unroll
                for (unsigned i = 0; i < 4; i++) c[row][i] = fma(shared, right[j][i], c[row][i]);
            }
    }

    // Store.
    T* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch;
    const unsigned batch_row = blockIdx.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            if (first_row + i < params.m && column + j < params.n)
                out_start[(size_t)(first_row + i) * params.out_row + (size_t)(column + j) * params.out_column] =
                    (T)epilogue(c[i][j], batch_row + first_row + i, column + j);
}
