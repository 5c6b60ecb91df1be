// A vocabulary that ranks share, by its GPU code, in an interpreter of PTX.

#include <map>
#include <ostream>

#include <gtest/gtest.h>

#include "tests/support/direct_launches.h"
#include "tests/support/loss_features.h"
#include "tests/support/sharded_run.h"

namespace tilewright::test {
namespace {

struct Kind {
  const char *name;
  ElementType element;
  const char *target;
  bool tf32 = false;
};
void PrintTo(const Kind &kind, std::ostream *out) { *out << kind.name; }
const Kind kKinds[] = {{"f32", ElementType::f32, "sm_80"},
                       {"tf32_sm_90a", ElementType::f32, "sm_90a", true},
                       {"bf16_sm_90a", ElementType::bf16, "sm_90a"},
                       {"f16_sm_90a", ElementType::f16, "sm_90a"}};

class PtxSharded : public testing::TestWithParam<Kind> {
protected:
  /// One for all tests: kernels are compiled once.
  static Runtime &runtime() {
    static std::map<std::string, std::unique_ptr<Runtime>> runtimes;
    auto &runtime = runtimes[GetParam().target];
    if (!runtime) runtime = openInterpreter(GetParam().target);
    return *runtime;
  }
  void check(const LossCase &data, const LossCall &call, const Sharding &sharding) {
    SCOPED_TRACE(call.str() + "; " + sharding.str());
    const ShardedResult result = runSharded(runtime(), data, call, sharding);
    expectClose(result.whole, referenceFor(data, call), data);
    for (const LossResult &rank : result.ranks)
      EXPECT_EQ(rank.bits, result.ranks[0].bits);
  }
  LossCase dataOf(DataKind kind, int64_t rows, int64_t hidden, int64_t classes) {
    LossCase data = makeCase(kind, rows, hidden, classes, GetParam().element, IgnorePattern::some);
    data.tf32 = GetParam().tf32;
    return data;
  }
  LossCall call() {
    LossCall call;
    call.gradient = ElementType::f32;
    return call;
  }
};

TEST_P(PtxSharded, InChunks) {
  for (const DataKind kind : {DataKind::random, DataKind::largeLoss}) {
    if (GetParam().tf32 && kind == DataKind::largeLoss)
      continue; // whose logits TF32 rounds by more than a loss
    for (const bool apart : {false, true}) {
      LossCall with = call();
      with.apart = apart;
      check(dataOf(kind, 80, 24, 180), with, {{64, 5, 111}, 32});
    }
  }
}

TEST_P(PtxSharded, NoRows) { check(dataOf(DataKind::random, 0, 16, 90), call(), {{30, 60}}); }

TEST_P(PtxSharded, HasEachOption) {
  for (const LossFeature &feature : lossFeatures()) {
    SCOPED_TRACE(feature.name);
    LossCase data = dataOf(DataKind::random, 33, 24, 131);
    LossCall with = call();
    feature.apply(data, with);
    check(data, with, {{51, 80}});
  }
}

INSTANTIATE_TEST_SUITE_P(All, PtxSharded, testing::ValuesIn(kKinds),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace tilewright::test
