// matmul_register: out = epilogue(a @ b), batched; a thread computes 8 x 8 results from global memory alone, a workgroup WORKGROUP_Y x WORKGROUP_X such parts.
//
// For devices without fast workgroup memory: neither threadgroup memory nor barriers. Columns of a and of b lie next to each
// other and every offset and stride is a multiple of 4 (the planner copies what is not so).

struct Params {
    uint m, k, n;
    uint a_offset, a_batch, a_row, a_column;
    uint b_offset, b_batch, b_row, b_column;
    uint out_offset, out_batch, out_row, out_column;
};

kernel void atlas_matmul_register(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant Params& params [[buffer(PARAMS)]],
    constant Epilogue& epilogue [[buffer(PARAMS + 1)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    const uint row = (group.y * WORKGROUP_Y + thread_index / WORKGROUP_X) * 8;
    const uint column = (group.x * WORKGROUP_X + thread_index % WORKGROUP_X) * 8;
    if (row >= params.m || column >= params.n) return;

    // Where the 8 rows of a begin; rows past the end repeat the last one, columns past the end the first of ours.
    device const T* a_start = a + params.a_offset + (ulong)group.z * params.a_batch;
    device const T* a_rows[8];
    uint columns[8];
    for (uint i = 0; i < 8; i++) {
        a_rows[i] = a_start + (ulong)(row + i < params.m ? row + i : params.m - 1) * params.a_row;
        columns[i] = column + i < params.n ? column + i : column;
    }
    device const T* b_row = b + params.b_offset + (ulong)group.z * params.b_batch;

    ACC c[8][8] = {};
    for (uint q = 0; q < params.k; q++) {
        ACC right[8];
#pragma unroll
        for (uint j = 0; j < 8; j++) right[j] = (ACC)b_row[columns[j]];
#pragma unroll
        for (uint i = 0; i < 8; i++) {
            const ACC left = (ACC)a_rows[i][q];
#pragma unroll
            for (uint j = 0; j < 8; j++) c[i][j] = fma(left, right[j], c[i][j]);
        }
        b_row += params.b_row;
    }

    device T* out_start = out + params.out_offset + (ulong)group.z * params.out_batch;
    const uint batch_row = group.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (uint i = 0; i < 8; i++)
#pragma unroll
        for (uint j = 0; j < 8; j++)
            if (row + i < params.m && column + j < params.n)
                out_start[(ulong)(row + i) * params.out_row + (ulong)(column + j) * params.out_column] =
                    (T)epilogue(c[i][j], batch_row + row + i, column + j);
}
