// The losses by their GPU code, in an interpreter of PTX: every kernel of a call against float64 where there
// is no GPU.

#include <array>
#include <map>
#include <ostream>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/direct_launches.h"
#include "tests/support/loss_features.h"
#include "tests/support/loss_run.h"

namespace tilewright::test {
namespace {

struct Kind {
  const char *name;
  ElementType element;
  bool tf32;
  const char *target = "sm_80";
};
void PrintTo(const Kind &kind, std::ostream *out) { *out << kind.name; }
const Kind kPortable[] = {{"f32", ElementType::f32, false},
                          {"tf32", ElementType::f32, true},
                          {"bf16", ElementType::bf16, false},
                          {"f16", ElementType::f16, false},
                          {"bf16_sm_90", ElementType::bf16, false, "sm_90"}}; // small kernels start early
const Kind kHopper[] = {{"bf16_sm_90a", ElementType::bf16, false, "sm_90a"},  // and products are wgmma's
                        {"f16_sm_90a", ElementType::f16, false, "sm_90a"},
                        {"tf32_sm_90a", ElementType::f32, true, "sm_90a"}};

/// Makes the logits of a row so large that its shift is too small.
void enlarge(LossCase &data, int64_t row) {
  for (int64_t k = 0; k < data.hidden; ++k)
    data.x[row * data.hidden + k] *= 256;
}

class PtxLoss : public testing::TestWithParam<Kind> {
protected:
  /// One for all tests: kernels are compiled once.
  static Runtime &runtime() {
    static std::map<std::string, std::unique_ptr<Runtime>> runtimes;
    auto &runtime = runtimes[GetParam().target];
    if (!runtime) runtime = openInterpreter(GetParam().target);
    return *runtime;
  }
  /// `roundsShifts`: shifts are so large that what rounding them costs counts (`expAbove`).
  void check(const LossCase &data, const LossCall &call, bool roundsShifts = false) {
    SCOPED_TRACE(call.str());
    const ReferenceResult reference = referenceFor(data, call);
    expectClose(runLinearCrossEntropy(runtime(), data, call), reference, data, 0,
                roundsShifts ? 0x1p-24 * reference.logitSize : 0);
  }
  LossCase dataOf(DataKind kind, int64_t rows, int64_t hidden, int64_t classes) {
    LossCase data = makeCase(kind, rows, hidden, classes, GetParam().element, IgnorePattern::some);
    data.tf32 = GetParam().tf32;
    return data;
  }
  static bool isHopper() { return std::string(GetParam().target) == "sm_90a"; }
  LossCall call() {
    LossCall call;
    if (GetParam().element == ElementType::f16) call.gradient = ElementType::f32;
    return call;
  }
};

TEST_P(PtxLoss, MatchesReference) {
  for (const DataKind kind : {DataKind::random, DataKind::peaked, DataKind::largeLoss})
    if (!GetParam().tf32 || kind != DataKind::largeLoss) // whose logits TF32 rounds by more than a loss
      check(dataOf(kind, 37, 40, 301), call());
  LossCall alone = call();
  alone.wantsDHidden = alone.wantsDWeight = alone.wantsDBias = false;
  for (const int64_t hidden : {19, 40}) // rows that are aligned, and others
    check(dataOf(DataKind::random, 37, hidden, 301), alone);
}

// Of three sorted blocks.
TEST_P(PtxLoss, ManyRows) { check(dataOf(DataKind::random, 2100, 8, 20), call()); }

// Of so many rows that the last of two chunks rounds what both add up to, in its product.
TEST_P(PtxLoss, LastProductRounds) {
  if (GetParam().element != ElementType::bf16 || !isHopper()) return;
  const LossCase data = dataOf(DataKind::random, 16384, 8, 20);
  LossCall with = call();
  with.workspaceLimit = int64_t(2) << 20;
  const LossResult result = runLinearCrossEntropy(runtime(), data, with);
  EXPECT_EQ(configured(result, "chunk"), 8192);
  expectClose(result, referenceFor(data, with), data);
}

// Rows of some blocks are made again; of few rows, all of them.
TEST_P(PtxLoss, SomeRowsOutOfRange) {
  if (GetParam().tf32) return; // which rounds such logits by more than a loss
  for (const int64_t rows : {300, 2100}) {
    LossCase data = dataOf(DataKind::random, rows, 8, 130);
    for (const int64_t row : {130, 140})
      enlarge(data, row);
    check(data, call());
  }
}

// Of at most 256 rows, a block makes its sums again itself; of more, a second product does. With the bias
// whole blocks of classes add nothing.
TEST_P(PtxLoss, ALossAloneOfSomeRowsOutOfRange) {
  if (GetParam().tf32) return;
  LossCall alone = call();
  alone.wantsDHidden = alone.wantsDWeight = alone.wantsDBias = false;
  for (const int64_t rows : {70, 200, 300}) {
    LossCase data = dataOf(DataKind::random, rows, 8, 610);
    for (const int64_t row : {int64_t(5), int64_t(64), rows - 1})
      enlarge(data, row);
    check(data, alone);
    data.bias.assign(data.classes, 0);
    std::fill_n(data.bias.begin() + 200, 300, -20000);
    for (int64_t row = 0; row < rows; ++row)
      if (data.label[row] >= 200) data.label[row] %= 200;
    check(data, alone);
  }
}

// What all rows of W have in common cancels in dX, however E is rounded.
TEST_P(PtxLoss, CommonPartOfWeightCancels) {
  if (GetParam().element != ElementType::bf16) return;
  LossCase data = makeCase(DataKind::peaked, 40, 64, 1000, ElementType::bf16);
  addCommonPart(data);
  const LossResult result = runLinearCrossEntropy(runtime(), data, call());
  const ReferenceResult want = referenceFor(data, call());
  EXPECT_LE(relativeError(result.dHidden, want.dHidden), 4e-3);
  EXPECT_LE(relativeError(result.dWeight, want.dWeight), 4e-3);
}

TEST_P(PtxLoss, NoRows) {
  LossCall with = call();
  for (const bool apart : {false, true}) {
    with.apart = apart;
    check(dataOf(DataKind::random, 0, 16, 90), with);
  }
}

TEST_P(PtxLoss, LargeLogitsForwardAndBackwardApart) {
  LossCall with = call();
  with.apart = true;
  for (const std::array<int64_t, 3> &shape : {std::array<int64_t, 3>{1, 1, 2}, {37, 24, 301}})
    check(makeCase(DataKind::commonOffset, shape[0], shape[1], shape[2], GetParam().element), with, true);
}

TEST_P(PtxLoss, HasEachOption) {
  for (const LossFeature &feature : lossFeatures()) {
    SCOPED_TRACE(feature.name);
    const std::vector<int64_t> hiddens = isHopper() ? std::vector<int64_t>{19, 24} : std::vector<int64_t>{19};
    for (const int64_t hidden : hiddens) {
      LossCase data = dataOf(DataKind::random, 33, hidden, 131);
      LossCall with = call();
      feature.apply(data, with);
      check(data, with);
    }
  }
}

// Each with a row that is made again, in a kernel that makes no sums for options.
TEST_P(PtxLoss, HasOptionsOfRowsOutOfRange) {
  if (GetParam().element != ElementType::bf16) return;
  LossCase data = dataOf(DataKind::random, 33, 24, 131);
  enlarge(data, 5);
  LossCall with = call();
  for (const LossFeature &feature : lossFeatures())
    for (const char *name : {"bias", "label_smoothing", "class_weight", "z_loss"})
      if (feature.name == std::string(name)) feature.apply(data, with);
  check(data, with);
}

TEST_P(PtxLoss, ForwardAndBackwardApart) {
  LossCall apart = call();
  apart.apart = true;
  for (const DataKind kind : {DataKind::random, DataKind::largeLoss})
    if (!GetParam().tf32 || kind != DataKind::largeLoss) check(dataOf(kind, 37, 24, 131), apart);
  for (const LossFeature &feature : lossFeatures()) {
    // What makes logits, what the gradient needs of other sums, and what E becomes.
    const std::set<std::string> tried = {"softcap", "label_smoothing", "lmcl", "grad_entropy"};
    if (!tried.count(feature.name)) continue;
    SCOPED_TRACE(feature.name);
    LossCase data = dataOf(DataKind::random, 33, 24, 131);
    LossCall with = apart;
    feature.apply(data, with);
    check(data, with);
  }
}

TEST_P(PtxLoss, InVariants) {
  LossCase data = dataOf(DataKind::peaked, 300, 24, 500);
  if (!GetParam().tf32) enlarge(data, 0);
  LossCall in = call();
  in.changePlan = [](lce::Config &config) { config.tail = {128, 3}; };
  check(data, in);
  in.changePlan = {};
  in.workspaceLimit = 300 << 10; // several chunks
  for (const Variant variant : {Variant::recompute, Variant::chunked}) {
    in.variant = variant;
    check(data, in);
  }
  if (GetParam().element != ElementType::bf16) return; // dW is of 32 bits
  in.changePlan = [](lce::Config &config) { config.inPlace = true; };
  check(data, in);
}

TEST_P(PtxLoss, RecomputesInBorrowedMemory) {
  const LossCase data = dataOf(DataKind::peaked, 140, 136, 1500);
  LossCall in = call();
  in.variant = Variant::recompute;
  in.workspaceLimit = 460 << 10;
  const LossResult result = runLinearCrossEntropy(runtime(), data, in);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_GT(configured(result, "kept"), 0);
  expectClose(result, referenceFor(data, in), data);
}

class PtxLossByRoles : public PtxLoss {};

// Of losses in the thousands most rows' shifts are wrong.
TEST_P(PtxLossByRoles, HasEachOptionAlone) {
  for (const LossFeature &feature : lossFeatures())
    for (const DataKind kind : {DataKind::random, DataKind::largeLoss}) {
      SCOPED_TRACE(feature.name);
      LossCase data = dataOf(kind, 33, 24, 131);
      LossCall with = call();
      feature.apply(data, with);
      with.wantsDHidden = with.wantsDWeight = with.wantsDBias = false;
      check(data, with);
    }
}

/// What heuristics choose for large problems, or tuning.
TEST_P(PtxLossByRoles, InAnySchedule) {
  constexpr auto kTogether = Schedule::WarpRoles::cooperative, kInTurn = Schedule::WarpRoles::pingPong;
  struct {
    lce::Product forward, dHidden, dWeight;
  } const schedules[] = {{{{128, 192}, 0, 4, kInTurn, 2, 1},
                          {{256, 192}, 0, 3, kTogether, 2, 2},
                          {{192, 256}, 0, 3, kTogether, 2, 2}},
                         {{{256, 192}, 0, 4, kTogether, 1, 2},
                          {{192, 256}, 0, 3, kTogether, 4, 2},
                          {{128, 192}, 0, 4, kInTurn, 3, 1}},
                         {{{128, 128}, 0, 3, kInTurn, 1, 2},
                          {{256, 128}, 0, 4, kTogether, 1, 1},
                          {{256, 128}, 0, 4, kTogether, 1, 2}},
                         {{{64, 192}, 0, 6, kInTurn, 1, 1},
                          {{64, 256}, 0, 4, kTogether, 1, 1},
                          {{192, 128}, 0, 4, kInTurn, 1, 1}},
                         {{{128, 200}, 0, 4, kInTurn, 2, 1},
                          {{128, 248}, 0, 3, kTogether, 1, 1},
                          {{192, 128}, 0, 4, kInTurn, 1, 1}},
                         {{{256, 200}, 0, 3, kTogether, 1, 2},
                          {{256, 128}, 0, 4, kTogether, 1, 1},
                          {{192, 128}, 0, 4, kInTurn, 1, 1}}};
  const LossCase data = dataOf(DataKind::random, 520, 264, 600);
  for (const auto &schedule : schedules)
    for (const bool isAlone : {false, true}) {
      LossCall in = call();
      if (isAlone) in.wantsDHidden = in.wantsDWeight = in.wantsDBias = false;
      in.changePlan = [&](lce::Config &config) {
        config.forward = schedule.forward;
        config.dHidden = schedule.dHidden;
        config.dWeight = schedule.dWeight;
      };
      check(data, in);
    }
}

TEST_P(PtxLoss, OverLogits) {
  if (GetParam().tf32) return;                                                   // no products
  const int64_t rows = isHopper() ? 3 : 20, classes = isHopper() ? 240000 : 700; // of several CTAs, or one
  const LossCase data = logitsCase(DataKind::random, rows, classes, GetParam().element, IgnorePattern::some);
  for (const bool inPlace : {false, true}) {
    LossCall of;
    of.inPlace = inPlace;
    const LossResult result = runCrossEntropy(runtime(), data, of);
    expectClose(result, logitsReferenceFor(data, of), data);
    EXPECT_EQ(result.report.configuration.find("cluster") != std::string::npos, isHopper());
  }
}

std::string nameOf(const testing::TestParamInfo<Kind> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Portable, PtxLoss, testing::ValuesIn(kPortable), nameOf);
INSTANTIATE_TEST_SUITE_P(Hopper, PtxLoss, testing::ValuesIn(kHopper), nameOf);
INSTANTIATE_TEST_SUITE_P(Hopper, PtxLossByRoles, testing::ValuesIn(kHopper), nameOf);

} // namespace
} // namespace tilewright::test
