// Tuning linear cross entropy on the CPU, and using what was found.

#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/tuning_cache.h"
#include "kernels/lce/search.h"
#include "kernels/lce_call.h"
#include "kernels/lce_check.h"
#include "kernels/tune_linear_cross_entropy.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/loss_run.h"
#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using test::DataKind;
using test::DeviceTensor;
using test::IgnorePattern;
using test::LossCall;
using test::LossCase;
using ::testing::HasSubstr;

std::unique_ptr<Runtime> runtimeIn(const std::string &dir, AutotuneMode mode, int threads = 2) {
  Environment environment;
  environment.cacheDir = dir;
  environment.autotune = mode;
  return std::make_unique<Runtime>(std::make_unique<CpuDevice>(threads), environment);
}

/// The tensors of a call of a case, all outputs wanted.
struct Call {
  Call(Device &device, const LossCase &data, const LossCall &how)
      : x(DeviceTensor::matrix(device, data.element, data.rows, data.hidden, data.x, how.gap)),
        w(DeviceTensor::matrix(device, data.element, data.classes, data.hidden, data.w, how.gap)),
        label(DeviceTensor::vector(device, how.label, data.rows)),
        loss(
            DeviceTensor::vector(device, ElementType::f32, how.reduction == Reduction::none ? data.rows : 1)),
        dx(DeviceTensor::matrix(device, data.element, data.rows, data.hidden)),
        dw(DeviceTensor::matrix(device, data.element, data.classes, data.hidden)),
        lse(DeviceTensor::vector(device, ElementType::f32, data.rows)) {
    label.setLabels(data.label);
    tensors = {x, w, label, {}, loss, {}, dx, dw};
    if (!how.gradOutput.empty()) {
      gradOutput = DeviceTensor::vector(device, ElementType::f32, how.gradOutput);
      tensors.gradOutput = gradOutput;
    }
    options.reduction = how.reduction;
    options.ignoreIndex = data.ignoreIndex;
  }

  DeviceTensor x, w, label, loss, dx, dw, lse, gradOutput;
  LinearCrossEntropyTensors tensors;
  LinearCrossEntropyOptions options;
};

TunerOptions quick(int limit) {
  TunerOptions options;
  options.limit = limit;
  options.measure.repetitions = 2;
  options.measure.maxWarmUps = 1;
  return options;
}

void expectTunes(const LossCase &data, const LossCall &how, int limit = 12) {
  SCOPED_TRACE(how.str());
  const auto runtime = runtimeIn("", AutotuneMode::off);
  Call call(runtime->device(), data, how);
  const auto outcome = tuneLinearCrossEntropy(*runtime, call.tensors, call.options, quick(limit), nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  for (const auto &failure : outcome->failures)
    ADD_FAILURE() << failure.configuration.str() << ": " << failure.cause;
  EXPECT_EQ(outcome->record.tried, limit);
}

TEST(LceTuning, EveryCandidateIsRight) {
  for (const ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16})
    expectTunes(test::makeCase(DataKind::random, 333, 200, 3000, element), {}, 24);
}

TEST(LceTuning, KnowsEveryKindOfCall) {
  const LossCase data = test::makeCase(DataKind::peaked, 300, 64, 900, ElementType::f32, IgnorePattern::some);
  LossCall call;
  call.label = ElementType::i32;
  call.gap = 16;
  expectTunes(data, call);
  call.reduction = Reduction::sum;
  call.gradOutput = {0.5};
  expectTunes(data, call);
  call.reduction = Reduction::none;
  call.gradOutput.assign(data.rows, -2);
  expectTunes(data, call);
  expectTunes(test::makeCase(DataKind::random, 300, 64, 900, ElementType::f32, IgnorePattern::all), {});
}

TEST(LceTuning, ProductsOfALargeProblemAreTriedInAPartOfIt) {
  LossCall call;
  for (const ElementType label : {ElementType::i32, ElementType::i64}) {
    call.label = label;
    expectTunes(test::makeCase(DataKind::random, 100, 40, 4000, ElementType::f32, IgnorePattern::some), call);
  }
  expectTunes(test::makeCase(DataKind::random, 40, 1700, 300, ElementType::bf16), call);
}

