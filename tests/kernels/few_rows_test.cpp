// Calls of few rows on a GPU, where a launch takes as long as what it does: which kernels they take.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/lce/estimate.h"
#include "kernels/lce/plan.h"
#include "kernels/lce/program.h"
#include "kernels/lce/tensors.h"
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

lce::Config configOf(const lce::Request &request, int64_t limit = 0, Variant variant = Variant::automatic) {
  auto config = lce::plan(request, variant, limit, h200());
  EXPECT_TRUE(config.ok()) << config.status().message();
  return *std::move(config);
}

Program programOf(const lce::Request &request, int64_t limit = 0, Variant variant = Variant::automatic) {
  const lce::Config config = configOf(request, limit, variant);
  auto program = lce::programFor(lce::schemeFor(request, config.variant), config, {}, TargetKind::nvptx);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return std::move(*program);
}

/// A kernel's name; "fill" where bytes are set.
std::string nameOf(const Program &program, const Step &step) {
  return step.kernel < 0 ? "fill" : program.kernels()[step.kernel].kernel.name;
}

/// In the order of their launches.
std::vector<std::string> stepsOf(const lce::Request &request, int64_t limit = 0) {
  const Program program = programOf(request, limit);
  std::vector<std::string> names;
  for (const Step &step : program.steps())
    names.push_back(nameOf(program, step));
  return names;
}

TEST(FewRows, TakeEightLaunches) {
  EXPECT_THAT(stepsOf(training(256, 1024, 32768)),
              ElementsAre("lce_gather_rows", "lce_forward", "lce_forward", "lce_combine", "lce_dx_parts",
                          "lce_one_hot_sum", "lce_dw", "lce_dx_total"));
}

lce::Request ofF16(lce::Request request) {
  request.element = ElementType::f16, request.dHidden = request.dWeight = ElementType::f16;
  return request;
}

// Shifts come of a sample of the classes, rows whose blocks differ are rescaled, and dW has a unit of its
// own.
TEST(FewRows, OfF16TakeTenLaunches) {
  EXPECT_THAT(stepsOf(ofF16(training(256, 1024, 32768))),
              ElementsAre("lce_gather_rows", "lce_sample_classes", "lce_sample_tops", "lce_forward",
                          "lce_combine", "lce_rescale", "lce_dx_parts", "lce_one_hot_sum", "lce_dw",
                          "lce_dx_total"));
}

// Blocks of many rows are joined by a kernel that has several rows a program, and no program asks for the
// scales of all rows but one.
TEST(ManyRows, OfF16AreJoinedAndHaveTheirGainApart) {
  EXPECT_THAT(stepsOf(ofF16(training(4096, 1024, 32768))),
              AllOf(Contains("lce_join_sums"), Contains("lce_rows_gain"), Not(Contains("lce_scale_rows"))));
}

// Of so few rows as 256, blocks whose sums are out of range need no other product.
TEST(FewRows, OfALossAloneTakeFourOrFive) {
  lce::Request request = training(256, 1024, 32768);
  request.dHidden = request.dWeight = {};
  EXPECT_THAT(stepsOf(request),
              ElementsAre("lce_gather_rows", "lce_forward", "lce_combine", "loss_reduce_loss"));
  for (const auto &[rows, hasSoftcap] : {std::pair{257, false}, {256, true}}) {
    request.rows = rows, request.terms.softcap = hasSoftcap;
    EXPECT_THAT(stepsOf(request), ElementsAre("lce_gather_rows", "lce_forward", "lce_forward", "lce_combine",
                                              "loss_reduce_loss"));
  }
}

// Beside the product, whose time is not in this.
TEST(FewRows, OfALossAloneAreExpectedToTakeTheTimeOfTheirLaunches) {
  for (const int64_t rows : {256, 257}) {
    lce::Request request = training(rows, 1024, 32768);
    request.dHidden = request.dWeight = {};
    const lce::Config config = configOf(request);
    const double others = estimateCall(lce::schemeFor(request, config.variant), config, h200()).othersSeconds;
    const double launches = others / lce::speedOf(h200()).launch,
                 more = launches - (stepsOf(request).size() - 1.0);
    EXPECT_GE(more, 0) << launches;
    EXPECT_LT(more, 0.5) << launches << ": what they move is small";
  }
}

