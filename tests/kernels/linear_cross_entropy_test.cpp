// Linear cross entropy against float64: every combination of what changes the path through the kernels.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/loss_run.h"

namespace tilewright::test {
namespace {

struct Shape {
  int64_t rows, hidden, classes;
};

std::string shapeName(const Shape &shape) {
  return std::to_string(shape.rows) + "x" + std::to_string(shape.hidden) + "x" +
         std::to_string(shape.classes);
}

/// One runtime a device for all tests: kernels are compiled once.
Runtime &runtimeFor(const std::string &device) {
  static std::map<std::string, std::unique_ptr<Runtime>> runtimes;
  auto &runtime = runtimes[device];
  if (!runtime) runtime = openRuntime(device);
  return *runtime;
}

/// How large dX is before the terms of its sum cancel, which they do when all classes look the same.
double gradientFloor(DataKind kind, const LossCase &data) {
  if (kind != DataKind::constant) return 0;
  return 0.1 * norm({data.w.begin(), data.w.begin() + data.hidden});
}

void check(const std::string &device, const LossCase &data, const LossCall &call, double floor = 0) {
  SCOPED_TRACE(shapeName({data.rows, data.hidden, data.classes}) + " " + elementName(data.element) + " " +
               call.str());
  const ReferenceResult reference = referenceFor(data, call);
  // The shift of a backward call is the saved lse, and a GPU's exponentials are off by what rounding its
  // multiple costs (`expAbove`). Of a target's logit on the grid of `commonOffset`, nothing is rounded.
  const double ofShifts = call.apart && device != "cpu" ? 0x1p-24 * reference.logitSize : 0;
  expectClose(runLinearCrossEntropy(runtimeFor(device), data, call), reference, data, floor, ofShifts);
}

using DataSweep = std::tuple<std::string, ElementType, Shape, DataKind>;

class Data : public testing::TestWithParam<DataSweep> {};

TEST_P(Data, MatchesReference) {
  const auto &[device, element, shape, kind] = GetParam();
  const LossCase data = makeCase(kind, shape.rows, shape.hidden, shape.classes, element);
  LossCall call;
  if (element == ElementType::f16)
    call.gradient = ElementType::f32;                         // f16 cannot hold those of confident rows
  call.flushSmallProbabilities = kind != DataKind::confident; // of which nothing else is left
  check(device, data, call, gradientFloor(kind, data));
  call.apart = true;
  check(device, data, call, gradientFloor(kind, data));
  call.apart = false;
  LossCall alone;
  alone.wantsDHidden = alone.wantsDWeight = false;
  check(device, data, alone);
  if (element != ElementType::f16) return;
  call.variant = Variant::recompute; // E in f16, which a CPU has in no other variant
  check(device, data, call, gradientFloor(kind, data));
}

const Shape kShapes[] = {{37, 131, 1009}, {1, 8, 17}, {256, 64, 1000}, {5, 3, 1}, {1, 1, 2}, {200, 33, 31}};

std::string sweepName(const testing::TestParamInfo<DataSweep> &info) {
  const auto &[device, element, shape, kind] = info.param;
  return device + "_" + elementName(element) + "_" + shapeName(shape) + "_" + dataKindName(kind);
}

const ElementType kElements[] = {ElementType::f32, ElementType::bf16, ElementType::f16};

INSTANTIATE_TEST_SUITE_P(Sweep, Data,
                         testing::Combine(testing::ValuesIn(testDevices()), testing::ValuesIn(kElements),
                                          testing::ValuesIn(kShapes), testing::ValuesIn(kDataKinds)),
                         sweepName);

class OnDevice : public testing::TestWithParam<std::string> {
protected:
  const std::string device = GetParam();
};

TEST_P(OnDevice, ReducesAndIgnores) {
  const IgnorePattern patterns[] = {IgnorePattern::none, IgnorePattern::some, IgnorePattern::firstHalf,
                                    IgnorePattern::all};
  for (ElementType element : {ElementType::f32, ElementType::bf16})
    for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
      for (IgnorePattern pattern : patterns) {
        LossCall call;
        call.reduction = reduction;
        call.label = reduction == Reduction::sum ? ElementType::i32 : ElementType::i64;
        check(device, makeCase(DataKind::peaked, 150, 40, 300, element, pattern), call);
      }
}

TEST_P(OnDevice, TakesAnyIgnoreIndex) {
  for (int64_t ignoreIndex : {int64_t(-1), int64_t(7), INT64_MIN, INT64_MAX}) {
    LossCase data = makeCase(DataKind::random, 50, 16, 40, ElementType::f32);
    data.ignoreIndex = ignoreIndex;
    for (int64_t row : {0, 20, 49})
      data.label[row] = ignoreIndex;
    check(device, data, {});
  }
}

TEST_P(OnDevice, ScalesByTheUpstreamGradient) {
  const LossCase data = makeCase(DataKind::random, 45, 24, 100, ElementType::f32, IgnorePattern::some);
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    LossCall call;
    call.reduction = reduction;
    call.gradOutput = {-2.5};
    check(device, data, call);
  }
  LossCall call;
  call.reduction = Reduction::none;
  for (int64_t i = 0; i < data.rows; ++i)
    call.gradOutput.push_back(i % 5 - 2);
  check(device, data, call);
}

TEST_P(OnDevice, ComputesWhatIsAskedFor) {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    const LossCase data = makeCase(DataKind::random, 40, 24, 100, element);
    for (bool dHidden : {false, true})
      for (bool dWeight : {false, true}) {
        LossCall call;
        call.wantsDHidden = dHidden, call.wantsDWeight = dWeight, call.wantsLse = dHidden;
        call.gradient = ElementType::f32;
        check(device, data, call);
      }
  }
}

