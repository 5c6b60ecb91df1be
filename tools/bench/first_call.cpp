#include "tools/bench/first_call.h"

#include <fmt/format.h>

#include "runtime/open_runtime.h"
#include "tools/bench/accuracy.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr int kLaterCalls = 20;
constexpr int64_t kSamples = 8;

/// One call; the device has no other work.
StatusOr<CallTime> timeOf(Device &device, const std::function<Status()> &call) {
  CallTime time;
  TW_ASSIGN_OR_RETURN(time.done, wallMilliseconds([&]() -> Status {
                        TW_ASSIGN_OR_RETURN(time.returned, wallMilliseconds(call));
                        return device.synchronize(nullptr);
                      }));
  return time;
}

StatusOr<CallTime> timeOfLater(Device &device, const std::function<Status()> &call) {
  std::vector<double> returned, done;
  for (int i = 0; i < kLaterCalls; ++i) {
    TW_ASSIGN_OR_RETURN(const CallTime time, timeOf(device, call));
    returned.push_back(time.returned);
    done.push_back(time.done);
  }
  return CallTime{medianOf(returned), medianOf(done)};
}

nlohmann::ordered_json toJson(const CallTime &time) {
  return {{"returned_ms", time.returned}, {"done_ms", time.done}};
}

void print(const nlohmann::ordered_json &result) {
  fmt::print("linear + cross entropy with its gradients: N {}, H {}, V {}, {}\n",
             result["rows"].get<int64_t>(), result["hidden"].get<int64_t>(), result["classes"].get<int64_t>(),
             result["dtype"].get<std::string>());
  Table table({"ms until it", "returns", "is done"});
  table.add({"opening the runtime", fmt::format("{:.2f}", result["open_ms"].get<double>())});
  const std::pair<const char *, const char *> calls[] = {
      {"first", "first call"}, {"second", "second call"}, {"later", "later calls (median)"}};
  for (const auto &[key, name] : calls)
    table.add({name, fmt::format("{:.2f}", result[key]["returned_ms"].get<double>()),
               fmt::format("{:.2f}", result[key]["done_ms"].get<double>())});
  fmt::print("{}kernels: {} compiled, {} from disk, {} from bundles\n", table.str(),
             result["compiled"].get<int64_t>(), result["from_disk"].get<int64_t>(),
             result["from_bundles"].get<int64_t>());
}

} // namespace

StatusOr<FirstCalls> firstCalls(const LinearProblem &problem, const NumberType &type,
                                const Environment &environment, const std::string &target) {
  FirstCalls found;
  std::unique_ptr<Runtime> runtime;
  TW_ASSIGN_OR_RETURN(found.open, wallMilliseconds([&]() -> Status {
                        TW_ASSIGN_OR_RETURN(runtime, openRuntime(environment, "", target));
                        return {};
                      }));
  Device &device = runtime->device();
  TW_RETURN_IF_ERROR(checkFits(linearBytes(problem.shape, problem.element), device));
  TW_ASSIGN_OR_RETURN(const LinearProblemTensors tensors, uploadProblem(device, problem));
  TW_RETURN_IF_ERROR(device.synchronize(nullptr));
  LinearCrossEntropyOptions options;
  options.tf32 = type.tf32;
  const auto call = [&] { return linearCrossEntropy(*runtime, tensors.refs(), options, nullptr).status(); };
  TW_ASSIGN_OR_RETURN(found.first, timeOf(device, call));
  found.counters = runtime->counters();
  TW_ASSIGN_OR_RETURN(found.second, timeOf(device, call));
  TW_ASSIGN_OR_RETURN(found.later, timeOfLater(device, call));
  TW_ASSIGN_OR_RETURN(const SampledOutputs outputs, downloadSamples(device, tensors.refs(), kSamples));
  TW_ASSIGN_OR_RETURN(const LossErrors errors, sampledErrors(problem, outputs));
  TW_RETURN_IF_ERROR(checkErrors(errors, type, problem.shape.hidden));
  return found;
}

StatusOr<nlohmann::ordered_json> benchFirstCall(const ProblemShape &shape, const NumberType &type,
                                                const std::string &target) {
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  const LinearProblem problem = randomProblem(shape, type.element, 1);
  TW_ASSIGN_OR_RETURN(const FirstCalls found, firstCalls(problem, type, environment, target));
  nlohmann::ordered_json result = {
      {"loss", "linear_cross_entropy"},
      {"rows", shape.rows},
      {"hidden", shape.hidden},
      {"classes", shape.classes},
      {"dtype", type.name()},
      {"open_ms", found.open},
      {"first", toJson(found.first)},
      {"second", toJson(found.second)},
      {"later", toJson(found.later)},
      {"compiled", found.counters.compiled},
      {"from_disk", found.counters.diskHits},
      {"from_bundles", found.counters.bundleHits},
  };
  print(result);
  return result;
}

} // namespace tilewright
