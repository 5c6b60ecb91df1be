// Cross entropy over logits against float64.

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/loss_run.h"

namespace tilewright::test {
namespace {

class Logits : public testing::TestWithParam<std::string> {
protected:
  std::unique_ptr<Runtime> runtime = openRuntime(GetParam());

  void check(const LossCase &data, const LossCall &call) {
    SCOPED_TRACE(std::to_string(data.rows) + "x" + std::to_string(data.classes) + " " +
                 elementName(data.element) + " " + call.str());
    expectClose(runCrossEntropy(*runtime, data, call), logitsReferenceFor(data, call), data);
  }
};

TEST_P(Logits, MatchReference) {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (DataKind kind : kDataKinds)
      for (auto [rows, classes] : {std::pair(37, 1009), {1, 17}, {64, 5000}, {5, 1}, {9, 2}}) {
        SCOPED_TRACE(dataKindName(kind));
        LossCall call;
        if (element == ElementType::f16) call.gradient = ElementType::f32;
        check(logitsCase(kind, rows, classes, element), call);
      }
}

TEST_P(Logits, InPlace) {
  for (ElementType element : {ElementType::f32, ElementType::bf16})
    for (int64_t gap : {0, 3}) {
      LossCall call;
      call.inPlace = true;
      call.gap = gap;
      check(logitsCase(DataKind::peaked, 300, 3001, element, IgnorePattern::some), call);
    }
}

TEST_P(Logits, ReduceAndIgnore) {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (IgnorePattern pattern : {IgnorePattern::none, IgnorePattern::firstHalf, IgnorePattern::all}) {
      const LossCase data = logitsCase(DataKind::random, 140, 300, ElementType::f32, pattern);
      LossCall call;
      call.reduction = reduction;
      call.label = ElementType::i32;
      check(data, call);
      call.gradOutput = {0.5};
      check(data, call);
      if (reduction != Reduction::none) continue;
      for (int64_t i = 1; i < data.rows; ++i)
        call.gradOutput.push_back(i % 7 - 3);
      check(data, call);
    }
}

TEST_P(Logits, LossAlone) {
  LossCall call;
  call.wantsDHidden = false;
  call.wantsLse = false;
  check(logitsCase(DataKind::peaked, 33, 4097, ElementType::bf16), call);
}

// On a GPU the longest are shared by clusters of CTAs, which keep them on chip.
TEST_P(Logits, LongRows) {
  for (int64_t classes : {9000, 32768, 50257, 128256, 262144, 300007})
    for (ElementType element : {ElementType::f32, ElementType::bf16}) {
      LossCall call;
      call.inPlace = element == ElementType::bf16;
      check(logitsCase(DataKind::peaked, 5, classes, element, IgnorePattern::some), call);
    }
}

// A row's blocks are large ones, small ones, and those with masks, of which the label's is one: rows that end
// in each of them, with labels in each.
TEST_P(Logits, LabelsInEveryBlock) {
  for (int64_t classes : {255, 256, 700, 1023, 1024, 1025, 1300, 2047, 2048, 2304, 3000})
    for (ElementType element : {ElementType::f32, ElementType::bf16}) {
      LossCase data = logitsCase(DataKind::random, classes / 64 + 2, classes, element);
      for (int64_t row = 0; row < data.rows; ++row)
        data.label[row] = row + 1 == data.rows ? classes - 1 : row * 64 % classes;
      LossCall call;
      call.inPlace = element == ElementType::bf16;
      check(data, call);
    }
}

TEST_P(Logits, NotANumberStaysInItsRow) {
  const float infinity = std::numeric_limits<float>::infinity();
  LossCase data = logitsCase(DataKind::random, 12, 2000, ElementType::f32);
  LossCall call;
  call.reduction = Reduction::none;
  const LossResult good = runCrossEntropy(*runtime, data, call);
  for (float bad : {std::nanf(""), infinity}) {
    data.x[5 * data.classes + 1999] = bad;
    const LossResult result = runCrossEntropy(*runtime, data, call);
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    for (int64_t i = 0; i < data.rows; ++i)
      if (i == 5)
        EXPECT_TRUE(std::isnan(result.loss[i])) << bad;
      else
        EXPECT_EQ(result.loss[i], good.loss[i]) << bad << " row " << i;
  }
}

// Minus infinity means that a class is impossible.
TEST_P(Logits, ImpossibleClasses) {
  LossCase data = logitsCase(DataKind::random, 3, 700, ElementType::f32);
  const float infinity = std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < 700; ++j)
    if (j != data.label[0]) data.x[j] = -infinity; // only the target is possible
  for (int64_t j = 0; j < 690; ++j) {
    if (j != data.label[1]) data.x[700 + j] = -infinity;
  }
  LossCall call;
  call.reduction = Reduction::none;
  LossResult result = runCrossEntropy(*runtime, data, call);
  const ReferenceResult want = logitsReferenceFor(data, call);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.loss[0], 0);
  EXPECT_NEAR(result.loss[1], want.loss[1], 1e-5);
  EXPECT_LE(relativeError(result.dLogits, want.dLogits), 2e-5);
}

// Whole blocks of impossible classes, ahead of others whose logits are far below 0 and rise from block to
// block.
TEST_P(Logits, ImpossibleBlocks) {
  const int64_t classes = 9000, impossible = 3000;
  for (const int64_t label : {int64_t{10}, int64_t{4000}, classes - 1}) {
    LossCase data = logitsCase(DataKind::random, 2, classes, ElementType::f32);
    data.label[0] = label;
    for (int64_t j = 0; j < classes; ++j) {
      const bool isPossible = j >= impossible || j == label;
      data.x[j] = isPossible ? data.x[j] - 1000 + 0.01f * j : -std::numeric_limits<float>::infinity();
    }
    LossCall call;
    call.reduction = Reduction::none;
    const LossResult result = runCrossEntropy(*runtime, data, call);
    const ReferenceResult want = logitsReferenceFor(data, call);
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_NEAR(result.loss[0], want.loss[0], 1e-3) << label;
    EXPECT_LE(relativeError(result.dLogits, want.dLogits), 1e-4) << label;
    for (int64_t j = 0; j < impossible; ++j)
      if (j != label) {
        EXPECT_EQ(result.dLogits[j], 0) << j;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Logits, testing::ValuesIn(testDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
