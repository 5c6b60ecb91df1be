// Long rows of 16-bit numbers: what is rounded, bit by bit, and NaNs on their way through reductions.

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "compiler/number_formats.h"
#include "kernels/jit.h"
#include "tests/support/device_tensor.h"

namespace tilewright {
namespace {

using test::DeviceTensor;

constexpr int64_t kColumns = 4096 + 37; // several blocks of an interior, and what is behind it
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

class Rows : public testing::TestWithParam<ElementType> {
protected:
  float widen(uint16_t bits) const { return is(bf16) ? floatFromBf16(bits) : floatFromF16(bits); }
  uint16_t narrow(float value) const { return is(bf16) ? bf16FromDouble(value) : f16FromDouble(value); }
  bool is(ElementType element) const { return GetParam() == element; }
  static constexpr ElementType bf16 = ElementType::bf16, f32 = ElementType::f32;

  void run(const Kernel &kernel, ArgumentSpan arguments) {
    const Status status = launch(*runtime, kernel, arguments, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  TensorRef halves(std::vector<uint16_t> &memory) const {
    return TensorRef::matrix(memory.data(), GetParam(), int64_t(memory.size()) / kColumns, kColumns);
  }
  static TensorRef floats(std::vector<float> &memory) {
    return TensorRef::vector(memory.data(), ElementType::f32, int64_t(memory.size()));
  }

  std::unique_ptr<Runtime> runtime = test::openRuntime();
};

Kernel scaled(ElementType element) {
  return defineKernel("scaled_rows", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 2), s = k.input("s", ElementType::f32, 1);
    const View y = k.output("y", element, 2);
    const Range rows = k.blockRows(x.dim(0), 1), all = k.whole(x.dim(1));
    k.store(y, rows, all, x.at(rows, all) * s[rows]);
  });
}

// Every 16-bit number times factors that make ties, subnormal numbers, infinities, and NaNs with all their
// bits set, which rounding up would make zero.
TEST_P(Rows, AreRoundedToNearestEvenAndNansStay) {
  const std::vector<float> factors{
      1,         1 + 0x1p-8f,         1 + 0x1p-11f,        -0.7f, 0x1p-100f, 3e38f,
      kInfinity, floatOf(0x7fffffff), floatOf(0xffffffff), 1};
  const int64_t rows = int64_t(factors.size()) * 16; // 16 rows hold all numbers
  std::vector<uint16_t> x(rows * kColumns), y(rows * kColumns, 0xA5A5);
  std::vector<float> s(rows);
  for (int64_t i = 0; i < rows * kColumns; ++i)
    x[i] = uint16_t(i % kColumns + i / kColumns * 4096);
  for (int64_t row = 0; row < rows; ++row)
    s[row] = factors[row / 16];
  run(scaled(GetParam()), {halves(x), floats(s), halves(y)});
  for (int64_t i = 0; i < rows * kColumns; ++i) {
    const float wanted = widen(x[i]) * s[i / kColumns];
    if (std::isnan(wanted))
      ASSERT_TRUE(std::isnan(widen(y[i]))) << x[i] << " times " << s[i / kColumns] << " gave " << y[i];
    else
      ASSERT_EQ(y[i], narrow(wanted)) << x[i] << " times " << s[i / kColumns];
  }
}

Kernel extremes(ElementType element) {
  return defineKernel("extremes_of_rows", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 2);
    const View most = k.output("most", ElementType::f32, 1), least = k.output("least", ElementType::f32, 1);
    const Range rows = k.blockRows(x.dim(0), 1), all = k.whole(x.dim(1));
    const Tile z = x.at(rows, all);
    k.store(most, rows, max(z, Axis::columns));
    k.store(least, rows, min(z, Axis::columns));
  });
}

// Wherever it stands, also where nothing larger comes behind it.
TEST_P(Rows, HaveAMaximumThatIsNanIfOneNumberIs) {
  const std::vector<int64_t> places{0, 1, 7, 8, 9, 15, 16, 31, 1023, 1024, 4095, 4096, kColumns - 1};
  const int64_t rows = int64_t(places.size()) + 2;
  std::vector<uint16_t> x(rows * kColumns, narrow(-2));
  for (int64_t row = 0; row < rows; ++row)
    x[row * kColumns + 77] = narrow(5), x[row * kColumns + 78] = narrow(-kInfinity);
  for (size_t i = 0; i < places.size(); ++i)
    x[i * kColumns + places[i]] = 0xffff; // a NaN
  for (int64_t column = 0; column < kColumns; ++column)
    x[(rows - 1) * kColumns + column] = narrow(-kInfinity);
  std::vector<float> most(rows, 9), least(rows, 9);
  run(extremes(GetParam()), {halves(x), floats(most), floats(least)});
  for (size_t i = 0; i < places.size(); ++i)
    EXPECT_TRUE(std::isnan(most[i]) && std::isnan(least[i])) << "column " << places[i];
  EXPECT_EQ(most[rows - 2], 5);
  EXPECT_EQ(least[rows - 2], -kInfinity);
  EXPECT_EQ(most[rows - 1], -kInfinity);
  EXPECT_EQ(least[rows - 1], -kInfinity);
}

INSTANTIATE_TEST_SUITE_P(, Rows, testing::Values(ElementType::bf16, ElementType::f16),
                         [](const auto &info) { return std::string(elementName(info.param)); });

} // namespace
} // namespace tilewright
