#include "compiler/number_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tilewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Every finite 16-bit number and the midpoints between neighbours, which decide how ties fall.
template <typename Widen, typename Narrow>
void checkEveryNeighbour(Widen widen, Narrow narrow, uint16_t infinity) {
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    const double here = widen(static_cast<uint16_t>(bits));
    ASSERT_EQ(narrow(here), bits);
    ASSERT_EQ(narrow(-here), bits | 0x8000);
    if (bits + 1u == infinity) break;
    const double middle = (here + widen(static_cast<uint16_t>(bits + 1))) / 2; // exact in double
    ASSERT_EQ(narrow(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0)), bits) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity)), bits + 1) << bits;
  }
}

TEST(NumberFormats, bf16RoundsOnceToNearestEven) {
  checkEveryNeighbour(floatFromBf16, bf16FromDouble, 0x7f80);
}

TEST(NumberFormats, f16RoundsOnceToNearestEven) { checkEveryNeighbour(floatFromF16, f16FromDouble, 0x7c00); }

TEST(NumberFormats, beyondTheLargestIsInfinity) {
  EXPECT_EQ(f16FromDouble(65504), 0x7bff);
  EXPECT_EQ(f16FromDouble(65519.999), 0x7bff);
  EXPECT_EQ(f16FromDouble(65520), 0x7c00);
  EXPECT_EQ(f16FromDouble(-1e300), 0xfc00);
  EXPECT_EQ(bf16FromDouble(1e300), 0x7f80);
  EXPECT_EQ(bf16FromDouble(-kInfinity), 0xff80);
  EXPECT_EQ(f16FromDouble(kInfinity), 0x7c00);
}

TEST(NumberFormats, nanStaysNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(floatFromF16(f16FromDouble(nan))));
  EXPECT_TRUE(std::isnan(floatFromBf16(bf16FromDouble(-nan))));
  EXPECT_TRUE(std::isnan(floatFromF16(0x7c01)));
  EXPECT_TRUE(std::isinf(floatFromF16(0xfc00)));
}

TEST(NumberFormats, smallestNumbersOfDoubleVanish) {
  EXPECT_EQ(f16FromDouble(1e-320), 0);
  EXPECT_EQ(bf16FromDouble(-1e-320), 0x8000);
}

TEST(NumberFormats, largeIntegersRoundOnce) {
  // 2^63 + 2^39 is midway between two floats; one more decides upwards, though a double cannot tell.
  const uint64_t middle = (uint64_t(1) << 63) + (uint64_t(1) << 39);
  EXPECT_EQ(static_cast<float>(doubleForRounding(middle, false)), std::ldexp(1.0f, 63));
  EXPECT_EQ(static_cast<float>(doubleForRounding(middle + 1, false)), static_cast<float>(middle + 1));
  EXPECT_GT(static_cast<float>(doubleForRounding(middle + 1, false)), std::ldexp(1.0f, 63));
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    ASSERT_EQ(static_cast<float>(doubleForRounding(value, false)), static_cast<float>(value)) << value;
  }
  EXPECT_EQ(doubleForRounding(5, true), -5.0);
}

TEST(NumberFormats, elementsInMemory) {
  for (const ElementType element :
       {ElementType::f32, ElementType::bf16, ElementType::f16, ElementType::i32, ElementType::i64}) {
    unsigned char bytes[9] = {0xA5, 0xA5, 0xA5, 0xA5, 0xA5, 0xA5, 0xA5, 0xA5, 0xA5};
    storeElement(element, -96, bytes);
    EXPECT_EQ(loadElement(element, bytes), -96) << elementName(element);
    EXPECT_EQ(bytes[elementBytes(element)], 0xA5) << elementName(element);
  }
  char bytes[2];
  storeElement(ElementType::f16, 1 + 0x1p-11 + 0x1p-40, bytes); // rounded once: as fp32 it would be a tie
  EXPECT_EQ(loadElement(ElementType::f16, bytes), 1 + 0x1p-10);
}

} // namespace
} // namespace tilewright
