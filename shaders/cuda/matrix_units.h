// Matrix units as functions: PTX of sm_80 and later, with what sm_75 has instead. tests/shaders/emulation has the same functions for a CPU.
#ifndef HOLOGRAM_MATRIX_UNITS
#define HOLOGRAM_MATRIX_UNITS
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes to shared memory, the last of them zeros but for `size_bytes`; both places are multiples of 16.
__device__ inline void copy_16_bytes(void* target, const void* source, unsigned size_bytes) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(target)), "l"(__cvta_generic_to_global(source)), "r"(size_bytes) : "memory");
#else
    uint4 value = make_uint4(0, 0, 0, 0);
    if (size_bytes == 16) {
        value = *static_cast<const uint4*>(source);
    } else {
        unsigned short* halves = reinterpret_cast<unsigned short*>(&value);
        for (unsigned i = 0; 2 * i < size_bytes; i++) halves[i] = static_cast<const unsigned short*>(source)[i];
    }
    *static_cast<uint4*>(target) = value;
#endif
}

// Copies 4 bytes to shared memory, or zeros.
__device__ inline void copy_4_bytes(void* target, const void* source, bool inside) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(shared_address(target)), "l"(__cvta_generic_to_global(source)), "r"(inside ? 4 : 0) : "memory");
#else
    *static_cast<unsigned*>(target) = inside ? *static_cast<const unsigned*>(source) : 0;
#endif
}

// What this thread copied since the last commit is one group.
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for this thread's groups but the latest `LATEST`; other threads see what was copied behind a barrier.
template <unsigned LATEST> __device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(LATEST) : "memory");
#endif
}

// Four matrices of 8 x 8 elements of 16 bits. Threads 8 j to 8 j + 7 say where the lines of matrix j begin; thread t gets
// two elements of each, of line t / 4 from 2 (t % 4) on, or of the transposed matrix.
template <bool TRANSPOSED> __device__ inline void load_matrices(unsigned (&out)[4], const void* line) {
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(shared_address(line)) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(shared_address(line)) : "memory");
}

// What matrix units take of operands: f32 is rounded to the nearest tf32, of 10 bits behind the point, ties away from zero.
template <typename T> __device__ inline void round_operands(unsigned (&)[4], T) {}

#if __CUDA_ARCH__ >= 800
__device__ inline void round_operands(unsigned (&x)[4], float) {
#pragma unroll
    for (unsigned i = 0; i < 4; i++) asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(x[i]));
}
#endif

// c += a b for a of 16 x 16, b of 16 x 8 and c of 16 x 8 elements. With g = t / 4 and p = 2 (t % 4), thread t has of a
// (g, p), (g + 8, p), (g, p + 8), (g + 8, p + 8), of b (p, g), (p + 8, g), each with the next element along k; of c
// (g, p), (g, p + 1), (g + 8, p), (g + 8, p + 1).
__device__ inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    for (unsigned half = 0; half < 2; half++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(half ? b1 : b0));
#endif
}

#if __CUDA_ARCH__ >= 800
__device__ inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same for a of 16 x 8 and b of 8 x 8 elements of tf32. Thread t has of a (g, p), (g + 8, p), (g, p + 4), (g + 8, p + 4),
// of b (p, g), (p + 4, g), with p = t % 4; c is as above.
__device__ inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

#endif
