// DL16 (SEN169_FP16), bit by bit: 1 sign, 6 exponent (bias 31), 9 fraction bits.
// Zero is exponent 0 and fraction 0; exponent 0 with a fraction is an ordinary value; 0x7FFF is the one code for
// NaN and infinity. Everything here is branch-free on 32-bit integers, so that plain -O3 vectorises it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace dl16 {

enum class Rounding : int { truncate = 0, nearest_up = 1, nearest_even = 2 };
// What the host converter does with inf and NaN: read exponent 31 as an ordinary one, saturate, or keep non-finite.
enum class Infinity : int { rebias = 0, saturate_finite = 1, preserve = 2 };

constexpr int32_t kRebias = 96 << 9;                       // float32 exponent 127 - 31, in units of a code's fraction
constexpr int32_t kMax = (159 << 23) | (510 << 14);        // 0x7FFE as float32 bits: (1 + 510/512) * 2^32
constexpr int32_t kMin = (96 << 23) | (1 << 14);           // 0x0001 as float32 bits: (1 + 1/512) * 2^-31
constexpr int32_t kHalfMin = kMin - (1 << 23);
constexpr int32_t kNan = 0x7fc00000;
constexpr int32_t kNanCode = 0x7fff;
constexpr int32_t kSaturated = 0x6fff;                     // 33,521,664: what the converter makes of an infinity
constexpr int32_t kConstantMax = 0x7dff;                   // 4.29e9: where the encoder of constants saturates

inline int32_t bits_of(float x) { int32_t u; std::memcpy(&u, &x, 4); return u; }
inline float float_of(int32_t u) { float x; std::memcpy(&x, &u, 4); return x; }

// All bits set if the condition holds. Written with masks, minima and maxima: compilers turn conditionals into jumps,
// which ends vectorising.
inline int32_t mask_of(bool condition) { return -static_cast<int32_t>(condition); }

inline int32_t select(bool condition, int32_t a, int32_t b) {
  return (a & mask_of(condition)) | (b & ~mask_of(condition));
}

// What is added to the magnitude bits of a float32 before the low 14 bits are dropped.
template <Rounding R>
inline int32_t rounding_bias(int32_t a) {
  return R == Rounding::nearest_up ? 0x2000 : R == Rounding::nearest_even ? 0x1fff + ((a >> 14) & 1) : 0;
}

// The least magnitude that does not become zero.
template <Rounding R>
constexpr int32_t kLeast = R == Rounding::truncate ? kMin : R == Rounding::nearest_even ? kHalfMin + 1 : kHalfMin;

// The code of the magnitude bits of a float32; kNanCode beyond the range.
template <Rounding R>
inline int32_t code_of(int32_t a) {
  const int32_t bounded = std::min(a, kNan);  // so that the sum does not pass the sign bit
  const int32_t code = ((bounded + rounding_bias<R>(a)) >> 14) - kRebias;
  return std::min(std::max(code, static_cast<int32_t>(a >= kLeast<R>)), kNanCode);
}

template <Rounding R>
inline float round(float x) {
  const int32_t u = bits_of(x), a = u & INT32_MAX;
  const int32_t r = (std::min(a, kNan) + rounding_bias<R>(a)) & ~0x3fff;
  const int32_t finite = std::max(r, kMin) & mask_of(a >= kLeast<R>);
  return float_of((u & INT32_MIN) | finite | (kNan & mask_of(r > kMax)));
}

template <Rounding R>
inline int16_t encode(float x) {
  const int32_t u = bits_of(x);
  return static_cast<int16_t>(((u >> 16) & 0x8000) | code_of<R>(u & INT32_MAX));
}

inline float decode(int16_t c) {
  const int32_t u = static_cast<uint16_t>(c), m = u & 0x7fff;
  const int32_t finite = ((m + kRebias) << 14) & mask_of(m != 0);
  const int32_t sign = static_cast<int32_t>(static_cast<uint32_t>(u & 0x8000) << 16);
  return float_of(sign | finite | (kNan & mask_of(m == kNanCode)));
}

// float32 bits of an fp16 magnitude whose exponent 31 is read as an ordinary one (so 0x7C00 is 65536).
inline int32_t magnitude_of_half(int32_t a) {
  const int32_t subnormal = bits_of(static_cast<float>(a) * 5.9604644775390625e-8f);  // a * 2^-24, exact
  return select(a < 0x400, subnormal, (a << 13) + (112 << 23));
}

template <Rounding R, Infinity I>
inline int16_t from_half(uint16_t h) {
  const int32_t a = h & 0x7fff;
  const int32_t finite = code_of<R>(magnitude_of_half(a));
  constexpr int32_t kSpecial = I == Infinity::saturate_finite ? kSaturated : kNanCode;
  const int32_t code = select(I != Infinity::rebias && a >= 0x7c00, kSpecial, finite);
  return static_cast<int16_t>((h & 0x8000) | code);
}

// bfloat16 reaches 3.4e38: a finite value beyond the range takes the same way as an infinity. It saturates where the
// encoder of constants does [I]: one such mask value is harmless, the sum of two passes the range and is NaN (E-20).
template <Rounding R, Infinity I>
inline int16_t from_bfloat(uint16_t h) {
  const int32_t a = static_cast<int32_t>(h & 0x7fff) << 16;
  const int32_t code = code_of<R>(a);
  const int32_t kept = select(I == Infinity::saturate_finite && code == kNanCode, kConstantMax, code);
  return static_cast<int16_t>((h & 0x8000) | kept);
}

// The fp16 bits of a code below 2^-14: its significand in units of 2^-24, rounded.
template <Rounding R>
inline int32_t tiny_half(int32_t m) {
  const int32_t significand = 512 + (m & 0x1ff), shift = std::max(16 - (m >> 9), 0), half = (1 << shift) >> 1;
  const int32_t even = std::max(half - 1 + ((significand >> shift) & 1), 0);
  return (significand + (R == Rounding::nearest_up ? half : R == Rounding::nearest_even ? even : 0)) >> shift;
}

// To fp16: the fraction is exact; beyond 65504 infinity, below 2^-14 rounded.
template <Rounding R, Infinity I>
inline uint16_t to_half(int16_t c) {
  const int32_t u = static_cast<uint16_t>(c), m = u & 0x7fff;
  const int32_t tiny = tiny_half<R>(m);
  const int32_t normal = select(m >= (47 << 9), 0x7c00, (m - (16 << 9)) << 1);
  const int32_t finite = select(m == 0, 0, select(m < (17 << 9), tiny, normal));
  const int32_t special = I == Infinity::preserve ? 0x7c00 : 0x7e00;
  return static_cast<uint16_t>((u & 0x8000) | select(m == kNanCode, special, finite));
}

// To bfloat16: truncates toward zero.
template <Infinity I>
inline uint16_t to_bfloat(int16_t c) {
  const int32_t u = static_cast<uint16_t>(c), m = u & 0x7fff;
  const int32_t a = select(m == 0, 0, ((m + kRebias) << 14) >> 16);
  const int32_t special = I == Infinity::preserve ? 0x7f80 : 0x7fc0;
  return static_cast<uint16_t>((u & 0x8000) | select(m == kNanCode, special, a));
}

}  // namespace dl16