// Whose first products have an order of tiles that suits their rows.
TEST(FewRows, AreRepairedByTheKernelOfOthers) {
  for (const bool gradients : {true, false}) {
    std::set<std::string> first, repairs;
    for (const int64_t rows : {129, 1000, 2000}) {
      lce::Request request = training(rows, 1024, 128256);
      if (!gradients) request.dHidden = request.dWeight = {};
      const Program program = programOf(request);
      for (const auto &[kernel, options] : program.kernels()) {
        if (kernel.name != "lce_forward") continue;
        std::set<std::string> &kernels =
            kernel.specialisation.find("shifts of blocks") != std::string::npos ? repairs : first;
        kernels.insert(kernel.specialisation + options.str());
      }
    }
    EXPECT_GT(first.size(), 1u);
    EXPECT_EQ(repairs.size(), 1u);
  }
}

// Each program of a few rows reads all labels.
TEST(FewRows, AreNumberedAsTheyAreGatheredUpTo1024) {
  EXPECT_EQ(stepsOf(training(1024, 2048, 50304)).front(), "lce_gather_rows");
  EXPECT_EQ(stepsOf(training(1025, 2048, 50304)).front(), "loss_compact_rows");
}

// What is made of class weights beforehand asks for numbered rows.
TEST(FewRows, WithClassWeightsAreNumberedFirst) {
  lce::Request request = training(256, 1024, 32768);
  request.terms.classWeight = true;
  EXPECT_EQ(stepsOf(request).front(), "loss_compact_rows");
}

TEST(FewRows, WithoutAReductionReduceNothing) {
  lce::Request request = training(256, 1024, 32768);
  request.reduction = Reduction::none;
  EXPECT_THAT(stepsOf(request), AllOf(Contains("lce_one_hot_sum"), Not(Contains("loss_reduce_loss"))));
}

// As many as are sorted by comparing all pairs.
TEST(FewRows, AreUpTo2048) {
  EXPECT_EQ(stepsOf(training(2048, 2048, 50304)).size(), 8u) << "and dX has no parts";
  EXPECT_THAT(stepsOf(training(2049, 2048, 50304)), Contains("lce_retry_range"));
}

// Whose kernels would take longer if each did more, or who retry few of their rows.
TEST(FewRows, ManyRowsTakeMoreLaunches) {
  EXPECT_THAT(stepsOf(training(4096, 1024, 32768)),
              AllOf(Contains("lce_retry_range"), Contains("fill"), Contains("lce_merge_blocks"),
                    Contains("loss_reduce_loss")));
}

/// What a program's kernel of this name is specialised for.
std::string specialisationOf(const Program &program, const std::string &name) {
  for (const auto &[kernel, options] : program.kernels())
    if (kernel.name == name) return kernel.specialisation;
  return "";
}

// The losses, which all products of the gradients wait for, do not.
TEST(Rows, OfXAreScaledBesideTheOneHotSums) {
  for (const lce::Request &request :
       {training(256, 1024, 32768), training(8192, 4096, 32000), ofF16(training(256, 1024, 32768)),
        ofF16(training(8192, 4096, 32000))}) {
    const Program program = programOf(request);
    EXPECT_THAT(specialisationOf(program, "lce_one_hot_sum"), HasSubstr(",scales rows")) << request.str();
    EXPECT_THAT(specialisationOf(program, "lce_combine"), HasSubstr(",no xs")) << request.str();
  }
}

// Which transposes the scaled rows before.
TEST(Rows, OfTf32AreScaledWithTheLosses) {
  lce::Request request = training(1024, 2048, 8192);
  request.element = ElementType::f32, request.dHidden = request.dWeight = ElementType::f32;
  request.tf32 = true, request.flushSmallProbabilities = false;
  const Program program = programOf(request);
  EXPECT_THAT(specialisationOf(program, "lce_one_hot_sum"), Not(HasSubstr(",scales rows")));
  EXPECT_THAT(specialisationOf(program, "lce_combine"), HasSubstr(",xs in place"));
}