TEST_P(OnDevice, RowsMayLieApart) {
  for (ElementType element : {ElementType::f32, ElementType::bf16}) {
    LossCall call;
    call.gap = 5;
    check(device, makeCase(DataKind::random, 45, 21, 99, element, IgnorePattern::some), call);
  }
}

TEST_P(OnDevice, VariantsAgree) {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (IgnorePattern pattern : {IgnorePattern::none, IgnorePattern::firstHalf}) {
      const LossCase data = makeCase(DataKind::peaked, 520, 48, 700, element, pattern);
      LossCall call;
      for (Variant variant : {Variant::chunked, Variant::whole}) {
        call.variant = variant;
        check(device, data, call);
      }
      // Several chunks, of which ignored rows leave the last ones empty.
      call.variant = Variant::chunked;
      call.workspaceLimit = 600 << 10;
      check(device, data, call);
      EXPECT_LT(runLinearCrossEntropy(runtimeFor(device), data, call).report.workspaceBytes, 600 << 10);
      // Several chunks, and several slices of the classes.
      call.variant = Variant::recompute;
      const int64_t limit = (element == ElementType::f32 ? 900 : 500) << 10;
      for (int64_t bytes : {int64_t(0), limit}) {
        call.workspaceLimit = bytes;
        check(device, data, call);
      }
      const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, call);
      EXPECT_LE(result.report.workspaceBytes, limit);
      EXPECT_LT(configured(result, "chunk"), data.rows / 2);
      EXPECT_LT(configured(result, "slice"), data.classes / 2);
      call.workspaceLimit = 0;
      call.variant = Variant::lossOnly;
      call.wantsDHidden = call.wantsDWeight = false;
      check(device, data, call);
    }
}

// dW's memory is borrowed before dW is there: for E that is kept, and for slices larger than the
// workspace's. With gaps between its rows it does neither.
TEST_P(OnDevice, RecomputesInBorrowedMemory) {
  for (const ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (const IgnorePattern pattern : {IgnorePattern::none, IgnorePattern::some, IgnorePattern::firstHalf}) {
      const LossCase data = makeCase(DataKind::peaked, 150, 264, 3001, element, pattern);
      LossCall call;
      call.variant = Variant::recompute;
      call.workspaceLimit = (element == ElementType::f32 ? 1000 : 640) << 10;
      check(device, data, call);
      const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, call);
      EXPECT_LE(result.report.workspaceBytes, call.workspaceLimit);
      EXPECT_GT(configured(result, "in dw's memory"), configured(result, "slice"));
      EXPECT_GT(configured(result, "kept"), data.classes / 3);
      call.gap = 8;
      check(device, data, call);
      const LossResult apart = runLinearCrossEntropy(runtimeFor(device), data, call);
      EXPECT_EQ(configured(apart, "in dw's memory") + configured(apart, "kept"), 0);
    }
}

TEST_P(OnDevice, NoRowsAtAll) {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    LossCall call;
    call.reduction = reduction;
    const LossCase data = makeCase(DataKind::random, 0, 8, 20, ElementType::f32);
    const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, call);
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    for (double loss : result.loss)
      EXPECT_EQ(loss, 0);
    for (double dw : result.dWeight)
      EXPECT_EQ(dw, 0);
  }
}

