#include "compiler/number_formats.h"

#include <cmath>
#include <cstring>

namespace tilewright {
namespace {

template <typename T> T load(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T> void store(T value, void *to) { std::memcpy(to, &value, sizeof value); }

uint32_t bitsOf(float value) { return load<uint32_t>(&value); }
float floatOf(uint32_t bits) { return load<float>(&bits); }

/// Rounds to odd: towards zero, then the last bit is set if anything was cut off. A second rounding to fewer
/// bits then gives what one rounding would have given.
uint32_t oddFloatBits(double value) {
  const float nearest = static_cast<float>(value);
  uint32_t bits = bitsOf(nearest);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return bits;
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return bits | 1;
}

/// `bits` without its last `count` bits, rounded to nearest, ties to even. A carry into the exponent is
/// right.
uint32_t dropBits(uint32_t bits, int count) {
  const uint32_t half = uint32_t(1) << (count - 1);
  return (bits + half - 1 + ((bits >> count) & 1)) >> count;
}

} // namespace

uint16_t bf16FromDouble(double value) {
  const uint32_t bits = oddFloatBits(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>(dropBits(bits, 16));
}

uint16_t f16FromDouble(double value) {
  const uint32_t bits = oddFloatBits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (std::isnan(value)) return sign | 0x7e00;
  if (exponent > 15) return sign | 0x7c00;
  if (exponent >= -14) return static_cast<uint16_t>(sign + dropBits(magnitude - (uint32_t(112) << 23), 13));
  // Subnormal: the significand counts units of 2^-24.
  const int dropped = -exponent - 1;
  if (dropped > 24) return sign;
  return static_cast<uint16_t>(sign + dropBits((magnitude & 0x7fffff) | 0x800000, dropped));
}

float floatFromBf16(uint16_t bits) { return floatOf(uint32_t(bits) << 16); }

float floatFromF16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0) return floatOf(sign | bitsOf(std::ldexp(static_cast<float>(fraction), -24)));
  const uint32_t widened = exponent == 0x1f ? 0xff : exponent + 112;
  return floatOf(sign | (widened << 23) | (fraction << 13));
}

double doubleForRounding(uint64_t magnitude, bool negative) {
  constexpr int cut = 11; // 64 - 53
  double value = static_cast<double>(magnitude);
  if (magnitude >> 53) {
    const bool sticky = (magnitude & ((uint64_t(1) << cut) - 1)) != 0;
    value = std::ldexp(static_cast<double>((magnitude >> cut) | (sticky ? 1 : 0)), cut);
  }
  return negative ? -value : value;
}

double loadElement(ElementType element, const void *from) {
  switch (element) {
  case ElementType::f32:
    return load<float>(from);
  case ElementType::bf16:
    return floatFromBf16(load<uint16_t>(from));
  case ElementType::f16:
    return floatFromF16(load<uint16_t>(from));
  case ElementType::i32:
    return load<int32_t>(from);
  case ElementType::i64:
    return static_cast<double>(load<int64_t>(from));
  }
  return 0;
}

void storeElement(ElementType element, double value, void *to) {
  switch (element) {
  case ElementType::f32:
    return store(static_cast<float>(value), to);
  case ElementType::bf16:
    return store(bf16FromDouble(value), to);
  case ElementType::f16:
    return store(f16FromDouble(value), to);
  case ElementType::i32:
    return store(static_cast<int32_t>(value), to);
  case ElementType::i64:
    return store(static_cast<int64_t>(value), to);
  }
}

} // namespace tilewright
