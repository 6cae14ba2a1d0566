// As much of CUDA C++ as hologram's kernels use, for clang: workgroup memory is static (one workgroup runs at a time).
// NVRTC needs no include for any of this; the emulator includes it ahead of every kernel.
#pragma once
#include "fibres.h"
#include "narrow_floats.h"

#define __global__
#define __device__
#define __shared__ EMULATED_SHARED
#define __launch_bounds__(...)  // see cuda_launch.h

namespace emulation {
struct Index {
    unsigned x, y, z;
};
static inline Index thread_of_block() {
    const unsigned i = place.index, x = place.block[0], y = place.block[1];
    return Index{i % x, i / x % y, i / x / y};
}
}  // namespace emulation
#define threadIdx (emulation::thread_of_block())
#define blockIdx (emulation::Index{emulation::place.group[0], emulation::place.group[1], emulation::place.group[2]})
#define __syncthreads() emulation::barrier()

#define VECTOR(type, name) \
    struct alignas(4 * sizeof(type)) name { \
        type x, y, z, w; \
    }; \
    static inline name make_##name(type x, type y, type z, type w) { return name{x, y, z, w}; }
VECTOR(float, float4)
VECTOR(signed char, char4)
VECTOR(short, short4)
VECTOR(int, int4)
VECTOR(unsigned char, uchar4)
VECTOR(unsigned short, ushort4)
VECTOR(unsigned, uint4)
#undef VECTOR

static inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
static inline long long min(long long x, long long y) { return x < y ? x : y; }
static inline int __mulhi(int x, int y) { return static_cast<long long>(x) * y >> 32; }
static inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned long long>(x) * y >> 32; }

static inline int __float_as_int(float x) { return emulation::bit_cast<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulation::bit_cast<unsigned>(x); }
static inline float __int_as_float(int x) { return emulation::bit_cast<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulation::bit_cast<float>(x); }
static inline long long __double_as_longlong(double x) { return emulation::bit_cast<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulation::bit_cast<double>(x); }

#define UNARY(name) \
    static inline float name##f(float x) { return __builtin_##name##f(x); } \
    static inline double name(double x) { return __builtin_##name(x); }
UNARY(sqrt) UNARY(exp) UNARY(exp2) UNARY(expm1) UNARY(log) UNARY(log2) UNARY(log1p) UNARY(sin) UNARY(cos) UNARY(tan)
UNARY(tanh) UNARY(atan) UNARY(erf) UNARY(floor) UNARY(ceil) UNARY(trunc) UNARY(rint) UNARY(fabs)
#undef UNARY
static inline float powf(float x, float y) { return __builtin_powf(x, y); }
static inline double pow(double x, double y) { return __builtin_pow(x, y); }
static inline float fmodf(float x, float y) { return __builtin_fmodf(x, y); }
static inline double fmod(double x, double y) { return __builtin_fmod(x, y); }
static inline float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

template <typename T> T __shfl_sync(unsigned, T value, int lane, int width = 32) {
    return emulation::from_lane(value, lane, width);
}

// Among the threads of a subgroup, all of which ask; others are not waited for.
template <typename T> T __shfl_xor_sync(unsigned, T value, int mask) {
    return emulation::from_neighbour(value, static_cast<unsigned>(mask));
}

template <typename T> T atomicExch(T* a, T x) {
    const T old = *a;
    *a = x;
    return old;
}
template <typename T> T atomicAdd(T* a, T x) { return atomicExch(a, static_cast<T>(*a + x)); }
template <typename T> T atomicMin(T* a, T x) { return atomicExch(a, x < *a ? x : *a); }
template <typename T> T atomicMax(T* a, T x) { return atomicExch(a, x > *a ? x : *a); }
template <typename T> T atomicAnd(T* a, T x) { return atomicExch(a, *a & x); }
template <typename T> T atomicOr(T* a, T x) { return atomicExch(a, *a | x); }
template <typename T> T atomicXor(T* a, T x) { return atomicExch(a, *a ^ x); }
template <typename T> T atomicCAS(T* a, T expected, T x) { return *a == expected ? atomicExch(a, x) : *a; }
