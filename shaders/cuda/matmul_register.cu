// matmul_register: out = epilogue(a @ b), batched; a thread computes 8 x 8 results from global memory alone, a workgroup WORKGROUP_Y x WORKGROUP_X such parts.
//
// For devices without fast workgroup memory: neither shared memory nor barriers. Columns of a and of b lie next to each
// other and every offset and stride is a multiple of 4 (the planner copies what is not so).

struct Params {
    unsigned m, k, n;
    unsigned a_offset, a_batch, a_row, a_column;
    unsigned b_offset, b_batch, b_row, b_column;
    unsigned out_offset, out_batch, out_row, out_column;
};

extern "C" __global__ void atlas_matmul_register(const T* a, const T* b, T* out, Params params, Epilogue epilogue) {
    const unsigned thread_index = threadIdx.y * WORKGROUP_X + threadIdx.x;
    const unsigned row = (blockIdx.y * WORKGROUP_Y + thread_index / WORKGROUP_X) * 8;
    const unsigned column = (blockIdx.x * WORKGROUP_X + thread_index % WORKGROUP_X) * 8;
    if (row >= params.m || column >= params.n) return;

    // Where the 8 rows of a begin; rows past the end repeat the last one, columns past the end the first of ours.
    const T* a_start = a + params.a_offset + (size_t)blockIdx.z * params.a_batch;
    const T* a_rows[8];
    unsigned columns[8];
    for (unsigned i = 0; i < 8; i++) {
        a_rows[i] = a_start + (size_t)(row + i < params.m ? row + i : params.m - 1) * params.a_row;
        columns[i] = column + i < params.n ? column + i : column;
    }
    const T* b_row = b + params.b_offset + (size_t)blockIdx.z * params.b_batch;

    ACC c[8][8] = {};
    for (unsigned q = 0; q < params.k; q++) {
        ACC right[8];
#pragma unroll
        for (unsigned j = 0; j < 8; j++) right[j] = (ACC)b_row[columns[j]];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            const ACC left = (ACC)a_rows[i][q];
#pragma unroll
            for (unsigned j = 0; j < 8; j++) c[i][j] = fma(left, right[j], c[i][j]);
        }
        b_row += params.b_row;
    }

    T* out_start = out + params.out_offset + (size_t)blockIdx.z * params.out_batch;
    const unsigned batch_row = blockIdx.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
#pragma unroll
        for (unsigned j = 0; j < 8; j++)
            if (row + i < params.m && column + j < params.n)
                out_start[(size_t)(row + i) * params.out_row + (size_t)(column + j) * params.out_column] =
                    (T)epilogue(c[i][j], batch_row + row + i, column + j);
}
