// Sums of fp32, in the memory of a matrix of 16-bit numbers and in a buffer: rounded, and back.

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "kernels/jit.h"
#include "kernels/lce/gradient_kernels.h"
#include "tests/support/device_tensor.h"

namespace tilewright::test {
namespace {

using Numbers = std::vector<double>;

/// Columns of dW, how many of them are in place, and what lies between its rows and those of `partial`.
struct Case {
  int64_t columns, inPlace, gap, partialGap;
};

constexpr int64_t kRows = 3;
// Around a block and a vector, and where accesses are aligned no better than an element.
constexpr Case kCases[] = {{8, 4, 0, 0},       {8, 0, 8, 0},          {8, 1, 0, 0},        {5, 2, 3, 1},
                           {40, 20, 0, 0},     {40, 13, 24, 3},       {1000, 500, 0, 0},   {1000, 37, 8, 0},
                           {2050, 1025, 6, 2}, {4096, 2048, 0, 0},    {4096, 2048, 64, 0}, {4096, 1024, 8, 8},
                           {4096, 1030, 0, 0}, {5000, 2500, 1000, 0}, {6152, 3076, 32, 4}};

class RoundSums : public testing::TestWithParam<std::tuple<std::string, ElementType>> {
protected:
  const ElementType element = std::get<1>(GetParam());
  std::unique_ptr<Runtime> runtime = openRuntime(std::get<0>(GetParam()));
  Device &device = runtime->device();
  std::mt19937 random{7};

  Numbers numbers(int64_t count, ElementType type) {
    std::normal_distribution<double> normal;
    Numbers values(count);
    for (double &value : values)
      value = rounded(normal(random), type);
    return values;
  }

  void round(const lce::RoundSumsSpec &spec, const DeviceTensor &partial, const DeviceTensor &dw) {
    const Status status = launch(*runtime, lce::roundSums(spec), {partial.ref(), dw.ref()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(dw.gapsUntouched());
  }
  DeviceTensor buffer(const Numbers &values, int64_t columns, int64_t gap) {
    return DeviceTensor::matrix(device, ElementType::f32, kRows, columns, values, gap);
  }
  Numbers allRounded(Numbers values) {
    for (double &value : values)
      value = rounded(value, element);
    return values;
  }

  char *rowOf(const DeviceTensor &dw, int64_t row) {
    return static_cast<char *>(dw.ref().data) + row * dw.ref().rowStride * 2;
  }

  /// The fp32 columns that lie in dW's rows.
  void setInPlace(const DeviceTensor &dw, int64_t row, const std::vector<float> &sums) {
    ASSERT_TRUE(device.copyToDevice(rowOf(dw, row), sums.data(), 4 * sums.size(), nullptr).ok());
  }
  Numbers inPlace(const DeviceTensor &dw, int64_t columns) {
    Numbers all;
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> sums(columns);
      EXPECT_TRUE(device.copyToHost(sums.data(), rowOf(dw, row), 4 * columns, nullptr).ok());
      all.insert(all.end(), sums.begin(), sums.end());
    }
    return all;
  }

  /// Columns [begin, end) of a matrix.
  static Numbers part(const Numbers &matrix, int64_t begin, int64_t end) {
    const int64_t columns = matrix.size() / kRows;
    Numbers values;
    for (int64_t row = 0; row < kRows; ++row)
      values.insert(values.end(), &matrix[row * columns] + begin, &matrix[row * columns] + end);
    return values;
  }
};

TEST_P(RoundSums, RoundsInPlaceAndBehind) {
  for (const auto &[columns, inPlace, gap, partialGap] : kCases) {
    SCOPED_TRACE(testing::Message() << columns << " columns, " << inPlace << " in place");
    const int64_t behind = columns - inPlace;
    const Numbers sums = numbers(kRows * inPlace, ElementType::f32),
                  others = numbers(kRows * behind, ElementType::f32);
    const auto partial = buffer(others, behind, partialGap);
    auto dw = DeviceTensor::matrix(device, element, kRows, columns, gap);
    dw.poison();
    for (int64_t row = 0; row < kRows; ++row)
      setInPlace(dw, row, {&sums[row * inPlace], &sums[row * inPlace] + inPlace});
    round({element, true}, partial, dw);
    EXPECT_EQ(part(dw.get(), 0, inPlace), allRounded(sums));
    EXPECT_EQ(part(dw.get(), inPlace, columns), allRounded(others));
  }
}

TEST_P(RoundSums, RoundsABufferOntoTheOutput) {
  for (const auto &[columns, inPlace, gap, partialGap] : kCases)
    for (const bool onto : {false, true}) {
      SCOPED_TRACE(testing::Message() << columns << " columns" << (onto ? ", onto" : ""));
      const Numbers sums = numbers(kRows * columns, ElementType::f32),
                    before = numbers(kRows * columns, element);
      auto dw = DeviceTensor::matrix(device, element, kRows, columns, before, gap);
      round({element, false, onto}, buffer(sums, columns, partialGap), dw);
      Numbers want = sums;
      for (std::size_t i = 0; onto && i < want.size(); ++i)
        want[i] = static_cast<float>(sums[i]) + static_cast<float>(before[i]);
      EXPECT_EQ(dw.get(), allRounded(want));
    }
}

TEST_P(RoundSums, WidensInPlaceAndRoundsBack) {
  for (const auto &[columns, inPlaceColumns, gap, partialGap] : kCases) {
    SCOPED_TRACE(testing::Message() << columns << " columns, " << inPlaceColumns << " in place");
    const Numbers values = numbers(kRows * columns, element);
    auto partial =
        DeviceTensor::matrix(device, ElementType::f32, kRows, columns - inPlaceColumns, partialGap);
    partial.poison();
    auto dw = DeviceTensor::matrix(device, element, kRows, columns, values, gap);
    const Status status = launch(*runtime, lce::widenSums(element), {partial.ref(), dw.ref()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(partial.gapsUntouched());
    EXPECT_TRUE(dw.gapsUntouched());
    EXPECT_EQ(partial.get(), part(values, inPlaceColumns, columns));
    EXPECT_EQ(inPlace(dw, inPlaceColumns), part(values, 0, inPlaceColumns));
    EXPECT_EQ(part(dw.get(), 2 * inPlaceColumns, columns), part(values, 2 * inPlaceColumns, columns));
    round({element, true}, partial, dw);
    EXPECT_EQ(dw.get(), values);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundSums,
                         testing::Combine(testing::ValuesIn(testDevices()),
                                          testing::Values(ElementType::bf16, ElementType::f16)),
                         [](const auto &info) {
                           return std::get<0>(info.param) + "_" + elementName(std::get<1>(info.param));
                         });

} // namespace
} // namespace tilewright::test
