// CUDA's half precision as storage.
#pragma once
#include "narrow_floats.h"

typedef emulation::Half __half;
static inline __half __float2half(float x) { return __half(x); }
static inline __half __double2half(double x) { return __half(emulation::to_odd(x)); }
static inline float __half2float(__half x) { return static_cast<float>(x); }
static inline short __half_as_short(__half x) { return emulation::bit_cast<short>(x); }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __half __short_as_half(short x) { return emulation::bit_cast<__half>(x); }
static inline __half __ushort_as_half(unsigned short x) { return emulation::bit_cast<__half>(x); }