// What all rows of W have in common shifts a row's logits and cancels in dX, however E is rounded.
TEST_P(OnDevice, CommonPartOfWeightCancels) {
  for (ElementType element : {ElementType::f32, ElementType::bf16}) {
    LossCase data = makeCase(DataKind::peaked, 100, 64, 1000, element);
    addCommonPart(data);
    const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, {});
    const ReferenceResult want = referenceFor(data, {});
    // In fp32, a sum of terms of size 128 is off by some units of their last place.
    const double limit = element == ElementType::f32 ? 128 * 1e-6 : 4e-3;
    EXPECT_LE(relativeError(result.dHidden, want.dHidden), limit);
    EXPECT_LE(relativeError(result.dWeight, want.dWeight), element == ElementType::f32 ? 2e-5 : 4e-3);
  }
}

// Every class but the label has a probability near 2^-43. Whatever counts as nothing is less than 2^-30 of
// its row's gradient before it cancels, and f32 leaves nothing out.
TEST_P(OnDevice, FlushesSmallProbabilities) {
  for (ElementType element : {ElementType::bf16, ElementType::f32}) {
    const LossCase data = makeCase(DataKind::confident, 60, 512, 1000, element);
    LossCall call;
    const ReferenceResult want = referenceFor(data, call);
    const LossResult flushed = runLinearCrossEntropy(runtimeFor(device), data, call);
    call.flushSmallProbabilities = false;
    const LossResult all = runLinearCrossEntropy(runtimeFor(device), data, call);
    EXPECT_EQ(flushed.loss, all.loss);
    if (element == ElementType::f32) {
      EXPECT_EQ(flushed.bits, all.bits);
      continue;
    }
    EXPECT_LE(relativeError(all.dHidden, want.dHidden), 4e-3);
    for (int64_t i = 0; i < data.classes; ++i) { // dW of classes that are no row's label
      if (std::count(data.label.begin(), data.label.end(), i)) continue;
      EXPECT_EQ(flushed.dWeight[i * data.hidden], 0) << i;
      EXPECT_NE(all.dWeight[i * data.hidden], 0) << i;
    }
    const double largest = 0x1p-30 * static_cast<double>(data.classes) / static_cast<double>(data.rows);
    const double ofW = norm({data.w.begin(), data.w.end()});
    for (std::size_t k = 0; k < want.dHidden.size(); ++k)
      EXPECT_NEAR(flushed.dHidden[k], want.dHidden[k], largest * ofW);
  }
}

TEST_P(OnDevice, TrainedHead) {
  std::optional<LossCase> data = trainedHead(256, 32768);
  if (!data) GTEST_SKIP() << "TILEWRIGHT_TEST_DATA names no folder with trained_head";
  for (ElementType element : {ElementType::bf16, ElementType::f32}) { // which holds bf16's numbers, too
    data->element = element;
    check(device, *data, {});
  }
}

// A whole batch of it, by bounds of its own: little more than half of what bf16 may be off elsewhere.
TEST_P(OnDevice, TrainedHeadInBf16) {
  const std::optional<LossCase> data = trainedHead(2048, 32768);
  if (!data) GTEST_SKIP() << "TILEWRIGHT_TEST_DATA names no folder with trained_head";
  const LossResult result = runLinearCrossEntropy(runtimeFor(device), *data, {});
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  const ReferenceResult want = referenceFor(*data, {});
  EXPECT_NEAR(result.loss[0], want.loss[0], 1e-5);
  EXPECT_LE(relativeError(result.dHidden, want.dHidden), 2.3e-3);
  EXPECT_LE(relativeError(result.dWeight, want.dWeight), 2.3e-3);
}

