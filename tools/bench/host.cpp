#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "compiler/base/elapsed.h"
#include "compiler/base/env.h"
#include "kernels/linear_cross_entropy.h"
#include "tools/bench/address_range.h"
#include "tools/bench/allocation_count.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/random_problem.h"
#include "tools/bench/stub_device.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

/// Turns are shorter than what a busy system gives a thread at a time, so that some are not interrupted.
constexpr int kTurns = 301;
constexpr double kTurnMilliseconds = 0.5;
/// Of real calls. On a CPU a call returns when its work is done: a large one says nothing about the host.
constexpr double kMostMilliseconds = 500;
constexpr double kCpuFlops = 2e10; ///< a second, on a slow CPU

/// What one form of a call costs the host.
struct HostCost {
  double microseconds = 0; ///< of the fastest turn: other work on the machine only adds to one
  int64_t allocations = 0; ///< of one call
};

/// The caller's memory for a run: addresses alone, where launches are stubbed.
LinearCrossEntropyTensors tensorsIn(AddressRange &range, const ProblemShape &shape, ElementType element,
                                    bool lossOnly) {
  const int64_t x = shape.rows * shape.hidden * static_cast<int64_t>(elementBytes(element));
  const int64_t w = shape.classes * shape.hidden * static_cast<int64_t>(elementBytes(element));
  const auto matrix = [&](int64_t bytes, int64_t rows) {
    return TensorRef::matrix(range.take(bytes), element, rows, shape.hidden);
  };
  LinearCrossEntropyTensors t;
  t.hidden = matrix(x, shape.rows), t.weight = matrix(w, shape.classes);
  if (!lossOnly) t.dHidden = matrix(x, shape.rows), t.dWeight = matrix(w, shape.classes);
  t.label = TensorRef::vector(range.take(8 * shape.rows), ElementType::i64, shape.rows);
  t.lse = TensorRef::vector(range.take(4 * shape.rows), ElementType::f32, shape.rows);
  t.loss = TensorRef::vector(range.take(4), ElementType::f32, 1);
  return t;
}

std::size_t addressesFor(const ProblemShape &shape, ElementType element) {
  constexpr std::size_t ends = 16 * 256;
  const std::size_t matrices = (shape.rows + shape.classes) * shape.hidden * elementBytes(element);
  return 2 * matrices + 12 * shape.rows + ends;
}

/// A form of a call that is timed.
class TimedCall {
public:
  using Run = std::function<Status()>;
  static StatusOr<TimedCall> warmedUp(Device &device, Run run) {
    TimedCall call(std::move(run));
    for (int i = 0; i < 3; ++i) // whatever the first calls do once
      TW_RETURN_IF_ERROR(call.run_());
    const int64_t before = allocationCount();
    TW_RETURN_IF_ERROR(call.run_());
    call.cost_.allocations = allocationCount() - before;
    TW_RETURN_IF_ERROR(device.synchronize(nullptr));
    TW_ASSIGN_OR_RETURN(const double once, wallMilliseconds(call.run_));
    call.callsOfATurn_ = std::clamp(static_cast<int>(kTurnMilliseconds / std::max(once, 1e-4)), 1, 1000);
    return call;
  }

  /// Before it, what was enqueued is waited for.
  Status takeTurn(Device &device) {
    TW_RETURN_IF_ERROR(device.synchronize(nullptr));
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < callsOfATurn_; ++i)
      TW_RETURN_IF_ERROR(run_());
    const double turn = 1000 * millisecondsSince(begin) / callsOfATurn_;
    cost_.microseconds = cost_.microseconds > 0 ? std::min(cost_.microseconds, turn) : turn;
    return {};
  }
  const HostCost &cost() const { return cost_; }

private:
  explicit TimedCall(Run run) : run_(std::move(run)) {}

  Run run_;
  HostCost cost_;
  int callsOfATurn_ = 1;
};

/// Both forms on one runtime, in turn: what slows the machine down for a while slows both. The workspace is
/// the caller's, as large as the prepared call says.
struct Costs {
  HostCost prepared, oneCall;
};

StatusOr<Costs> costsOf(Runtime &runtime, const PreparedLinearCrossEntropy &prepared,
                        const LinearCrossEntropyTensors &tensors, const LinearCrossEntropyOptions &options) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const Buffer workspace, device.allocate(prepared.workspaceBytes(), nullptr));
  TW_ASSIGN_OR_RETURN(const CallStatus status, runtime.callStatus());
  const CallMemory memory = {workspace.data(), prepared.workspaceBytes(), status};
  TW_ASSIGN_OR_RETURN(TimedCall run,
                      TimedCall::warmedUp(device, [&] { return prepared.run(tensors, memory, nullptr); }));
  TW_ASSIGN_OR_RETURN(TimedCall oneCall, TimedCall::warmedUp(device, [&] {
                        return linearCrossEntropy(runtime, tensors, options, nullptr).status();
                      }));
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kTurns && (i == 0 || millisecondsSince(start) < 2 * kMostMilliseconds); ++i) {
    TW_RETURN_IF_ERROR(run.takeTurn(device));
    TW_RETURN_IF_ERROR(oneCall.takeTurn(device));
  }
  TW_RETURN_IF_ERROR(device.synchronize(nullptr));
  return Costs{run.cost(), oneCall.cost()};
}

