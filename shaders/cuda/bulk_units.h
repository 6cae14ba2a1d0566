// Boxes of tensors that the device copies by itself, and products of what lies in shared memory, as functions: PTX of sm_90a. tests/shaders/emulation has the same functions for a CPU.
#ifndef HOLOGRAM_BULK_UNITS
#define HOLOGRAM_BULK_UNITS
#include "matrix_units.h"

// What cuTensorMapEncodeTiled makes of a tensor with three axes, and of the box that one copy takes.
struct alignas(128) TensorMap {
    unsigned long long opaque[16];
};

// A barrier in shared memory: a phase ends when all arrivals and all bytes that it expects have come, then the next begins.
typedef unsigned long long Barrier;

// The shared memory that the launch asks for, beside what a kernel declares, from the first multiple of 1024 on.
__device__ inline unsigned char* dynamic_memory() {
    extern __shared__ unsigned char given[];
    return given + (-shared_address(given) & 1023);
}

__device__ inline void init_barrier(Barrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Shows this thread's new barriers to the copies; other threads see them behind a barrier of the workgroup.
__device__ inline void announce_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async;" ::: "memory");
}

__device__ inline void arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

// An arrival, after which the phase also waits for so many bytes.
__device__ inline void arrive_expecting(Barrier* barrier, unsigned size_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(size_bytes) : "memory");
}

// Waits until the phase of this parity has ended: the first is even, and the one before it counts as ended.
__device__ inline void wait_for_phase(Barrier* barrier, unsigned parity) {
    unsigned ended = 0;
    while (!ended)
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(ended) : "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Copies the map's box that begins at (x, y, z), zeros where it is outside of the tensor; its bytes come to the barrier.
__device__ inline void copy_box(void* target, const TensorMap& map, unsigned x, unsigned y, unsigned z, Barrier* barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(shared_address(target)), "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory");
}

// Describes operands of 16 bits in lines of 128 bytes from `start` on, swizzled as copies of 128 bytes swizzle: groups of 8
// lines are `stride` bytes apart; where lines lie along m or n, 64 of those to the next 64 it is `leading` bytes.
__device__ inline unsigned long long described(const void* start, unsigned leading, unsigned stride) {
    const auto field = [](unsigned bytes) -> unsigned long long { return (bytes & 0x3ffff) >> 4; };
    return field(shared_address(start)) | field(leading) << 16 | field(stride) << 32 | 1ull << 62;
}

// The same, so many bytes further on.
__device__ inline unsigned long long further(unsigned long long operand, unsigned bytes) { return operand + (bytes >> 4); }

// Orders this thread's use of registers before the products that add to them.
__device__ inline void start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// What was begun since the last commit is one group.
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for the groups but the latest `LATEST`: until then their sums may not be touched, nor their operands changed.
template <unsigned LATEST> __device__ inline void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LATEST) : "memory");
}

#define HOLOGRAM_REGISTERS_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
#define HOLOGRAM_REGISTERS_16 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
#define HOLOGRAM_REGISTERS_32 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
#define HOLOGRAM_REGISTERS_48 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HOLOGRAM_REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
#define HOLOGRAM_REGISTERS_80 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
#define HOLOGRAM_REGISTERS_96 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
#define HOLOGRAM_REGISTERS_112 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define HOLOGRAM_LOWER HOLOGRAM_REGISTERS_0 HOLOGRAM_REGISTERS_16 HOLOGRAM_REGISTERS_32 HOLOGRAM_REGISTERS_48
#define HOLOGRAM_UPPER HOLOGRAM_REGISTERS_64 HOLOGRAM_REGISTERS_80 HOLOGRAM_REGISTERS_96 HOLOGRAM_REGISTERS_112
#define HOLOGRAM_4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define HOLOGRAM_16(c, i) HOLOGRAM_4(c, i), HOLOGRAM_4(c, i + 4), HOLOGRAM_4(c, i + 8), HOLOGRAM_4(c, i + 12)
#define HOLOGRAM_64(c, i) HOLOGRAM_16(c, i), HOLOGRAM_16(c, i + 16), HOLOGRAM_16(c, i + 32), HOLOGRAM_16(c, i + 48)

// c += a b for a of 64 x 16 and b of 16 x N elements, by the 128 threads of four subgroups; TURNED operands lie along m or n.
// Subgroup w has rows 16 w to 16 w + 15; with g = t / 4 and p = 2 (t % 4), its thread t has in c[4 j] to c[4 j + 3] of its rows
// and of columns 8 j on (g, p), (g, p + 1), (g + 8, p), (g + 8, p + 1).
#define HOLOGRAM_MULTIPLY_TILES(TYPE, WORD) \
    template <bool A_TURNED, bool B_TURNED> \
    __device__ inline void multiply_tiles(float (&c)[64], unsigned long long a, unsigned long long b, TYPE) { \
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 1, 0;\n\twgmma.mma_async.sync.aligned.m64n128k16.f32." WORD "." WORD " {" \
                     HOLOGRAM_LOWER "}, %64, %65, p, 1, 1, %66, %67;\n\t}" \
                     : HOLOGRAM_64(c, 0) : "l"(a), "l"(b), "n"((int)A_TURNED), "n"((int)B_TURNED) : "memory"); \
    } \
    template <bool A_TURNED, bool B_TURNED> \
    __device__ inline void multiply_tiles(float (&c)[128], unsigned long long a, unsigned long long b, TYPE) { \
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 1, 0;\n\twgmma.mma_async.sync.aligned.m64n256k16.f32." WORD "." WORD " {" \
                     HOLOGRAM_LOWER HOLOGRAM_UPPER "}, %128, %129, p, 1, 1, %130, %131;\n\t}" \
                     : HOLOGRAM_64(c, 0), HOLOGRAM_64(c, 64) : "l"(a), "l"(b), "n"((int)A_TURNED), "n"((int)B_TURNED) : "memory"); \
    }
HOLOGRAM_MULTIPLY_TILES(__half, "f16")
HOLOGRAM_MULTIPLY_TILES(__nv_bfloat16, "bf16")

#endif
