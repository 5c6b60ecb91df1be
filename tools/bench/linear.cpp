#include <algorithm>

#include <fmt/format.h>

#include "compiler/base/byte_text.h"
#include "kernels/gradient_scaling.h"
#include "kernels/lce/estimate.h"
#include "kernels/lce_call.h"
#include "tools/bench/accuracy.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/products.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr int64_t kSamples = 8;

/// With the logits that a baseline writes.
double bytesNeeded(const ProblemShape &shape, ElementType element, Baseline baseline) {
  const double rows = shape.rows, hidden = shape.hidden, classes = shape.classes;
  const double logits = rows * classes, matrices = (rows + classes) * hidden;
  if (baseline == Baseline::cublas)
    return 2 * matrices * elementBytes(element) + logits * elementBytes(element);
  return linearBytes(shape, element) + (baseline == Baseline::blas ? (logits + matrices) * sizeof(float) : 0);
}

/// What is measured: one call, or a forward and a backward call, as a training framework makes them.
class TrainingCall {
public:
  static StatusOr<TrainingCall> make(Runtime &runtime, LinearCrossEntropyTensors tensors,
                                     const LinearCrossEntropyOptions &options, const LinearBench &what) {
    if (what.lossOnly) tensors.dHidden = tensors.dWeight = {};
    TrainingCall call(runtime, tensors, options, what.apart);
    if (what.apart != ApartBy::gradients) return call;
    for (const TensorRef &gradient : {tensors.dHidden, tensors.dWeight}) {
      TW_ASSIGN_OR_RETURN(GradientScaling scaling, GradientScaling::prepare(runtime, gradient.element));
      call.scalings_.push_back(std::move(scaling));
    }
    const float one = 1;
    TW_ASSIGN_OR_RETURN(call.upstream_, runtime.device().allocate(sizeof one, nullptr));
    TW_RETURN_IF_ERROR(runtime.device().copyToDevice(call.upstream_.data(), &one, sizeof one, nullptr));
    return call;
  }

  const LinearCrossEntropyTensors &tensors() const { return t_; }
  /// The report of the call that makes the gradients.
  StatusOr<LossReport> run() const {
    if (apart_ == ApartBy::lse) return runFromLse();
    TW_ASSIGN_OR_RETURN(LossReport report, linearCrossEntropy(runtime_, t_, options_, nullptr));
    if (apart_ == ApartBy::nothing) return report;
    const TensorRef upstream = TensorRef::vector(upstream_.data(), ElementType::f32, 1);
    TW_RETURN_IF_ERROR(scalings_[0].run(t_.dHidden, upstream, t_.dHidden, nullptr));
    TW_RETURN_IF_ERROR(scalings_[1].run(t_.dWeight, upstream, t_.dWeight, nullptr));
    return report;
  }

private:
  TrainingCall(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
               const LinearCrossEntropyOptions &options, ApartBy apart)
      : runtime_(runtime), t_(tensors), options_(options), apart_(apart) {}

  StatusOr<LossReport> runFromLse() const {
    LinearCrossEntropyTensors forward = t_, backward = t_;
    forward.dHidden = forward.dWeight = {};
    backward.loss = backward.lse = {};
    backward.savedLse = t_.lse;
    TW_RETURN_IF_ERROR(linearCrossEntropy(runtime_, forward, options_, nullptr).status());
    return linearCrossEntropyBackward(runtime_, backward, options_, nullptr);
  }

  Runtime &runtime_;
  LinearCrossEntropyTensors t_;
  LinearCrossEntropyOptions options_;
  ApartBy apart_;
  std::vector<GradientScaling> scalings_;
  Buffer upstream_;
};

/// What the planner expects of its own configuration; nothing where it expects no times.
StatusOr<std::optional<double>> expectedMilliseconds(const DeviceInfo &device,
                                                     const LinearCrossEntropyTensors &tensors,
                                                     const LinearCrossEntropyOptions &options) {
  TW_ASSIGN_OR_RETURN(const lce::CallPlan call, lce::planCall(tensors, options, device));
  const auto &[request, config, scheme] = call;
  std::optional<double> expected;
  if (lce::isEstimated(scheme, config)) expected = 1000 * lce::estimateCall(scheme, config, device).seconds();
  return expected;
}

nlohmann::ordered_json row(const std::string &name, double milliseconds, double flops) {
  return {{"name", name}, {"ms", milliseconds}, {"gflops", flops / milliseconds * 1e-6}};
}

LossErrors errorsOf(const nlohmann::ordered_json &result) {
  const nlohmann::ordered_json &errors = result["errors"];
  return {errors["loss"], errors["dx"], errors["dw"]};
}

void print(const nlohmann::ordered_json &result) {
  fmt::print("linear + cross entropy, {}: N {}, H {}, V {}, {}, {} data\n",
             result["computes"].get<std::string>(), result["rows"].get<int64_t>(),
             result["hidden"].get<int64_t>(), result["classes"].get<int64_t>(),
             result["dtype"].get<std::string>(), result["data"].get<std::string>());
  Table table({"", "ms", "speed", "ratio"});
  const double baseline = result.value("baseline_ms", result["times"][0]["ms"].get<double>());
  for (const auto &time : result["times"])
    table.add({time["name"], fmt::format("{:.4g}", time["ms"].get<double>()),
               speedText(1e9 * time["gflops"].get<double>()),
               fmt::format("{:.3f}", time["ms"].get<double>() / baseline)});
  fmt::print(
      "{}  {} ({}), workspace {}, peak over inputs and gradients {}\n  {}; errors against float64: {}\n",
      table.str(), result["variant"].get<std::string>(), result["configuration"].get<std::string>(),
      byteText(result["workspace_bytes"].get<double>()), byteText(result["peak_bytes"].get<double>()),
      result["method"].get<std::string>(), errorsOf(result).str());
}

} // namespace