bool worthARealCall(const Device &device, const ProblemShape &shape) {
  if (device.target().kind == TargetKind::nvptx) return true;
  const double flops = 6.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.hidden) *
                       static_cast<double>(shape.classes);
  return 1000 * flops / kCpuFlops <= kMostMilliseconds;
}

StatusOr<Costs> realCosts(Runtime &runtime, const ProblemShape &shape, ElementType element, bool lossOnly,
                          const LinearCrossEntropyOptions &options) {
  TW_RETURN_IF_ERROR(checkFits(linearBytes(shape, element), runtime.device()));
  TW_ASSIGN_OR_RETURN(const LinearProblemTensors own,
                      uploadProblem(runtime.device(), randomProblem(shape, element, 1)));
  LinearCrossEntropyTensors tensors = own.refs();
  if (lossOnly) tensors.dHidden = tensors.dWeight = {};
  TW_ASSIGN_OR_RETURN(const PreparedLinearCrossEntropy prepared,
                      PreparedLinearCrossEntropy::prepare(runtime, tensors, options));
  return costsOf(runtime, prepared, tensors, options);
}

void print(const nlohmann::ordered_json &result) {
  fmt::print("host time of linear + cross entropy: N {}, H {}, V {}, {}: {}, {} launches\n",
             result["rows"].get<int64_t>(), result["hidden"].get<int64_t>(), result["classes"].get<int64_t>(),
             result["dtype"].get<std::string>(), result["variant"].get<std::string>(),
             result["launches"].get<int64_t>());
  Table table({"us a call", "prepared", "one call"});
  const auto row = [&](const char *name, const char *prepared, const char *call) {
    if (result.contains(prepared))
      table.add({name, fmt::format("{:.2f}", result[prepared].get<double>()),
                 fmt::format("{:.2f}", result[call].get<double>())});
  };
  row("launches stubbed", "prepared_us", "call_us");
  row("real", "prepared_real_us", "call_real_us");
  table.add({"heap allocations", std::to_string(result["prepared_allocations"].get<int64_t>()),
             std::to_string(result["call_allocations"].get<int64_t>())});
  fmt::print("{}", table.str());
}

} // namespace

StatusOr<nlohmann::ordered_json> benchHost(const ProblemShape &shape, const NumberType &type,
                                           const LinearBench &what, const std::string &target) {
  LinearCrossEntropyOptions options;
  options.tf32 = type.tf32;
  options.workspaceLimit = what.workspaceLimit;
  TW_ASSIGN_OR_RETURN(AddressRange range, AddressRange::reserve(addressesFor(shape, type.element)));
  const LinearCrossEntropyTensors tensors = tensorsIn(range, shape, type.element, what.lossOnly);
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  TW_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice("", target));
  auto stub = std::make_unique<StubDevice>(std::move(device), range.take(0));
  const StubDevice &stubbed = *stub;
  Runtime runtime(std::move(stub), environment);
  TW_ASSIGN_OR_RETURN(const PreparedLinearCrossEntropy prepared,
                      PreparedLinearCrossEntropy::prepare(runtime, tensors, options));
  TW_ASSIGN_OR_RETURN(const Costs costs, costsOf(runtime, prepared, tensors, options));
  const int64_t before = stubbed.launches();
  TW_RETURN_IF_ERROR(linearCrossEntropy(runtime, tensors, options, nullptr).status());

  nlohmann::ordered_json result = {
      {"loss", "linear_cross_entropy"},
      {"device", stubbed.info().name},
      {"rows", shape.rows},
      {"hidden", shape.hidden},
      {"classes", shape.classes},
      {"dtype", type.name()},
      {"variant", variantName(prepared.variant())},
      {"configuration", prepared.description()},
      {"workspace_bytes", prepared.workspaceBytes()},
      {"launches", stubbed.launches() - before},
      {"prepared_us", costs.prepared.microseconds},
      {"call_us", costs.oneCall.microseconds},
      {"prepared_allocations", costs.prepared.allocations},
      {"call_allocations", costs.oneCall.allocations},
  };
  TW_ASSIGN_OR_RETURN(std::unique_ptr<Device> working, openDevice("", target));
  if (worthARealCall(*working, shape)) {
    Runtime real(std::move(working), environment);
    TW_ASSIGN_OR_RETURN(const Costs costsOfReal,
                        realCosts(real, shape, type.element, what.lossOnly, options));
    result["prepared_real_us"] = costsOfReal.prepared.microseconds;
    result["call_real_us"] = costsOfReal.oneCall.microseconds;
  }
  print(result);
  return result;
}

} // namespace tilewright
