#include <fmt/format.h>

#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/example_cases.h"
#include "tools/cli/text.h"
#include "tools/io/tensors.h"

namespace tilewright {
namespace {

constexpr double kSeconds = 11;

/// The error that an example allows itself, relative to float64: sums of some thousand products in f32, or
/// one rounding of the result.
double allowedError(ElementType element) { return element == ElementType::f32 ? 1e-5 : 4e-3; }

/// A copy that reads and writes as many bytes.
StatusOr<std::function<Status()>> copyOf(Device &device, double bytes) {
  const auto count = static_cast<int64_t>(bytes / 2 / sizeof(float)) + 1;
  TW_ASSIGN_OR_RETURN(const OwnedTensor from, allocateTensor(device, ElementType::f32, {count}));
  TW_ASSIGN_OR_RETURN(const OwnedTensor to, allocateTensor(device, ElementType::f32, {count}));
  TW_RETURN_IF_ERROR(device.fill(from.ref.data, 0, count * sizeof(float), nullptr));
  return std::function<Status()>([&device, from, to, count] {
    return device.copy(to.ref.data, from.ref.data, count * sizeof(float), nullptr);
  });
}

} // namespace

StatusOr<nlohmann::ordered_json> benchKernel(Runtime &runtime, const std::string &name,
                                             const std::vector<int64_t> &sizes, const NumberType &type) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const ExampleCase example, makeExample(device, name, sizes, type.element));
  TW_RETURN_IF_ERROR(example.run());
  TW_ASSIGN_OR_RETURN(const double error, example.error());
  if (!(error <= allowedError(type.element)))
    return internalError(fmt::format("{}: the result is {:.1e} off, more than {:.1e}", name, error,
                                     allowedError(type.element)));

  std::vector<BenchmarkCase> cases = {{name, example.run}};
  const bool multiplies = example.operations > 0;
  if (example.baseline) cases.push_back({example.baselineName, example.baseline});
  if (!multiplies) {
    TW_ASSIGN_OR_RETURN(const auto copy, copyOf(device, example.bytes));
    cases.push_back({"copy", copy});
  }
  TW_ASSIGN_OR_RETURN(const BenchmarkResult times, benchmark(device, cases, kSeconds));

  std::string shape;
  for (int64_t size : sizes)
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  nlohmann::ordered_json result = {{"kernel", name},       {"device", device.info().name},
                                   {"shape", sizes},       {"dtype", elementName(type.element)},
                                   {"error", error},       {"compile_ms", example.compileMilliseconds},
                                   {"ms", times.median[0]}};
  const auto perSecond = [&](double milliseconds) {
    return (multiplies ? example.operations : example.bytes) / milliseconds * 1e3;
  };
  result[multiplies ? "tflop_per_s" : "gb_per_s"] = perSecond(times.median[0]) * (multiplies ? 1e-12 : 1e-9);
  fmt::print("{} of {}, {}: {:.1e} off float64, compiled in {:.0f} ms\n", name, shape,
             elementName(type.element), error, example.compileMilliseconds);
  Table table({"", "ms", multiplies ? "speed" : "GB/s", "of the baseline"});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double speed = perSecond(times.median[i]);
    table.add({cases[i].name, fmt::format("{:.3f}", times.median[i]),
               multiplies ? speedText(speed) : fmt::format("{:.1f}", speed * 1e-9),
               fmt::format("{:.2f}", times.median.back() / times.median[i])});
  }
  fmt::print("{}  {}\n", table.str(), times.method());
  if (cases.size() > 1) {
    result["baseline"] = cases[1].name;
    result["baseline_ms"] = times.median[1];
    result["ratio"] = times.median[1] / times.median[0];
  }
  result["method"] = times.method();
  return result;
}

} // namespace tilewright