/// A result that is right, and a check that has accepted it.
class LceCheckTest : public ::testing::Test {
protected:
  LceCheckTest() {
    call_.tensors.lse = call_.lse;
    run();
    lce::Request request = *lce::requestFor(call_.tensors, call_.options, runtime_->device().info());
    check_.emplace(*lce::Check::make(*runtime_, nullptr, request, call_.tensors, call_.options));
    const Status accepted = check_->check();
    EXPECT_TRUE(accepted.ok()) << accepted.message();
  }
  void run() {
    const auto report = linearCrossEntropy(*runtime_, call_.tensors, call_.options, nullptr);
    ASSERT_TRUE(report.ok()) << report.status().message();
  }
  /// The check's complaint after one number of an output was changed.
  std::string afterChange(DeviceTensor &output, std::size_t at, double value) {
    run();
    std::vector<double> values = output.get();
    values[at] = value;
    output.set(values);
    return check_->check().message();
  }

  std::unique_ptr<Runtime> runtime_ = runtimeIn("", AutotuneMode::off);
  LossCase data_ = test::makeCase(DataKind::random, 200, 48, 700, ElementType::f32);
  Call call_{runtime_->device(), data_, {}};
  std::optional<lce::Check> check_;
};

TEST_F(LceCheckTest, AcceptsTheSameAgain) {
  run();
  EXPECT_TRUE(check_->check().ok());
}

TEST_F(LceCheckTest, FindsOneWrongNumberAnywhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::size_t row : {0, 101, 199}) {
    EXPECT_THAT(afterChange(call_.dx, row * 48 + 17, 0.1), HasSubstr("dx differs")) << row;
    EXPECT_THAT(afterChange(call_.dx, row * 48 + 17, nan), HasSubstr("dx differs")) << row;
    EXPECT_THAT(afterChange(call_.lse, row, 1), HasSubstr("differs")) << row;
  }
  for (const std::size_t label : {0, 333, 699}) {
    EXPECT_THAT(afterChange(call_.dw, label * 48 + 5, 0.1), HasSubstr("dw differs")) << label;
    EXPECT_THAT(afterChange(call_.dw, label * 48 + 5, nan), HasSubstr("dw differs")) << label;
  }
  EXPECT_THAT(afterChange(call_.loss, 0, 6), HasSubstr("loss differs"));
}

class LceRecordsTest : public ::testing::Test {
protected:
  LossCase data_ = test::makeCase(DataKind::random, 500, 64, 900, ElementType::f32);
  test::TemporaryFolder folder_;

  std::string configurationUsed(AutotuneMode mode, int64_t limit = 0) {
    const auto runtime = runtimeIn(folder_.path(), mode);
    Call call(runtime->device(), data_, {});
    call.options.workspaceLimit = limit;
    const auto report = linearCrossEntropy(*runtime, call.tensors, call.options, nullptr);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? report->configuration : "";
  }

  /// Keeps a record whose only winner is this configuration, changed by `change`, of a search under a limit
  /// (0: none).
  void keepRecord(const std::function<void(Configuration &)> &change, int64_t workspaceLimit = 0) {
    const auto runtime = runtimeIn(folder_.path(), AutotuneMode::off);
    Call call(runtime->device(), data_, {});
    TuningRecord record;
    record.key = *tuningKey(*runtime, call.tensors, call.options);
    Configuration configuration{
        {"variant", "chunked"},           {"chunk_rows", int64_t(192)},   {"forward_rows", int64_t(64)},
        {"forward_columns", int64_t(96)}, {"forward_step", int64_t(128)}, {"dx_rows", int64_t(96)},
        {"dx_columns", int64_t(32)},      {"dx_step", int64_t(512)},      {"dw_rows", int64_t(40)},
        {"dw_columns", int64_t(64)},      {"dw_step", int64_t(64)}};
    change(configuration);
    record.winners = {{configuration, 1, 5, 1000}};
    record.workspaceLimit = workspaceLimit;
    TuningCache::shared(folder_.path())->store(record);
  }
};

const char *const kTuned = "chunk 192, forward 64x96/128, dx 96x32/512, dw 40x64/64";

