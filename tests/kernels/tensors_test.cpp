// What a plan's scheme and its tensors say.

#include "tests/kernels/planned_problems.h"

namespace tilewright::lce {
namespace {

TEST(Scheme, SaysWhatWasChosen) {
  Request p = problem(5000, 24, 1000, ElementType::f16);
  p.tensorCores = true;
  EXPECT_EQ(chunked(p).str(), "E f16, shifts of a sample, fix-up by scaling of rows out of range, totals "
                              "before losses, rows scaled in place, dw normalised");
  p.rows = 1000;
  EXPECT_EQ(chunked(p).str(), "E f16, shifts of a sample, fix-up by scaling of rows out of range, joined "
                              "with losses, rows scaled in place, dw normalised");
  p.element = ElementType::bf16;
  p.flushSmallProbabilities = p.terms.labelSmoothing = true;
  EXPECT_EQ(recomputed(p).str(), "E bf16, small ones flushed, shifts of rows, repaired, checked with logits, "
                                 "weighed logits, rows finished with their losses, uniform part added to "
                                 "products, second pass for dw and db");
  p.pass = CallPass::backward;
  p.terms.softcap = true;
  EXPECT_EQ(chunked(p).str(),
            "E bf16, small ones flushed, shifts: saved lse, fix-up by another product, weighed logits");
  p = problem(1000, 24, 1000);
  p.dHidden = p.dWeight = std::nullopt;
  EXPECT_EQ(chunked(p).str(), "E not kept, shifts of rows, repaired, totals before losses");
}

// Tensors that live at the same time, in every kind of call.
TEST(Tensors, DoNotOverlap) {
  for (const Variant variant : {Variant::automatic, Variant::whole, Variant::recompute})
    for (const int64_t limit : {0, 400000, 800000}) {
      Request asked = problem(1000, 24, 1000, ElementType::bf16);
      asked.borrowedBytes = 24 * 1000 * 2 - 255;
      const StatusOr<Config> config = plan(asked, variant, limit, machine(2));
      if (!config.ok()) continue;
      const TensorTable table = tensorsOf(schemeFor(asked, config->variant), *config);
      for (TensorId a = 0; a < tensor::count; ++a)
        for (TensorId b = 0; b < a; ++b) {
          if (!table.has(a) || !table.has(b) || table[a].arena != table[b].arena) continue;
          if (table[a].arena == Arena::caller || !table[a].life.meets(table[b].life)) continue;
          if (table[a].aliasOf != kNoTensor || table[b].aliasOf != kNoTensor) continue;
          EXPECT_TRUE(table[a].offset + table[a].bytes() <= table[b].offset ||
                      table[b].offset + table[b].bytes() <= table[a].offset)
              << table[a].name << " and " << table[b].name << "\n"
              << table.str();
          EXPECT_EQ(table[a].offset % kTensorAlignment, 0);
        }
    }
}

TEST(Tensors, OneTakesThePlaceOfAnother) {
  const Request p = problem(1000, 24, 1000, ElementType::bf16);
  const Config config = planned(p, 400000);
  ASSERT_GT(config.chunks(p), 1);
  const TensorTable table = tensorsOf(chunked(p), config);
  EXPECT_EQ(table[tensor::xs].aliasOf, tensor::xc) << "multiplied in place";
  int64_t sum = 0;
  for (TensorId id = 0; id < tensor::count; ++id)
    if (table.has(id) && table[id].arena == Arena::workspace && table[id].aliasOf == kNoTensor)
      sum += alignedBytes(table[id].bytes());
  EXPECT_LE(table.workspaceBytes(),
            sum - alignedBytes(std::min(table[tensor::u].bytes(), table[tensor::sums].bytes())))
      << "u comes when the sums are used up";
}

// Row outputs that only the monitored quantities need lie in the workspace where the caller has no memory for
// them.
TEST(Tensors, OutputsThatTheCallerGivesAreNotInTheWorkspace) {
  Request p = problem(1000, 24, 1000);
  p.outputs.entropy = p.outputs.best = p.outputs.monitored = true;
  const Config config = planned(p);
  const int64_t none = tensorsOf(chunked(p), config).workspaceBytes();
  const int64_t vector = alignedBytes(1000 * 4);
  p.given.entropy = true;
  EXPECT_EQ(none - tensorsOf(chunked(p), config).workspaceBytes(), vector);
  p.given.argmax = true;
  EXPECT_EQ(none - tensorsOf(chunked(p), config).workspaceBytes(), 2 * vector);
  p.given.correct = true;
  EXPECT_EQ(none - tensorsOf(chunked(p), config).workspaceBytes(), 3 * vector);
  const TensorTable table = tensorsOf(chunked(p), config);
  for (const TensorId id : {tensor::entropy, tensor::argmax, tensor::correct})
    EXPECT_EQ(table[id].arena, Arena::caller) << table[id].name;
}

// The two passes of `recompute` have the same memory, but for what the first leaves to the second.
TEST(Tensors, PassesShareMemory) {
  const Scheme p = recomputed(problem(1000, 24, 1000, ElementType::bf16));
  const Config config = planned(p, 800000, 2, Variant::recompute);
  ASSERT_GT(config.chunks(p), 1);
  ASSERT_GT(config.slices(p).size(), 1);
  const TensorTable table = tensorsOf(p, config);
  EXPECT_FALSE(table[tensor::xc].life.meets(table[tensor::allX].life));
  for (const TensorId kept : {tensor::shift, tensor::scale, tensor::oneHot}) {
    EXPECT_EQ(table[kept].rows, p.rows);
    EXPECT_TRUE(table[kept].life.meets(table[tensor::allX].life));
  }
}

} // namespace
} // namespace tilewright::lce