/// Launches that run beside the one before them.
std::vector<std::string> besideOthers(const Program &program) {
  std::vector<std::string> beside;
  const std::vector<Step> &steps = program.steps();
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].kernel >= 0 && program.kernels()[steps[i].kernel].options.schedule.runsBeside)
      beside.push_back(nameOf(program, steps[i]) + " beside " + nameOf(program, steps[i - 1]));
  return beside;
}

// dX's last round leaves multiprocessors idle.
TEST(ManyRows, SumsOfLabelSegmentsRunBesideWholeTilesOfDx) {
  for (const lce::Request &request :
       {training(2048, 2048, 50304), training(8192, 4096, 32000), training(65536, 576, 49152)}) {
    const Program program = programOf(request);
    EXPECT_THAT(besideOthers(program), ElementsAre("lce_one_hot_sum beside lce_dx")) << request.str();
    EXPECT_LE(program.table()[lce::tensor::u].life.first, lce::phase::hidden) << "dX has other memory";
  }
}

TEST(Parts, OfAllRowsAreAddedUpBesideDw) {
  for (const lce::Request &request : {training(256, 1024, 32768), training(256, 2048, 128256),
                                      training(1000, 4096, 128256), training(4096, 1024, 250880)}) {
    const Program program = programOf(request);
    EXPECT_THAT(besideOthers(program),
                ElementsAre("lce_one_hot_sum beside lce_dx_parts", "lce_dx_total beside lce_dw"))
        << request.str();
    const Lifetime parts = program.table()[lce::tensor::products].life;
    EXPECT_LE(parts.first, lce::phase::hidden) << "dW has other memory";
    EXPECT_GE(parts.last, lce::phase::weight);
  }
}

// Which parts find in memory that dW has done with, behind it.
TEST(Parts, OfAllRowsComeBehindDwWhereALimitLeavesThemLittle) {
  const lce::Request request = training(1000, 4096, 128256);
  const lce::Config config = configOf(request);
  const int64_t free = lce::workspaceBytes(lce::schemeFor(request, config.variant), config);
  const Program program = programOf(request, free - (1 << 20));
  EXPECT_THAT(besideOthers(program), ElementsAre()) << program.str();
  EXPECT_GE(program.table()[lce::tensor::products].life.first, lce::phase::hiddenParts);
}

// Each step of a sort reads what the one before wrote, and the last one writes what it does not read.
TEST(ManyRows, AreMergedFromOnePairOfTensorsToTheOther) {
  const Program program = programOf(training(40000, 64, 1024), 0, Variant::whole);
  EXPECT_THAT(program.str(), AllOf(HasSubstr("lce_sort_blocks(compactLabel, run, order)"),
                                   HasSubstr("lce_merge_blocks(run, order, blockLabels, blockRows)"),
                                   HasSubstr("lce_merge_blocks(blockLabels, blockRows, order, run, slot)")));
}

// Else the tuner would time it with what other steps left in its shifts' memory.
TEST(ProductsAlone, FindWhatAWholeCallMakesAheadOfTheLogits) {
  for (const ElementType element : {ElementType::bf16, ElementType::f16, ElementType::f32})
    for (const int64_t rows : {256, 40000}) {
      lce::Request request = training(rows, 64, 1024);
      request.element = element;
      request.dHidden = request.dWeight = element;
      const Program program = programOf(request);
      for (const Step &step : program.steps()) {
        if (step.tag == lce::tagOf(lce::ProductKind::forward)) break;
        EXPECT_EQ(step.tag, lce::kPreparesProducts)
            << nameOf(program, step) << " of " << elementName(element);
      }
    }
}

TEST(FewRows, OfEachChunkTakeAsFew) {
  const std::vector<std::string> steps = stepsOf(training(4096, 64, 32768), int64_t(48) << 20);
  EXPECT_EQ(std::count(steps.begin(), steps.end(), "lce_retry_range"), 0);
  EXPECT_THAT(steps, AllOf(Not(Contains("lce_rank_labels")), Not(Contains("lce_sort_blocks"))));
  EXPECT_THAT(steps, Contains("loss_reduce_loss"));
}

} // namespace
} // namespace tilewright::test