TEST_F(LceRecordsTest, ARecordIsUsedUnlessSwitchedOff) {
  const std::string planned = configurationUsed(AutotuneMode::read);
  keepRecord([](Configuration &) {});
  EXPECT_EQ(configurationUsed(AutotuneMode::read), kTuned);
  EXPECT_EQ(configurationUsed(AutotuneMode::write), kTuned);
  EXPECT_EQ(configurationUsed(AutotuneMode::off), planned);
}

TEST_F(LceRecordsTest, ARecordThatDoesNotFitTheLimitIsNotUsed) {
  keepRecord([](Configuration &c) { c.set("variant", "whole"); });
  const auto runtime = runtimeIn("", AutotuneMode::off);
  Call call(runtime->device(), data_, {});
  const int64_t limit = 700000; // enough for smaller chunks only
  EXPECT_NE(configurationUsed(AutotuneMode::read, 0), configurationUsed(AutotuneMode::read, limit));
  EXPECT_EQ(configurationUsed(AutotuneMode::read, limit), configurationUsed(AutotuneMode::off, limit));
}

TEST_F(LceRecordsTest, ARecordOfASearchUnderALimitIsForCallsUnderThatLimit) {
  const int64_t limit = 16 << 20;
  keepRecord([](Configuration &) {}, limit);
  EXPECT_EQ(configurationUsed(AutotuneMode::read, limit), kTuned);
  EXPECT_EQ(configurationUsed(AutotuneMode::read, limit - 1), kTuned);
  EXPECT_EQ(configurationUsed(AutotuneMode::read, limit + 1),
            configurationUsed(AutotuneMode::off, limit + 1));
  EXPECT_EQ(configurationUsed(AutotuneMode::read), configurationUsed(AutotuneMode::off));
}

TEST_F(LceRecordsTest, ARecordThatMakesNoSenseIsNotUsed) {
  keepRecord([](Configuration &c) { c.set("forward_rows", int64_t(1) << 40); });
  EXPECT_EQ(configurationUsed(AutotuneMode::read), configurationUsed(AutotuneMode::off));
}

TEST_F(LceRecordsTest, OneConfigurationGivesTheSameBitsOnAnyNumberOfThreads) {
  keepRecord([](Configuration &) {});
  const auto records = TuningCache::shared(folder_.path())->records();
  ASSERT_EQ(records.size(), 1u);
  std::vector<std::vector<uint8_t>> bits;
  for (const int threads : {1, 2, 3}) {
    const auto runtime = runtimeIn(folder_.path(), AutotuneMode::read, threads);
    TuningRecord record = *records[0]; // another number of threads is another device
    record.key.device = runtime->device().info().fingerprint;
    TuningCache::shared(folder_.path())->store(record);
    const test::LossResult result = test::runLinearCrossEntropy(*runtime, data_, {});
    EXPECT_EQ(result.report.configuration, kTuned);
    bits.push_back(result.bits);
  }
  EXPECT_EQ(bits[0], bits[1]);
  EXPECT_EQ(bits[0], bits[2]);
}

TEST_F(LceRecordsTest, WriteTunesAtTheFirstCall) {
  data_ = test::makeCase(DataKind::random, 100, 32, 200, ElementType::f32);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tuning-v3.json"));
  const std::string tuned = configurationUsed(AutotuneMode::write);
  const auto onDisk = TuningCache(folder_.path()).records();
  ASSERT_EQ(onDisk.size(), 1u);
  EXPECT_TRUE(onDisk[0]->complete);
  EXPECT_EQ(configurationUsed(AutotuneMode::read), tuned);
  EXPECT_EQ(configurationUsed(AutotuneMode::write), tuned);
}

TEST_F(LceRecordsTest, WriteLeavesErrorsToTheCall) {
  data_.label[3] = 900;
  const auto runtime = runtimeIn(folder_.path(), AutotuneMode::write);
  Call call(runtime->device(), data_, {});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    const auto report = linearCrossEntropy(*runtime, call.tensors, call.options, nullptr);
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.status().message(), HasSubstr("900"));
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t first = said.find("is not tuned");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("is not tuned", first + 1), std::string::npos) << "tuning is tried once: " << said;
}

} // namespace
} // namespace tilewright
