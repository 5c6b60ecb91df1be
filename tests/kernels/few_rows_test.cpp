// Calls of few rows on a GPU, where a launch takes as long as what it does: which kernels they take.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/lce/plan.h"
#include "kernels/lce/program.h"
#include "tests/support/fake_device.h"

namespace tilewright::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

lce::Request training(int64_t rows, int64_t hidden, int64_t classes) {
  lce::Request request;
  request.rows = rows, request.hidden = hidden, request.classes = classes;
  request.element = ElementType::bf16;
  request.dHidden = request.dWeight = ElementType::bf16;
  request.aligned = request.tensorCores = request.flushSmallProbabilities = true;
  return request;
}

/// Of the kernels, in the order of their launches; "fill" where bytes are set.
std::vector<std::string> stepsOf(const lce::Request &request, int64_t limit = 0) {
  const auto config = lce::plan(request, Variant::automatic, limit, h200());
  EXPECT_TRUE(config.ok()) << config.status().message();
  const auto program =
      lce::programFor(lce::schemeFor(request, config->variant), *config, {}, TargetKind::nvptx);
  EXPECT_TRUE(program.ok()) << program.status().message();
  std::vector<std::string> names;
  for (const Step &step : program->steps())
    names.push_back(step.kernel < 0 ? "fill" : program->kernels()[step.kernel].kernel.name);
  return names;
}

TEST(FewRows, TakeTenLaunches) {
  EXPECT_THAT(stepsOf(training(256, 1024, 32768)),
              ElementsAre("loss_compact_rows", "lce_gather_rows", "lce_forward", "lce_check_shifts",
                          "lce_forward", "lce_combine", "lce_one_hot_sum", "lce_dw", "lce_dx_parts",
                          "lce_dx_total"));
}

TEST(FewRows, OfALossAloneTakeEight) {
  lce::Request request = training(256, 1024, 32768);
  request.dHidden = request.dWeight = {};
  EXPECT_THAT(stepsOf(request),
              ElementsAre("loss_compact_rows", "lce_gather_rows", "lce_forward", "lce_total_sums",
                          "lce_forward", "lce_join_sums", "lce_combine", "loss_reduce_loss"));
}

TEST(FewRows, WithoutAReductionReduceNothing) {
  lce::Request request = training(256, 1024, 32768);
  request.reduction = Reduction::none;
  EXPECT_THAT(stepsOf(request), AllOf(Contains("lce_one_hot_sum"), Not(Contains("loss_reduce_loss"))));
}

// Whose kernels would take longer if each did more, or who retry few of their rows.
TEST(FewRows, ManyRowsTakeMoreLaunches) {
  EXPECT_THAT(stepsOf(training(4096, 1024, 32768)),
              AllOf(Contains("lce_retry_range"), Contains("fill"), Contains("lce_merge_blocks"),
                    Contains("loss_reduce_loss")));
}

// Each step of a sort reads what the one before wrote, and the last one writes what it does not read.
TEST(ManyRows, AreMergedFromOnePairOfTensorsToTheOther) {
  const lce::Request request = training(40000, 64, 1024);
  const auto config = lce::plan(request, Variant::whole, 0, h200());
  const auto program =
      lce::programFor(lce::schemeFor(request, config->variant), *config, {}, TargetKind::nvptx);
  EXPECT_THAT(program->str(), AllOf(HasSubstr("lce_sort_blocks(compactLabel, run, order)"),
                                    HasSubstr("lce_merge_blocks(run, order, blockLabels, blockRows)"),
                                    HasSubstr("lce_merge_blocks(blockLabels, blockRows, order, run, slot)")));
}

TEST(FewRows, OfEachChunkTakeAsFew) {
  const std::vector<std::string> steps = stepsOf(training(4096, 64, 32768), int64_t(48) << 20);
  EXPECT_EQ(std::count(steps.begin(), steps.end(), "lce_retry_range"), 0);
  EXPECT_THAT(steps, AllOf(Not(Contains("lce_rank_labels")), Not(Contains("lce_sort_blocks"))));
  EXPECT_THAT(steps, Contains("loss_reduce_loss"));
}

} // namespace
} // namespace tilewright::test
