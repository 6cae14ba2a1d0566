// Half precision and bfloat16 as storage: values convert from and to float, rounding to nearest even.
#pragma once

namespace emulation {

template <typename To, typename From> To bit_cast(From x) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the width");
    return __builtin_bit_cast(To, x);
}

// A double as a float rounded to odd, so that rounding once more to fewer bits is exact.
static inline float to_odd(double x) {
    const float nearest = static_cast<float>(x);
    if (x != x || nearest == x) return nearest;
    unsigned bits = bit_cast<unsigned>(nearest);
    if (__builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x)) bits -= 1;
    return bit_cast<float>(bits | 1);
}

struct Half {
    unsigned short bits;
    Half() = default;
    explicit Half(float x) {
        const unsigned u = bit_cast<unsigned>(x), sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
        unsigned rounded;
        if (size > 0x7f800000) rounded = 0x7e00;
        else if (size >= 0x477ff000) rounded = 0x7c00;
        else if (size < 0x38800000) rounded = bit_cast<unsigned>(bit_cast<float>(size) + 0.5f) - 0x3f000000;
        else rounded = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
        bits = static_cast<unsigned short>(sign | rounded);
    }
    explicit operator float() const {
        const unsigned sign = (bits & 0x8000u) << 16, size = bits & 0x7fff;
        if (size < 0x400) {
            const float tiny = static_cast<float>(size) * 5.9604645e-08f;
            return sign ? -tiny : tiny;
        }
        return bit_cast<float>(sign | ((size << 13) + (size >= 0x7c00 ? 0x70000000u : 0x38000000u)));
    }
};

struct Bfloat {
    unsigned short bits;
    Bfloat() = default;
    explicit Bfloat(float x) {
        const unsigned u = bit_cast<unsigned>(x);
        bits = static_cast<unsigned short>(x != x ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
    explicit operator float() const { return bit_cast<float>(static_cast<unsigned>(bits) << 16); }
};

}  // namespace emulation
