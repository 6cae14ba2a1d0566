// CUDA's bfloat16 as storage.
#pragma once
#include "narrow_floats.h"

typedef emulation::Bfloat __nv_bfloat16;
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(emulation::to_odd(x)); }
static inline float __bfloat162float(__nv_bfloat16 x) { return static_cast<float>(x); }
static inline short __bfloat16_as_short(__nv_bfloat16 x) { return emulation::bit_cast<short>(x); }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline __nv_bfloat16 __short_as_bfloat16(short x) { return emulation::bit_cast<__nv_bfloat16>(x); }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return emulation::bit_cast<__nv_bfloat16>(x); }
