#include <fmt/format.h>

#include <algorithm>

#include "compiler/base/byte_text.h"
#include "kernels/cross_entropy.h"
#include "kernels/reference.h"
#include "tools/bench/accuracy.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr double kSeconds = 11;
constexpr int64_t kSamples = 16; // rows that are checked

/// Of so many numbers at least are the first rows, which all others repeat: to draw them all would take
/// longer than everything else.
constexpr int64_t kDrawn = int64_t(1) << 24;

/// Copies the first `drawn` rows of a matrix to all others.
Status repeatRows(Device &device, const TensorRef &matrix, int64_t drawn) {
  for (int64_t row = drawn; row < matrix.sizes[0]; row += drawn) {
    const TensorRef part = matrix.rows(row, std::min(drawn, matrix.sizes[0] - row));
    TW_RETURN_IF_ERROR(
        device.copy(part.data, matrix.data, part.elements() * elementBytes(matrix.element), nullptr));
  }
  return {};
}

/// A mean's gradient would be too small for f16; those who train in it scale the loss.
Reduction reductionFor(ElementType element) {
  return element == ElementType::f16 ? Reduction::sum : Reduction::mean;
}

/// The first rows' lse and gradient against float64.
Status checkFirstRows(Device &device, const std::vector<float> &logits, const std::vector<int64_t> &labels,
                      const ProblemShape &shape, ElementType element, const TensorRef &lse,
                      const TensorRef &dLogits) {
  const int64_t rows = std::min(kSamples, shape.rows);
  ReferenceOptions options;
  options.reduction = Reduction::none;
  const bool isMean = reductionFor(element) == Reduction::mean;
  options.gradOutput.assign(rows, isMean ? 1.0 / static_cast<double>(shape.rows) : 1.0);
  const ReferenceResult reference =
      referenceCrossEntropy(logits.data(), labels.data(), rows, shape.classes, options);
  TW_ASSIGN_OR_RETURN(const std::vector<float> foundLse, download(device, lse.rows(0, rows)));
  TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(device, dLogits.rows(0, rows)));
  LossErrors errors;
  for (int64_t i = 0; i < rows; ++i)
    errors.addLoss(foundLse[i], reference.lse[i], reference.logitSize);
  errors.dHidden = errors.dWeight = relativeError(found.data(), reference.dLogits.data(), found.size());
  return checkErrors(errors, {element});
}

} // namespace

StatusOr<nlohmann::ordered_json> benchOverLogits(Runtime &runtime, const ProblemShape &shape,
                                                 ElementType element) {
  Device &device = runtime.device();
  const int64_t elements = shape.rows * shape.classes;
  const std::size_t bytes = elements * elementBytes(element);
  TW_RETURN_IF_ERROR(checkFits(2.0 * static_cast<double>(bytes), device));

  const int64_t drawn = std::min(shape.rows, std::max(kSamples, kDrawn / shape.classes));
  const std::vector<float> logits = rounded(randomNumbers(drawn * shape.classes, 2, 1), element);
  std::vector<int64_t> labels(shape.rows);
  for (int64_t i = 0; i < shape.rows; ++i)
    labels[i] = (i * 7919) % shape.classes;
  TW_ASSIGN_OR_RETURN(const OwnedTensor matrix, allocateTensor(device, element, {shape.rows, shape.classes}));
  {
    TW_ASSIGN_OR_RETURN(const OwnedTensor first,
                        uploadFloats(device, element, {drawn, shape.classes}, logits));
    TW_RETURN_IF_ERROR(
        device.copy(matrix.ref.data, first.ref.data, first.ref.elements() * elementBytes(element), nullptr));
    TW_RETURN_IF_ERROR(repeatRows(device, matrix.ref, drawn));
  }
  TW_ASSIGN_OR_RETURN(const OwnedTensor label,
                      uploadBytes(device, ElementType::i64, {shape.rows}, labels.data()));
  TW_ASSIGN_OR_RETURN(const OwnedTensor loss, allocateTensor(device, ElementType::f32, {1}));
  TW_ASSIGN_OR_RETURN(const OwnedTensor lse, allocateTensor(device, ElementType::f32, {shape.rows}));
  LossReport report;
  LossOptions options;
  options.reduction = reductionFor(element);
  const auto run = [&]() -> Status {
    TW_ASSIGN_OR_RETURN(
        report,
        crossEntropy(runtime, {matrix.ref, label.ref, {}, loss.ref, lse.ref, matrix.ref}, options, nullptr));
    return {};
  };
  TW_RETURN_IF_ERROR(run());
  TW_RETURN_IF_ERROR(checkFirstRows(device, logits, labels, shape, element, lse.ref, matrix.ref));
  TW_ASSIGN_OR_RETURN(const int64_t peak, device.peakBytes(nullptr, run));

  TW_ASSIGN_OR_RETURN(const OwnedTensor other, allocateTensor(device, element, {shape.rows, shape.classes}));
  const auto copyAll = [&] { return device.copy(other.ref.data, matrix.ref.data, bytes, nullptr); };
  TW_ASSIGN_OR_RETURN(const BenchmarkResult times,
                      benchmark(device, {{"tilewright", run}, {"copy", copyAll}}, kSeconds));
  const auto rate = [&](double milliseconds) {
    return 2.0 * static_cast<double>(bytes) / milliseconds * 1e-6;
  };
  const double ours = times.median[0], copy = times.median[1];
  fmt::print("cross entropy over logits, loss and gradient in place: N {}, V {}, {}\n", shape.rows,
             shape.classes, elementName(element));
  Table table({"", "ms", "GB/s", "of copy", "over 3 passes"});
  table.add({"tilewright", fmt::format("{:.2f}", ours), fmt::format("{:.1f}", rate(ours)),
             fmt::format("{:.0f} %", 100 * copy / ours), fmt::format("{:.0f} %", 150 * copy / ours)});
  table.add({"copy", fmt::format("{:.2f}", copy), fmt::format("{:.1f}", rate(copy)), "100 %", ""});
  fmt::print("{}  {}; workspace {}, peak over inputs and gradient {}, {}\n", table.str(),
             report.configuration, byteText(static_cast<double>(report.workspaceBytes)),
             byteText(static_cast<double>(peak)), times.method());
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
      {"share_of_copy_over_three_passes", 1.5 * copy / ours},
      {"method", times.method()},
      {"workspace_bytes", report.workspaceBytes},
      {"peak_bytes", peak},
  };
}

} // namespace tilewright
