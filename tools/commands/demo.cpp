#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "kernels/reference.h"
#include "runtime/runtime.h"
#include "tools/bench/accuracy.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/plot.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/tiny_model/training.h"

namespace tilewright {
namespace {

constexpr ProblemShape kMainShape = {200, 160, 6000};
constexpr ElementType kMainTypes[] = {ElementType::f32, ElementType::bf16};
constexpr int kTrainingSteps = 400;
constexpr double kTrainingSeconds = 25;

/// One call of the main job: what it took and what it gave.
struct MainJob {
  double milliseconds = 0;
  int64_t compiled = 0, fromDisk = 0; ///< kernels
  LossReport report;
  LinearOutputs outputs;
};

StatusOr<MainJob> runMainJob(Runtime &runtime, const LinearProblemTensors &tensors) {
  MainJob job;
  const RuntimeCounters before = runtime.counters();
  TW_ASSIGN_OR_RETURN(job.milliseconds, wallMilliseconds([&]() -> Status {
                        TW_ASSIGN_OR_RETURN(job.report,
                                            linearCrossEntropy(runtime, tensors.refs(), {}, nullptr));
                        return {};
                      }));
  job.compiled = runtime.counters().compiled - before.compiled;
  job.fromDisk = runtime.counters().diskHits - before.diskHits;
  TW_ASSIGN_OR_RETURN(job.outputs, downloadOutputs(runtime.device(), tensors));
  return job;
}

LossErrors errorsOf(const LinearProblem &problem, const LinearOutputs &outputs) {
  const auto [rows, hidden, classes] = problem.shape;
  const ReferenceResult reference = referenceLinearCrossEntropy(
      problem.hidden.data(), problem.weight.data(), problem.labels.data(), rows, hidden, classes, {});
  LossErrors errors;
  for (int64_t i = 0; i < rows; ++i)
    errors.addLoss(outputs.lse[i], reference.lse[i], reference.logitSize);
  errors.dHidden = relativeError(outputs.dHidden.data(), reference.dHidden.data(), outputs.dHidden.size());
  errors.dWeight = relativeError(outputs.dWeight.data(), reference.dWeight.data(), outputs.dWeight.size());
  return errors;
}

Status showMainJob(Runtime &runtime) {
  fmt::print("1. Linear + cross entropy, forward and backward, without the logits in memory\n"
             "   N {} rows, H {}, V {} classes; errors are relative to float64\n\n",
             kMainShape.rows, kMainShape.hidden, kMainShape.classes);
  Table table({"", "variant", "first call", "kernels", "again", "error of loss", "dX", "dW"});
  for (ElementType element : kMainTypes) {
    const LinearProblem problem = randomProblem(kMainShape, element, 3);
    TW_ASSIGN_OR_RETURN(const LinearProblemTensors tensors, uploadProblem(runtime.device(), problem));
    TW_ASSIGN_OR_RETURN(const MainJob first, runMainJob(runtime, tensors));
    TW_ASSIGN_OR_RETURN(const MainJob again, runMainJob(runtime, tensors));
    const LossErrors errors = errorsOf(problem, again.outputs);
    TW_RETURN_IF_ERROR(checkErrors(errors, {element}));
    table.add({elementName(element), variantName(first.report.variant),
               fmt::format("{:.0f} ms", first.milliseconds),
               first.compiled ? fmt::format("{} compiled", first.compiled)
                              : fmt::format("{} from disk", first.fromDisk),
               fmt::format("{:.1f} ms", again.milliseconds), fmt::format("{:.1e}", errors.loss),
               fmt::format("{:.1e}", errors.dHidden), fmt::format("{:.1e}", errors.dWeight)});
  }
  fmt::print("{}\n", table.str("   "));
  return {};
}

/// Means of every `count` neighbours, so that the plot shows the trend more than the noise.
std::vector<double> smoothed(const std::vector<double> &values, std::size_t count) {
  std::vector<double> means;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i < count ? 0 : i - count + 1;
    double sum = 0;
    for (std::size_t j = begin; j <= i; ++j)
      sum += values[j];
    means.push_back(sum / static_cast<double>(i - begin + 1));
  }
  return means;
}

Status showTraining(Runtime &runtime) {
  fmt::print("2. A small next-token model learns this repository's text\n");
  std::fflush(stdout);
  TW_ASSIGN_OR_RETURN(const Training training, trainOnRepository(runtime, kTrainingSteps, kTrainingSeconds));
  const ModelSizes &sizes = training.sizes;
  fmt::print("   {:.0f} kB from {}\n"
             "   as {} tokens out of {}; {} parameters, which see {} tokens and guess the next\n\n",
             static_cast<double>(training.textBytes) / 1000, training.origin, training.tokens,
             sizes.vocabulary, sizes.parameters(), sizes.context);
  const std::vector<double> trend = smoothed(training.losses, 8);
  fmt::print("{}\n", plot(trend, {}, localeIsUtf8()));
  const double steps = static_cast<double>(training.losses.size());
  fmt::print("   loss {:.2f} -> {:.2f} in {} steps of {} rows and {:.1f} s; {:.1f} ms a step, of which "
             "{:.1f} in the "
             "loss and its gradients\n",
             training.losses.front(), trend.back(), training.losses.size(), sizes.batch, training.seconds,
             1000 * training.seconds / steps, training.lossMilliseconds / steps);
  std::string sample = training.sample;
  for (std::size_t at; (at = sample.find('\n')) != std::string::npos;)
    sample.replace(at, 1, " ");
  fmt::print("   it writes: {}\n\n", printable(sample));
  if (trend.back() < 0.75 * training.losses.front()) return {};
  return internalError(fmt::format("expected the loss to fall below three quarters of {:.2f}, found {:.2f}",
                                   training.losses.front(), trend.back()));
}

/// Why a second process cannot find this one's kernels; empty when it can.
std::string whyNothingIsKept() {
  const StatusOr<Environment> environment = readEnvironment();
  if (!environment.ok() || environment->cacheDir.empty()) return "there is no cache folder";
  if (!environment->dump.empty()) return "TILEWRIGHT_DUMP has every kernel compiled anew";
  const StatusOr<std::unique_ptr<ArtifactCache>> cache = ArtifactCache::open(environment->cacheDir);
  return cache.ok() ? "" : cache.status().message();
}

Status runSelf(const char *option) {
  std::fflush(stdout);
  const char *words[] = {"tilewright", "demo", option, nullptr};
  pid_t process = 0;
  const int error =
      posix_spawn(&process, "/proc/self/exe", nullptr, nullptr, const_cast<char **>(words), environ);
  if (error) return runtimeError(std::string("a second process cannot be started: ") + std::strerror(error));
  int state = 0;
  while (waitpid(process, &state, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return {};
  return internalError("expected the second process to succeed, found that it failed (see above)");
}

Status showSecondProcess() {
  fmt::print("3. A second process compiles nothing\n");
  const std::string reason = whyNothingIsKept();
  if (reason.empty()) return runSelf("--again");
  fmt::print("   skipped: {}\n", printable(reason));
  return {};
}

/// What the second process does: the main job with the kernels that the first one left on disk.
Status again() {
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::open());
  double milliseconds = 0;
  for (ElementType element : kMainTypes) {
    const LinearProblem problem = randomProblem(kMainShape, element, 3);
    TW_ASSIGN_OR_RETURN(const LinearProblemTensors tensors, uploadProblem(runtime->device(), problem));
    TW_ASSIGN_OR_RETURN(const MainJob job, runMainJob(*runtime, tensors));
    milliseconds += job.milliseconds;
  }
  const RuntimeCounters counters = runtime->counters();
  fmt::print("   compiled={} from_disk={} ({:.1f} ms); both first calls together {:.0f} ms\n",
             counters.compiled, counters.diskHits, counters.diskMilliseconds, milliseconds);
  if (counters.compiled == 0) return {};
  return runtimeError(
      fmt::format("expected every kernel from disk, found {} compiled anew", counters.compiled));
}

Status demo(const Arguments &arguments) {
  if (arguments.has("--again")) return again();
  const auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::open());
  fmt::print("Tilewright on {}\n\n", runtime->device().info().name);
  TW_RETURN_IF_ERROR(showMainJob(*runtime));
  TW_RETURN_IF_ERROR(showTraining(*runtime));
  TW_RETURN_IF_ERROR(showSecondProcess());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("\nEvery check passed, in {:.1f} s.\n", seconds.count());
  return {};
}

} // namespace

Command demoCommand() {
  Command command;
  command.name = "demo";
  command.summary = "compiles, runs and checks the main job, then trains a tiny model; a minute at most";
  command.usage = "";
  command.options = {{"--again", "", "only the main job, and fail if any kernel has to be compiled",
                      OptionSpec::Kind::flag}};
  command.run = demo;
  return command;
}

} // namespace tilewright