double linearBytes(const ProblemShape &shape, ElementType element) {
  const double matrices = (static_cast<double>(shape.rows) + static_cast<double>(shape.classes)) *
                          static_cast<double>(shape.hidden);
  return 2 * matrices * static_cast<double>(elementBytes(element) + sizeof(float));
}

Status checkFits(double bytes, const Device &device) {
  const double available = static_cast<double>(device.info().memoryBytes);
  if (bytes <= available) return {};
  return userError(fmt::format("expected a --shape whose tensors fit {} of memory, found one that takes {}",
                               byteText(available), byteText(bytes)));
}

StatusOr<nlohmann::ordered_json> measureLinear(Runtime &runtime, const ProblemShape &shape,
                                               const NumberType &type, const LinearBench &what) {
  Device &device = runtime.device();
  TW_RETURN_IF_ERROR(checkFits(bytesNeeded(shape, type.element, what.baseline), device));
  const LinearProblem problem =
      what.peaked ? peakedProblem(shape, type.element, 1) : randomProblem(shape, type.element, 1);
  TW_ASSIGN_OR_RETURN(const LinearProblemTensors tensors,
                      uploadProblem(device, problem, what.wideWeightGradient));
  LinearCrossEntropyOptions options;
  options.tf32 = type.tf32;
  options.workspaceLimit = what.workspaceLimit;
  LossReport report;
  TW_ASSIGN_OR_RETURN(const TrainingCall call, TrainingCall::make(runtime, tensors.refs(), options, what));
  const auto run = [&]() -> Status {
    TW_ASSIGN_OR_RETURN(report, call.run());
    return {};
  };

  TW_ASSIGN_OR_RETURN(const std::optional<double> expected,
                      expectedMilliseconds(device.info(), call.tensors(), options));
  TW_RETURN_IF_ERROR(run());
  TW_ASSIGN_OR_RETURN(const SampledOutputs outputs, downloadSamples(device, call.tensors(), kSamples));
  TW_ASSIGN_OR_RETURN(const LossErrors errors, sampledErrors(problem, outputs));
  TW_RETURN_IF_ERROR(checkErrors(errors, type, shape.hidden));
  TW_ASSIGN_OR_RETURN(const int64_t peak, device.peakBytes(nullptr, run));

  std::vector<BenchmarkCase> cases = {{"tilewright", run}};
  std::vector<std::unique_ptr<Products>> products;
  if (what.baseline != Baseline::none) {
    TW_ASSIGN_OR_RETURN(products,
                        Products::make(what.baseline, type.tf32, what.lossOnly, device, problem, tensors));
    for (const auto &way : products)
      cases.push_back({way->description(), [&way] { return way->run(); }});
  }
  TW_ASSIGN_OR_RETURN(const BenchmarkResult times, benchmark(device, cases, what.seconds));

  const double flops = (what.lossOnly ? 2.0 : 6.0) * static_cast<double>(shape.rows) *
                       static_cast<double>(shape.hidden) * static_cast<double>(shape.classes);
  nlohmann::ordered_json result = {
      {"loss", "linear_cross_entropy"},
      {"device", device.info().name},
      {"rows", shape.rows},
      {"hidden", shape.hidden},
      {"classes", shape.classes},
      {"dtype", type.name()},
      {"computes", what.lossOnly                      ? "loss alone"
                   : what.apart == ApartBy::gradients ? "loss, dX, dW; backward multiplies them"
                   : what.apart == ApartBy::lse       ? "loss; dX, dW from lse"
                   : what.wideWeightGradient          ? "loss, dX, dW in f32"
                                                      : "loss, dX, dW"},
      {"data", what.peaked ? "peaked" : "random"},
      {"variant", variantName(report.variant)},
      {"configuration", report.configuration},
      {"workspace_bytes", report.workspaceBytes},
      {"peak_bytes", peak},
      {"method", times.method()},
      {"errors", {{"loss", errors.loss}, {"dx", errors.dHidden}, {"dw", errors.dWeight}}},
  };
  if (expected) result["expected_ms"] = *expected;
  for (std::size_t i = 0; i < cases.size(); ++i)
    result["times"].push_back(row(cases[i].name, times.median[i], flops));
  if (!products.empty()) {
    const double fastest = *std::min_element(times.median.begin() + 1, times.median.end());
    result["baseline_ms"] = fastest;
    result["ratio"] = times.median[0] / fastest;
  }
  return result;
}

StatusOr<nlohmann::ordered_json> benchLinear(Runtime &runtime, const ProblemShape &shape,
                                             const NumberType &type, const LinearBench &what) {
  TW_ASSIGN_OR_RETURN(nlohmann::ordered_json result, measureLinear(runtime, shape, type, what));
  print(result);
  return result;
}

} // namespace tilewright
