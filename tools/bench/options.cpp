#include <fmt/format.h>

#include <functional>

#include "compiler/base/byte_text.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr double kSeconds = 60; // of measuring one shape

/// What options need beside the plain loss's tensors.
struct OptionTensors {
  OwnedTensor bias, dBias, classWeight, gradLse, gradEntropy;
  OwnedTensor entropy, argmax, correct, monitored;
  OwnedTensor halfIgnored; ///< labels
};

StatusOr<OptionTensors> uploadOptions(Device &device, const LinearProblem &problem) {
  const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  const auto [rows, hidden, classes] = problem.shape;
  OptionTensors t;
  const auto numbers = [&](int64_t count, double deviation, uint64_t seed) {
    return uploadFloats(device, f32, {count}, randomNumbers(count, deviation, seed));
  };
  TW_ASSIGN_OR_RETURN(t.bias, numbers(classes, 0.1, 4));
  TW_ASSIGN_OR_RETURN(t.gradLse, numbers(rows, 0.1 / static_cast<double>(rows), 5));
  TW_ASSIGN_OR_RETURN(t.gradEntropy, numbers(rows, 0.1 / static_cast<double>(rows), 6));
  std::vector<float> weights = randomNumbers(classes, 0.1, 7);
  for (float &weight : weights)
    weight += 1;
  TW_ASSIGN_OR_RETURN(t.classWeight, uploadFloats(device, f32, {classes}, weights));
  TW_ASSIGN_OR_RETURN(t.dBias, allocateTensor(device, f32, {classes}));
  TW_ASSIGN_OR_RETURN(t.entropy, allocateTensor(device, f32, {rows}));
  TW_ASSIGN_OR_RETURN(t.argmax, allocateTensor(device, i32, {rows}));
  TW_ASSIGN_OR_RETURN(t.correct, allocateTensor(device, i32, {rows}));
  TW_ASSIGN_OR_RETURN(t.monitored, allocateTensor(device, f32, {kMonitoredQuantities}));
  std::vector<int64_t> labels = problem.labels;
  for (int64_t i = 0; i < rows; i += 2)
    labels[i] = kDefaultIgnoreIndex;
  TW_ASSIGN_OR_RETURN(t.halfIgnored, uploadBytes(device, ElementType::i64, {rows}, labels.data()));
  return t;
}

/// The plain call stands among the others at the beginning, in the middle and at the end: a GPU's clock
/// drifts by more than what most options cost.
constexpr const char *kPlain = "plain";

/// The plain call, and how it differs.
struct Variation {
  std::string name;
  std::function<void(LinearCrossEntropyTensors &, LinearCrossEntropyOptions &)> apply;
};

std::vector<Variation> variations(const OptionTensors &own) {
  using T = LinearCrossEntropyTensors;
  using O = LinearCrossEntropyOptions;
  const Variation plain = {kPlain, [](T &, O &) {}};
  return {
      plain,
      {"bias and its gradient", [&](T &t, O &) { t.bias = own.bias.ref, t.dBias = own.dBias.ref; }},
      {"label smoothing", [](T &, O &o) { o.labelSmoothing = 0.1f; }},
      {"class weights", [&](T &t, O &) { t.classWeight = own.classWeight.ref; }},
      {"z-loss", [](T &, O &o) { o.zLoss = 1e-4f; }},
      {"logit scale", [](T &, O &o) { o.logitScale = 0.5f; }},
      {"softcap", [](T &, O &o) { o.softcap = 30; }},
      {"objective prob", [](T &, O &o) { o.objective = Objective::prob; }},
      {"LMCL",
       [](T &, O &o) {
         o.lmcl = Margin{0.35f, 30};
       }},
      plain,
      {"monitored and per row",
       [&](T &t, O &) {
         t.entropy = own.entropy.ref, t.argmax = own.argmax.ref;
         t.correct = own.correct.ref, t.monitored = own.monitored.ref;
       }},
      {"gradient of lse", [&](T &t, O &) { t.gradLse = own.gradLse.ref; }},
      {"gradient of entropy", [&](T &t, O &) { t.gradEntropy = own.gradEntropy.ref; }},
      {"label smoothing, softcap", [](T &, O &o) { o.labelSmoothing = 0.1f, o.softcap = 30; }},
      {"dW added to its buffer", [](T &, O &o) { o.accumulate = true; }},
      {"dX alone", [](T &t, O &) { t.dWeight = {}; }},
      {"dW alone", [](T &t, O &) { t.dHidden = {}; }},
      {"no gradient", [](T &t, O &) { t.dHidden = t.dWeight = {}; }},
      {"half of the rows ignored", [&](T &t, O &) { t.label = own.halfIgnored.ref; }},
      plain,
  };
}

double plainMilliseconds(const std::vector<Variation> &all, const BenchmarkResult &times) {
  std::vector<double> plain;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].name == kPlain) plain.push_back(times.median[i]);
  return medianOf(plain);
}

void print(const nlohmann::ordered_json &result) {
  fmt::print("linear + cross entropy, forward and backward, option by option: N {}, H {}, V {}, {}\n",
             result["rows"].get<int64_t>(), result["hidden"].get<int64_t>(), result["classes"].get<int64_t>(),
             result["dtype"].get<std::string>());
  Table table({"", "ms", "of plain", "workspace"});
  for (const auto &row : result["options"])
    table.add({row["name"], fmt::format("{:.1f}", row["ms"].get<double>()),
               fmt::format("{:.3f}", row["ratio"].get<double>()),
               byteText(row["workspace_bytes"].get<double>())});
  fmt::print("{}  {}\n", table.str(), result["method"].get<std::string>());
}

} // namespace

StatusOr<nlohmann::ordered_json> benchOptions(Runtime &runtime, const ProblemShape &shape,
                                              const NumberType &type) {
  Device &device = runtime.device();
  TW_RETURN_IF_ERROR(checkFits(linearBytes(shape, type.element), device));
  const LinearProblem problem = randomProblem(shape, type.element, 1);
  TW_ASSIGN_OR_RETURN(const LinearProblemTensors tensors, uploadProblem(device, problem));
  TW_ASSIGN_OR_RETURN(const OptionTensors own, uploadOptions(device, problem));

  const std::vector<Variation> all = variations(own);
  std::vector<BenchmarkCase> cases;
  std::vector<LossReport> reports(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    LinearCrossEntropyTensors t = tensors.refs();
    LinearCrossEntropyOptions o;
    o.tf32 = type.tf32;
    all[i].apply(t, o);
    cases.push_back({all[i].name, [&runtime, &report = reports[i], t, o]() -> Status {
                       TW_ASSIGN_OR_RETURN(report, linearCrossEntropy(runtime, t, o, nullptr));
                       return {};
                     }});
  }
  TW_ASSIGN_OR_RETURN(const BenchmarkResult times, benchmark(device, cases, kSeconds));

  const double plain = plainMilliseconds(all, times);
  nlohmann::ordered_json result = {
      {"loss", "linear_cross_entropy"}, {"device", device.info().name}, {"rows", shape.rows},
      {"hidden", shape.hidden},         {"classes", shape.classes},     {"dtype", type.name()},
      {"method", times.method()},
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    result["options"].push_back({{"name", all[i].name},
                                 {"ms", times.median[i]},
                                 {"ratio", times.median[i] / plain},
                                 {"variant", variantName(reports[i].variant)},
                                 {"configuration", reports[i].configuration},
                                 {"workspace_bytes", reports[i].workspaceBytes}});
  print(result);
  return result;
}

} // namespace tilewright
