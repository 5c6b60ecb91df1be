// How the shifts of f16 rows are estimated: a sample of the labels that occur, and a row's largest logit in
// it; and rows of X in a unit that f16 has room for.

#include <algorithm>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/lce/gradient_kernels.h"
#include "tests/support/device_tensor.h"
#include "tests/support/direct_launches.h"

namespace tilewright::test {
namespace {

using testing::Each;
using testing::ElementsAreArray;
using Numbers = std::vector<double>;
constexpr ElementType f16 = ElementType::f16, f32 = ElementType::f32, i32 = ElementType::i32;
constexpr int64_t kHidden = 40, kClasses = 500, kRows = 300, kSampled = 128;

class SampleClasses : public testing::TestWithParam<std::string> {
protected:
  const DirectLaunches launches{GetParam()};
  Device &device = launches.device();
  std::mt19937 random{5};

  Numbers numbers(int64_t count, double deviation = 1) {
    std::normal_distribution<double> normal(0, deviation);
    Numbers values(count);
    for (double &value : values)
      value = rounded(normal(random), f16);
    return values;
  }
  /// A chunk with so many valid rows.
  Numbers labels(int64_t valid) {
    std::uniform_int_distribution<int> label(0, kClasses - 1);
    Numbers values(kRows, -1);
    std::generate_n(values.begin(), valid, [&] { return label(random); });
    return values;
  }
  DeviceTensor matrix(int64_t rows, const Numbers &values) {
    return DeviceTensor::matrix(device, f16, rows, kHidden, values);
  }
  DeviceTensor vector(ElementType element, const Numbers &values) {
    return DeviceTensor::vector(device, element, values);
  }
};

TEST_P(SampleClasses, AreLabelsOfRowsAllOverTheChunk) {
  for (const int64_t valid : {kRows, 2 * kSampled, kSampled - 1, int64_t(1), int64_t(0)}) {
    const Numbers w = numbers(kClasses * kHidden), bias = numbers(kClasses), label = labels(valid);
    const DeviceTensor sample = DeviceTensor::matrix(device, f16, kSampled, kHidden);
    const DeviceTensor chosen = DeviceTensor::vector(device, i32, kSampled);
    const DeviceTensor itsBias = DeviceTensor::vector(device, f16, kSampled);
    launches.launch(lce::sampleClasses(f16, f16),
                    {matrix(kClasses, w).ref(), vector(i32, label).ref(),
                     vector(i32, {0, static_cast<double>(valid)}).ref(), vector(f16, bias).ref(),
                     sample.ref(), chosen.ref(), itsBias.ref()});
    const int64_t apart = std::max<int64_t>(1, valid / kSampled);
    Numbers wantedRows(kSampled * kHidden, 0), wantedBias(kSampled, 0), wanted(kSampled, -1);
    for (int64_t p = 0; p < kSampled && p * apart < valid; ++p) {
      const auto j = static_cast<int64_t>(label[p * apart]);
      wanted[p] = label[p * apart], wantedBias[p] = bias[j];
      std::copy_n(&w[j * kHidden], kHidden, &wantedRows[p * kHidden]);
    }
    EXPECT_THAT(chosen.get(), ElementsAreArray(wanted)) << valid;
    EXPECT_THAT(sample.get(), ElementsAreArray(wantedRows)) << valid;
    EXPECT_THAT(itsBias.get(), ElementsAreArray(wantedBias)) << valid;
  }
}

TEST_P(SampleClasses, TellTheLargestLogitOfOthersThanTheLabel) {
  const Numbers x = numbers(kRows * kHidden), sample = numbers(kSampled * kHidden);
  const Numbers label = labels(kRows);
  Numbers chosen(label.begin(), label.begin() + kSampled);
  chosen[3] = -1;
  const DeviceTensor top = DeviceTensor::vector(device, f32, kRows);
  const auto tops = [&](const Numbers &sampled) {
    launches.launch(lce::sampleTops({f16, {128, kSampled}}),
                    {matrix(kRows, x).ref(), matrix(kSampled, sample).ref(), vector(i32, label).ref(),
                     vector(i32, sampled).ref(), top.ref()});
    return top.get();
  };
  const Numbers got = tops(chosen);
  for (int64_t i = 0; i < kRows; ++i) {
    double want = lce::kLeastShift;
    for (int64_t p = 0; p < kSampled; ++p) {
      double z = 0;
      for (int64_t k = 0; k < kHidden; ++k)
        z += x[i * kHidden + k] * sample[p * kHidden + k];
      if (chosen[p] >= 0 && chosen[p] != label[i]) want = std::max(want, z);
    }
    ASSERT_NEAR(got[i], want, 1e-4) << i;
  }
  EXPECT_THAT(tops(Numbers(kSampled, -1)), Each(static_cast<float>(lce::kLeastShift))) << "there is no class";
}

// A row's scale may be 2^-18 of another's, and its numbers small: f16 alone would hold but a bit of them.
TEST_P(SampleClasses, AndRowsOfXComeInAUnitWithRoom) {
  Numbers x = numbers(kRows * kHidden, 0x1p-6), scale(kRows), largest(kRows, 0);
  for (int64_t i = 0; i < kRows; ++i) {
    scale[i] = std::ldexp(i % 2 ? -1 : 1, static_cast<int>(-30 - i % 18));
    for (int64_t k = 0; k < kHidden; ++k)
      largest[i] = std::max(largest[i], std::abs(x[i * kHidden + k]));
  }
  scale[7] = 0;
  const DeviceTensor scales = vector(f32, scale), most = vector(f32, largest), rows = matrix(kRows, x);
  for (const bool makesGain : {false, true}) {
    const DeviceTensor scaled = DeviceTensor::matrix(device, f16, kRows, kHidden);
    const DeviceTensor gain = DeviceTensor::vector(device, f32, 1);
    if (makesGain) {
      launches.launch(lce::scaleRows({f16, lce::Gain::made}),
                      {scales.ref(), most.ref(), rows.ref(), scaled.ref(), gain.ref()});
    } else {
      launches.launch(lce::rowsGain(), {scales.ref(), most.ref(), gain.ref()},
                      lce::rowsGainOptions(device.target().kind));
      launches.launch(lce::scaleRows({f16}), {scales.ref(), gain.ref(), rows.ref(), scaled.ref()});
    }
    const Numbers got = scaled.get();
    for (int64_t i = 0; i < kRows; ++i) {
      const Numbers row(&got[i * kHidden], &got[i * kHidden] + kHidden);
      Numbers want(&x[i * kHidden], &x[i * kHidden] + kHidden);
      for (double &number : want)
        number *= scale[i] / gain.get()[0];
      EXPECT_LT(relativeError(row, want, 1e-30), 0x1p-11) << i;
    }
  }
}

// In place, by the kernel of the one-hot sums; here no row has a label, so there are none.
TEST_P(SampleClasses, AndRowsOfXAreScaledAlikeBesideTheOneHotSums) {
  const DeviceTensor rows = matrix(kRows, numbers(kRows * kHidden)), scaled = matrix(kRows, rows.get());
  const DeviceTensor scale = vector(f32, numbers(kRows)), largest = vector(f32, Numbers(kRows, 4));
  const DeviceTensor gain = DeviceTensor::vector(device, f32, 1),
                     apart = DeviceTensor::vector(device, f32, 1);
  const DeviceTensor want = DeviceTensor::matrix(device, f16, kRows, kHidden);
  launches.launch(lce::scaleRows({f16, lce::Gain::made}),
                  {scale.ref(), largest.ref(), rows.ref(), want.ref(), apart.ref()});
  const DeviceTensor none = vector(i32, Numbers(kRows, 0)), oneHot = vector(f32, Numbers(kRows, 1));
  const DeviceTensor u = DeviceTensor::matrix(device, f32, kRows, kHidden);
  lce::OneHotSumSpec spec{f16, 64};
  spec.scalesRows = true, spec.gain = lce::Gain::made;
  launches.launch(lce::oneHotSum(spec),
                  {rows.ref(), none.ref(), oneHot.ref(), none.ref(), none.ref(), u.ref(), scale.ref(),
                   scaled.ref(), largest.ref(), gain.ref()},
                  lce::oneHotSumOptions());
  EXPECT_EQ(gain.get(), apart.get());
  EXPECT_EQ(scaled.get(), want.get());
}

// What is added to the products is over it, too, and need not be small where all scales are: with a z-loss
// the target's gradient is not 0 where it has all of the row's mass.
TEST_P(SampleClasses, TheUnitIsNotSoSmallThatTheTargetsPartOverflows) {
  for (const double scale : {0.0, 0x1p-109}) {
    const DeviceTensor scales = vector(f32, Numbers(kRows, scale)),
                       most = vector(f32, Numbers(kRows, 0x1p-4));
    const DeviceTensor gain = DeviceTensor::vector(device, f32, 1);
    launches.launch(lce::rowsGain(), {scales.ref(), most.ref(), gain.ref()});
    EXPECT_EQ(gain.get()[0], 0x1p-60) << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SampleClasses, testing::ValuesIn(directDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
