// What shaders/cuda/matrix_units.h has of PTX, for threads that are fibres; by the layouts that the PTX ISA documents for
// mma.m16n8k16, mma.m16n8k8 and ldmatrix. Copies arrive when they are waited for, and no sooner.
#ifndef HOLOGRAM_MATRIX_UNITS
#define HOLOGRAM_MATRIX_UNITS
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include <signal.h>

namespace emulation {

struct Copy {
    void* target;
    const void* source;
    unsigned size_bytes, whole_bytes;  // of the source, and with the zeros behind
};
constexpr unsigned MOST_COPIES = 4096;
static Copy copies[MAX_THREADS][MOST_COPIES];
static unsigned copied[MAX_THREADS], committed[MAX_THREADS][MOST_COPIES], groups[MAX_THREADS];
static unsigned generation[MAX_THREADS];

// As on a GPU, the launch fails where this does not hold.
static inline void require(bool holds) {
    if (!holds) raise(SIGSEGV);
}

// A workgroup begins without copies.
static inline unsigned copying() {
    const unsigned t = place.index;
    if (generation[t] != workgroups) generation[t] = workgroups, copied[t] = groups[t] = 0;
    return t;
}

// What a lane of the subgroup shows the others, who look at it between two barriers of theirs.
template <typename T> struct Shown {
    static T values[MAX_THREADS];
    static const T& of(unsigned lane) { return values[place.index / SUBGROUP * SUBGROUP + lane]; }
};
template <typename T> T Shown<T>::values[MAX_THREADS];

struct Operands {
    unsigned a[4], b[2];
};
static inline float number(unsigned short bits, __half) { return static_cast<float>(bit_cast<__half>(bits)); }
static inline float number(unsigned short bits, __nv_bfloat16) { return static_cast<float>(bit_cast<__nv_bfloat16>(bits)); }

}  // namespace emulation

static inline void copy_16_bytes(void* target, const void* source, unsigned size_bytes) {
    const unsigned t = emulation::copying();
    emulation::require(reinterpret_cast<size_t>(target) % 16 == 0 && reinterpret_cast<size_t>(source) % 16 == 0 && size_bytes <= 16);
    emulation::require(emulation::copied[t] < emulation::MOST_COPIES);
    emulation::copies[t][emulation::copied[t]++] = {target, source, size_bytes, 16};
}
static inline void copy_4_bytes(void* target, const void* source, bool inside) {
    const unsigned t = emulation::copying();
    emulation::require(reinterpret_cast<size_t>(target) % 4 == 0 && reinterpret_cast<size_t>(source) % 4 == 0);
    emulation::require(emulation::copied[t] < emulation::MOST_COPIES);
    emulation::copies[t][emulation::copied[t]++] = {target, source, inside ? 4u : 0u, 4};
}
static inline void commit_copies() {
    const unsigned t = emulation::copying();
    emulation::committed[t][emulation::groups[t]++] = emulation::copied[t];
}
template <unsigned LATEST> static inline void wait_for_copies() {
    using namespace emulation;
    const unsigned t = copying();
    if (groups[t] <= LATEST) return;
    const unsigned arrived = committed[t][groups[t] - LATEST - 1];
    for (unsigned i = 0; i < arrived; i++) {
        memset(copies[t][i].target, 0, copies[t][i].whole_bytes);
        memcpy(copies[t][i].target, copies[t][i].source, copies[t][i].size_bytes);
    }
    for (unsigned i = arrived; i < copied[t]; i++) copies[t][i - arrived] = copies[t][i];
    copied[t] -= arrived;
    for (unsigned g = 0; g < LATEST; g++) committed[t][g] = committed[t][groups[t] - LATEST + g] - arrived;
    groups[t] = LATEST;
}

template <bool TRANSPOSED> static inline void load_matrices(unsigned (&out)[4], const void* line) {
    using Lines = emulation::Shown<const unsigned short*>;
    emulation::require(reinterpret_cast<size_t>(line) % 16 == 0);
    const unsigned lane = emulation::place.index % emulation::SUBGROUP;
    Lines::values[emulation::place.index] = static_cast<const unsigned short*>(line);
    emulation::subgroup_barrier();
    for (unsigned j = 0; j < 4; j++) {
        unsigned pair[2];
        for (unsigned i = 0; i < 2; i++) {
            const unsigned row = lane / 4, column = lane % 4 * 2 + i;
            pair[i] = TRANSPOSED ? Lines::of(8 * j + column)[row] : Lines::of(8 * j + row)[column];
        }
        out[j] = pair[0] | pair[1] << 16;
    }
    emulation::subgroup_barrier();
}

template <typename T> static inline void round_operands(unsigned (&)[4], T) {}
static inline void round_operands(unsigned (&x)[4], float) {
    for (unsigned& bits : x)
        if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & 0xffffe000;
        else if (bits & 0x7fffff) bits = 0x7fffe000;
}

static inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float) {
    using Shown = emulation::Shown<emulation::Operands>;
    const unsigned lane = emulation::place.index % emulation::SUBGROUP;
    const unsigned own[] = {a[0], a[1], a[2], a[3], b0, b1};
    for (unsigned bits : own) emulation::require((bits & 0x1fff) == 0);  // it is tf32
    Shown::values[emulation::place.index] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    emulation::subgroup_barrier();
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float sum = c[i];
        for (unsigned k = 0; k < 8; k++) {
            const unsigned left = Shown::of(row % 8 * 4 + k % 4).a[row / 8 + k / 4 * 2];
            sum += __uint_as_float(left) * __uint_as_float(Shown::of(column * 4 + k % 4).b[k / 4]);
        }
        c[i] = sum;
    }
    emulation::subgroup_barrier();
}

template <typename T> static inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, T type) {
    using Shown = emulation::Shown<emulation::Operands>;
    const unsigned lane = emulation::place.index % emulation::SUBGROUP;
    Shown::values[emulation::place.index] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    emulation::subgroup_barrier();
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float sum = c[i];
        for (unsigned k = 0; k < 16; k++) {
            const unsigned left = Shown::of(row % 8 * 4 + k % 8 / 2).a[row / 8 + k / 8 * 2];
            const unsigned right = Shown::of(column * 4 + k % 8 / 2).b[k / 8];
            sum += emulation::number(left >> k % 2 * 16, type) * emulation::number(right >> k % 2 * 16, type);
        }
        c[i] = sum;
    }
    emulation::subgroup_barrier();
}

#endif
