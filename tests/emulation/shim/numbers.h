// bf16 and f16 on a CPU: exact to f32, to the nearest from f32, ties to even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace numbers {

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float from_bf16(uint16_t value) { return from_bits(uint32_t{value} << 16); }

inline uint16_t to_bf16(float value) {
    if (std::isnan(value)) return 0x7fff;
    const uint32_t bits = bits_of(value);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_f16(uint16_t value) {
    const uint32_t sign = uint32_t{value} >> 15 << 31, exponent = value >> 10 & 31, mantissa = value & 1023u;
    if (exponent == 31) return from_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent > 0) return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    const float small = std::ldexp(float(mantissa), -24);
    return sign ? -small : small;
}

inline uint16_t to_f16(float value) {
    const uint16_t sign = uint16_t(bits_of(value) >> 31 << 15);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return 0x7fff;
    // Half a unit above the largest, 65,504, everything is infinite.
    if (magnitude >= 65520.f) return sign | 0x7c00;
    if (magnitude < std::ldexp(1.f, -14)) return sign | uint16_t(std::nearbyint(std::ldexp(magnitude, 24)));
    const uint32_t bits = bits_of(magnitude);
    return sign | uint16_t((bits + 0xfff + (bits >> 13 & 1) - (112u << 23)) >> 13);
}

}   // namespace numbers
