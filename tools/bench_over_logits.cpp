#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "kernels/cross_entropy.h"
#include "kernels/reference.h"
#include "tools/accuracy.h"
#include "tools/bench.h"
#include "tools/contest.h"
#include "tools/random_problem.h"
#include "tools/text.h"

namespace tilewright {
namespace {

constexpr double kSeconds = 8;
constexpr int64_t kSamples = 16; // rows that are checked

/// memcpy by `threads` threads, each a slice.
void parallelCopy(char *destination, const char *source, std::size_t bytes, int threads) {
  std::vector<std::thread> helpers;
  const auto copySlice = [&](int i) {
    const std::size_t begin = bytes * i / threads, end = bytes * (i + 1) / threads;
    std::memcpy(destination + begin, source + begin, end - begin);
  };
  for (int i = 1; i < threads; ++i)
    helpers.emplace_back(copySlice, i);
  copySlice(0);
  for (std::thread &helper : helpers)
    helper.join();
}

/// The first rows' lse and gradient against float64.
Status checkFirstRows(Device &device, const std::vector<float> &logits, const std::vector<int64_t> &labels,
                      const ProblemShape &shape, ElementType element, const TensorRef &lse,
                      const TensorRef &dLogits) {
  const int64_t rows = std::min(kSamples, shape.rows);
  ReferenceOptions options;
  options.reduction = Reduction::none;
  options.gradOutput.assign(rows, 1.0 / static_cast<double>(shape.rows));
  const ReferenceResult reference =
      referenceCrossEntropy(logits.data(), labels.data(), rows, shape.classes, options);
  TW_ASSIGN_OR_RETURN(const std::vector<float> foundLse, download(device, lse.rows(0, rows)));
  TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(device, dLogits.rows(0, rows)));
  LossErrors errors;
  for (int64_t i = 0; i < rows; ++i) {
    const double error = std::fabs(foundLse[i] - reference.lse[i]) / reference.logitSize;
    errors.loss = error <= errors.loss ? errors.loss : error; // keeps NaN
  }
  errors.dHidden = errors.dWeight = relativeError(found.data(), reference.dLogits.data(), found.size());
  return checkErrors(errors, element);
}

} // namespace

StatusOr<nlohmann::ordered_json> benchOverLogits(Runtime &runtime, const ProblemShape &shape,
                                                 ElementType element) {
  Device &device = runtime.device();
  if (device.target().kind != TargetKind::cpu)
    return userError("--against copy is not available in this version on " + device.info().name +
                     ": it copies by the processor's threads; choose TILEWRIGHT_DEVICE=cpu");
  const int64_t elements = shape.rows * shape.classes;
  const std::size_t bytes = elements * elementBytes(element);
  TW_RETURN_IF_ERROR(checkFits(static_cast<double>(2 * bytes + elements * sizeof(float)), device));

  std::vector<float> logits = rounded(randomNumbers(elements, 2, 1), element);
  std::vector<int64_t> labels(shape.rows);
  for (int64_t i = 0; i < shape.rows; ++i)
    labels[i] = (i * 7919) % shape.classes;
  TW_ASSIGN_OR_RETURN(const OwnedTensor matrix,
                      uploadFloats(device, element, {shape.rows, shape.classes}, logits));
  TW_ASSIGN_OR_RETURN(const OwnedTensor label,
                      uploadBytes(device, ElementType::i64, {shape.rows}, labels.data()));
  TW_ASSIGN_OR_RETURN(const OwnedTensor loss, allocateTensor(device, ElementType::f32, {1}));
  TW_ASSIGN_OR_RETURN(const OwnedTensor lse, allocateTensor(device, ElementType::f32, {shape.rows}));
  LossReport report;
  const auto run = [&]() -> Status {
    TW_ASSIGN_OR_RETURN(
        report, crossEntropy(runtime, {matrix.ref, label.ref, {}, loss.ref, lse.ref, matrix.ref}, {}));
    return {};
  };
  TW_RETURN_IF_ERROR(run());
  TW_RETURN_IF_ERROR(checkFirstRows(device, logits, labels, shape, element, lse.ref, matrix.ref));
  logits = {};

  std::vector<char> from(bytes), to(bytes);
  TW_ASSIGN_OR_RETURN(const ContestResult times,
                      contest({{"tilewright", [&] { return device.time(nullptr, run); }},
                               {"copy",
                                [&] {
                                  return wallMilliseconds([&] {
                                    parallelCopy(to.data(), from.data(), bytes, device.info().units);
                                    return Status();
                                  });
                                }}},
                              kSeconds));
  const auto rate = [&](double milliseconds) {
    return 2.0 * static_cast<double>(bytes) / milliseconds * 1e-6;
  };
  const double ours = times.median[0], copy = times.median[1];
  fmt::print("cross entropy over logits, loss and gradient in place: N {}, V {}, {}\n", shape.rows,
             shape.classes, elementName(element));
  Table table({"", "ms", "GB/s", "of copy"});
  table.add({"tilewright", fmt::format("{:.2f}", ours), fmt::format("{:.1f}", rate(ours)),
             fmt::format("{:.0f} %", 100 * copy / ours)});
  table.add({fmt::format("copy, {} threads", device.info().units), fmt::format("{:.2f}", copy),
             fmt::format("{:.1f}", rate(copy)), "100 %"});
  fmt::print("{}  workspace {}, medians of {} rounds in turn\n", table.str(),
             bytesText(static_cast<double>(report.workspaceBytes)), times.rounds);
  return nlohmann::ordered_json{
      {"loss", "cross_entropy"},
      {"device", device.info().name},
      {"rows", shape.rows},
      {"classes", shape.classes},
      {"dtype", elementName(element)},
      {"configuration", report.configuration},
      {"ms", ours},
      {"gb_per_s", rate(ours)},
      {"copy_ms", copy},
      {"share_of_copy", copy / ours},
      {"rounds", times.rounds},
      {"workspace_bytes", report.workspaceBytes},
  };
}

} // namespace tilewright