// Its shifts are estimated by a sample of the classes, and some are raised. Hidden states may be small
// numbers, too.
TEST_P(OnDevice, TrainedHeadInF16) {
  std::optional<LossCase> data = trainedHead(512, 32768);
  if (!data) GTEST_SKIP() << "TILEWRIGHT_TEST_DATA names no folder with trained_head";
  data->element = ElementType::f16;
  for (const float unit : {1.0F, 0x1p-7F}) {
    for (float &x : data->x)
      x = rounded(unit * x, ElementType::f16);
    for (float &w : data->w)
      w = rounded(1 / unit * w, ElementType::f16);
    LossCall call;
    call.gradient = ElementType::f32;
    const ReferenceResult want = referenceFor(*data, call);
    for (const Variant variant : {Variant::automatic, Variant::recompute}) {
      call.variant = variant; // a CPU has E in f16 with `recompute` alone
      const LossResult result = runLinearCrossEntropy(runtimeFor(device), *data, call);
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      EXPECT_NEAR(result.loss[0], want.loss[0], 1e-5);
      EXPECT_LE(relativeError(result.dHidden, want.dHidden), 2e-4);
      EXPECT_LE(relativeError(result.dWeight, want.dWeight), 2e-4);
    }
  }
}

// So little memory that an fp32 for each number of dW leaves chunks of a few rows, or none.
TEST_P(OnDevice, AddsUpInPlace) {
  for (const ElementType element : {ElementType::bf16, ElementType::f16})
    for (const IgnorePattern pattern : {IgnorePattern::none, IgnorePattern::firstHalf})
      for (const bool accumulate : {false, true}) {
        const DataKind kind = element == ElementType::f16 ? DataKind::random : DataKind::peaked;
        LossCase data = makeCase(kind, 500, 48, 704, element, pattern);
        for (int64_t k = 0; accumulate && k < data.classes * data.hidden; ++k)
          data.dWeightBefore.push_back(0x1p-8 * static_cast<double>(k % 7 - 3));
        LossCall call;
        call.variant = Variant::chunked;
        call.workspaceLimit = 150 << 10;
        call.accumulate = accumulate;
        if (element == ElementType::f16) call.gradOutput = {4096}; // else they lie below its range
        const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, call);
        EXPECT_THAT(result.report.configuration, testing::HasSubstr("in place"));
        EXPECT_LE(result.report.workspaceBytes, call.workspaceLimit);
        check(device, data, call);
      }
}

// dX's last rows in parts of the classes, some of them empty, beside whole ones, and nothing but parts.
TEST_P(OnDevice, AddsUpPartsOfTheClasses) {
  for (const ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (const int64_t begin : {0, 192})
      for (const int64_t parts : {2, 3, 8}) {
        const LossCase data = makeCase(DataKind::peaked, 500, 64, 400, element, IgnorePattern::some);
        LossCall call;
        if (element == ElementType::f16) call.gradient = ElementType::f32;
        call.labelSmoothing = parts == 3 ? 0.1 : 0;
        call.variant = Variant::whole;
        call.changePlan = [&](lce::Config &config) { config.tail = {begin, parts}; };
        check(device, data, call);
      }
}

// So many classes that parts of them are planned for two tiles of rows on a GPU.
TEST_P(OnDevice, FewRowsOfManyClasses) {
  const LossCase data = makeCase(DataKind::peaked, 300, 64, 12000, ElementType::bf16);
  check(device, data, {});
}

// A class of a bias of -∞ has no probability, as one of -1000 has none that fp32 knows; a row whose target it
// is has an infinite loss, and gradients like any other.
TEST_P(OnDevice, ATargetMayBeImpossible) {
  for (const ElementType element : {ElementType::f32, ElementType::bf16})
    for (const int64_t classes : {256, 300}) { // whole blocks, and a part of one
      LossCase data = makeCase(DataKind::random, 12, 64, classes, element);
      LossCall call;
      call.reduction = Reduction::none;
      data.bias.assign(classes, 0);
      data.bias[data.label[3]] = -1000;
      const LossResult finite = runLinearCrossEntropy(runtimeFor(device), data, call);
      data.bias[data.label[3]] = -std::numeric_limits<float>::infinity();
      const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, call);
      EXPECT_EQ(result.dHidden, finite.dHidden);
      EXPECT_EQ(result.dWeight, finite.dWeight);
      for (int64_t i = 0; i < data.rows; ++i) {
        const bool isImpossible = data.label[i] == data.label[3];
        EXPECT_EQ(result.loss[i], isImpossible ? std::numeric_limits<double>::infinity() : finite.loss[i])
            << i;
      }
    }
}

