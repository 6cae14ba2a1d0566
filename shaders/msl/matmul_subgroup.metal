// matmul_subgroup: out = epilogue(a @ b), batched; a subgroup computes ROWS x (4 SUBGROUP) results in registers, a thread ROWS x 4 of them.
//
// For devices without fast workgroup memory, whose subgroups exchange values cheaply: the lanes of a subgroup share rows of
// a: lane i loads rows 4 i to 4 i + 3 of the tile, and every lane gets them by broadcasts; a lane has four columns of b of
// its own. Operands are read as they lie: along k (A_ALONG_K, B_ALONG_K) or across it. What lies past the end of k (RAGGED)
// is replaced by 0.

struct Params {
    uint m, k, n;
    uint a_offset, a_batch, a_row, a_column;
    uint b_offset, b_batch, b_row, b_column;
    uint out_offset, out_batch, out_row, out_column;
};

kernel void atlas_matmul_subgroup(
    device const T* a [[buffer(0)]],
    device const T* b [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant Params& params [[buffer(PARAMS)]],
    constant Epilogue& epilogue [[buffer(PARAMS + 1)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    // No thread may leave: the others need its rows of a.
    const uint lane = thread_index % SUBGROUP;
    const uint first_row = (group.y * (WORKGROUP_X / SUBGROUP) + thread_index / SUBGROUP) * ROWS;
    const uint column = (group.x * SUBGROUP + lane) * 4;
    device const T* a_start = a + params.a_offset + (ulong)group.z * params.a_batch;
    device const T* b_start = b + params.b_offset + (ulong)group.z * params.b_batch;

    // Where four lines of a and of b begin; those past the end repeat the last one.
    device const T* a_lines[4];
    device const T* b_lines[4];
    for (uint i = 0; i < 4; i++) {
        a_lines[i] = a_start + (ulong)min(first_row + lane * 4 % ROWS + i, params.m - 1) * params.a_row;
        b_lines[i] = b_start + (ulong)min(column + i, params.n - 1) * params.b_column;
    }
    const uint a_step = A_ALONG_K ? 1 : params.a_column;
    const uint b_step = B_ALONG_K ? 1 : params.b_row;

    ACC c[ROWS][4] = {};
    for (uint k = 0; k < params.k; k += 4) {
        ACC left[4][4], right[4][4];
#pragma unroll
        for (uint i = 0; i < 4; i++)
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                const bool inside = !RAGGED || k + j < params.k;
                left[i][j] = inside ? (ACC)a_lines[i][(ulong)(k + j) * a_step] : (ACC)0;
                right[j][i] = inside ? (ACC)b_lines[i][(ulong)(k + j) * b_step] : (ACC)0;
            }
#pragma unroll
        for (uint row = 0; row < ROWS; row++)
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                const ACC shared = simd_broadcast(left[row % 4][j], (ushort)(row / 4));
#pragma unroll
                for (uint i = 0; i < 4; i++) c[row][i] = fma(shared, right[j][i], c[row][i]);
            }
    }

    // Store.
    device T* out_start = out + params.out_offset + (ulong)group.z * params.out_batch;
    const uint batch_row = group.z * params.m;  // rows of the matrices before this one
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
#pragma unroll
        for (uint j = 0; j < 4; j++)
            if (first_row + i < params.m && column + j < params.n)
                out_start[(ulong)(first_row + i) * params.out_row + (ulong)(column + j) * params.out_column] =
                    (T)epilogue(c[i][j], batch_row + first_row + i, column + j);
}
