#include "compiler/base/byte_text.h"

#include <cstdio>

namespace tilewright {
namespace {

constexpr const char *kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
constexpr int kLastUnit = 4;

std::string numberText(double number, int decimals, const char *unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", decimals, number, unit);
  return text;
}

} // namespace

std::string byteText(double bytes) {
  int unit = 0;
  for (; bytes >= 1024 && unit < kLastUnit; ++unit)
    bytes /= 1024;
  return numberText(bytes, unit > 0 && bytes < 10 ? 1 : 0, kUnits[unit]);
}

std::string exactByteText(int64_t bytes) {
  int unit = 0;
  while (unit < kLastUnit && bytes >> (10 * (unit + 1)) > 0)
    ++unit;
  if (unit == 0) return std::to_string(bytes) + " bytes";
  const bool whole = bytes % (int64_t(1) << (10 * unit)) == 0;
  const double number = static_cast<double>(bytes) / static_cast<double>(int64_t(1) << (10 * unit));
  return numberText(number, whole ? 0 : 1, kUnits[unit]) + " (" + std::to_string(bytes) + " bytes)";
}

} // namespace tilewright