// Without gradients, rows whose target says nothing of the other logits are looked at again; here some of 70.
TEST_P(OnDevice, ALossAloneMendsShifts) {
  for (const ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    LossCase data = makeCase(DataKind::random, 70, 64, 1000, element, IgnorePattern::some);
    for (const int64_t row : {5, 6, 40})
      for (int64_t h = 0; h < data.hidden; ++h)
        data.x[row * data.hidden + h] = 128 * data.w[(11 * row) * data.hidden + h];
    LossCall call;
    call.reduction = Reduction::none;
    call.wantsDHidden = call.wantsDWeight = call.wantsDBias = false;
    check(device, data, call);

    data.bias.assign(data.classes, 0); // whole blocks without anything
    std::fill_n(data.bias.begin() + 300, 500, -10000);
    const LossResult finite = runLinearCrossEntropy(runtimeFor(device), data, call);
    std::fill_n(data.bias.begin() + 300, 500, -std::numeric_limits<float>::infinity());
    const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, call);
    for (int64_t i = 0; i < data.rows; ++i) {
      const bool isImpossible = data.label[i] >= 300 && data.label[i] < 800;
      EXPECT_EQ(result.loss[i], isImpossible ? std::numeric_limits<double>::infinity() : finite.loss[i]) << i;
    }
  }
}

// Bad rows of X spoil their own results only.
TEST_P(OnDevice, NotANumberStaysInItsRow) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (ElementType element : {ElementType::f32, ElementType::bf16})
    for (float bad : {std::nanf(""), infinity, -infinity}) {
      LossCase data = makeCase(DataKind::random, 70, 32, 200, element);
      LossCall call;
      call.reduction = Reduction::none;
      const LossResult good = runLinearCrossEntropy(runtimeFor(device), data, call);
      data.x[20 * data.hidden + 3] = bad;
      const LossResult result = runLinearCrossEntropy(runtimeFor(device), data, call);
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      for (int64_t i = 0; i < data.rows; ++i) {
        if (i == 20)
          EXPECT_TRUE(std::isnan(result.loss[i])) << bad;
        else
          EXPECT_EQ(result.loss[i], good.loss[i]) << bad << " row " << i;
        for (int64_t k = i * data.hidden; k < (i + 1) * data.hidden; ++k)
          if (i == 20)
            EXPECT_TRUE(std::isnan(result.dHidden[k])) << bad;
          else
            EXPECT_EQ(result.dHidden[k], good.dHidden[k]) << bad << " row " << i;
      }
    }
}

// Rows that are numbered and sorted in time that grows with them, in one chunk, several, and a second pass.
TEST_P(OnDevice, ManyRows) {
  for (const int64_t classes : {17, 300}) {
    LossCase data = makeCase(DataKind::random, 20000, 8, classes, ElementType::f32, IgnorePattern::some);
    data.bias.assign(classes, 0.25f);
    LossCall call;
    const ReferenceResult reference = referenceFor(data, call);
    for (const auto &[variant, limit] : {std::pair(Variant::automatic, int64_t(0)),
                                         {Variant::whole, 0},
                                         {Variant::chunked, classes * 4 * 9000},
                                         {Variant::recompute, 0}}) {
      call.variant = variant, call.workspaceLimit = limit;
      SCOPED_TRACE(call.str());
      expectClose(runLinearCrossEntropy(*openRuntime(device), data, call), reference, data);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OnDevice, testing::ValuesIn(testDevices()),
                         [](const auto &info) { return info.param; });

TEST(Threads, DoNotChangeABit) {
  const LossCase cases[] = {makeCase(DataKind::peaked, 500, 72, 1100, ElementType::f32, IgnorePattern::some),
                            makeCase(DataKind::largeLoss, 300, 40, 500, ElementType::bf16),
                            makeCase(DataKind::random, 9, 300, 64, ElementType::f16),
                            makeCase(DataKind::random, 30, 40, 4100, ElementType::f32)}; // dX in two parts
  for (const LossCase &data : cases)
    for (const Variant variant : {Variant::automatic, Variant::recompute}) {
      LossCall call;
      call.variant = variant;
      call.workspaceLimit = 1 << 20;
      std::vector<uint8_t> first;
      for (int threads : {1, 2, 3, 7}) {
        auto runtime = openRuntime("cpu", threads);
        const LossResult result = runLinearCrossEntropy(*runtime, data, call);
        ASSERT_TRUE(result.status.ok()) << result.status.message();
        if (first.empty()) first = result.bits;
        EXPECT_EQ(result.bits, first) << threads << " threads";
        EXPECT_EQ(runLinearCrossEntropy(*runtime, data, call).bits, first)
            << "again with " << threads << " threads";
      }
    }
}

} // namespace
} // namespace tilewright::test
