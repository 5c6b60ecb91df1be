#include "kernels/lce_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "compiler/base/parallel.h"
#include "compiler/number_formats.h"
#include "kernels/jit.h"
#include "kernels/lce/gradient_kernels.h"

namespace tilewright::lce {
namespace {

constexpr int64_t kSampledRows = 8, kSampledClasses = 6;
// Of two right results each may err that far, and a projection may find more than there is.
constexpr double kAgreement = 4;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

/// Holds for NaN, which no comparison does.
bool exceeds(double error, double allowed) { return !(error <= allowed); }

Status wrong(const std::string &what, double error, double allowed, const std::string &reference) {
  return internalError(what + " differs from " + reference + " by " + number(error) + ", allowed is " +
                       number(allowed));
}

/// Rows of a matrix, or elements of a vector, without what lies between rows.
StatusOr<std::vector<float>> readRows(Device &device, Stream stream, const TensorRef &tensor, int64_t first,
                                      int64_t count) {
  const int64_t columns = tensor.rank == 1 ? 1 : tensor.sizes[1];
  const int64_t stride = tensor.rank == 1 ? 1 : tensor.rowStride;
  const int64_t size = static_cast<int64_t>(elementBytes(tensor.element));
  std::vector<float> values(count * columns);
  if (values.empty()) return values;
  std::vector<uint8_t> bytes(((count - 1) * stride + columns) * size);
  const auto *source = static_cast<const uint8_t *>(tensor.data) + first * stride * size;
  TW_RETURN_IF_ERROR(device.copyToHost(bytes.data(), source, bytes.size(), stream));
  const auto convert = [&](int64_t r) {
    for (int64_t c = 0; c < columns; ++c)
      values[r * columns + c] =
          static_cast<float>(loadElement(tensor.element, &bytes[(r * stride + c) * size]));
  };
  if (columns == 1)
    for (int64_t r = 0; r < count; ++r)
      convert(r);
  else
    parallelFor(count, convert);
  return values;
}

} // namespace

StatusOr<std::vector<float>> Check::read(const TensorRef &tensor) const {
  return readRows(*device_, stream_, tensor, 0, tensor.sizes[0]);
}

StatusOr<Check> Check::make(Runtime &runtime, Stream stream, const Request &request,
                            const LinearCrossEntropyTensors &tensors,
                            const LinearCrossEntropyOptions &options) {
  Check check(runtime, stream, request, tensors);
  TW_RETURN_IF_ERROR(check.readInputs(options));
  TW_RETURN_IF_ERROR(check.readGradients());
  TW_RETURN_IF_ERROR(check.computeSamples());
  return StatusOr<Check>(std::move(check));
}

Status Check::readInputs(const LinearCrossEntropyOptions &options) {
  TW_ASSIGN_OR_RETURN(hidden_, read(t_.hidden));
  sampled_.hiddenSize = p_.hidden, sampled_.classes = p_.classes;
  sampled_.hidden = hidden_.data();
  sampled_.weight = [device = device_, stream = stream_, weight = t_.weight, values = std::vector<float>()](
                        int64_t first, int64_t count) mutable -> StatusOr<const float *> {
    TW_ASSIGN_OR_RETURN(values, readRows(*device, stream, weight, first, count));
    return values.data();
  };
  std::vector<int64_t> labels(p_.rows);
  if (t_.label.element == ElementType::i64) {
    TW_RETURN_IF_ERROR(device_->copyToHost(labels.data(), t_.label.data, 8 * p_.rows, stream_));
  } else {
    std::vector<int32_t> narrow(p_.rows);
    TW_RETURN_IF_ERROR(device_->copyToHost(narrow.data(), t_.label.data, 4 * p_.rows, stream_));
    labels.assign(narrow.begin(), narrow.end());
  }
  for (int64_t row = 0; row < p_.rows; ++row)
    if (labels[row] != options.ignoreIndex && labels[row] >= 0 && labels[row] < p_.classes) {
      sampled_.rows.push_back(row);
      sampled_.labels.push_back(labels[row]);
    }
  return {};
}

Status Check::readGradients() {
  std::vector<float> upstream = {1};
  if (t_.gradOutput.data) {
    TW_ASSIGN_OR_RETURN(upstream, read(t_.gradOutput));
  }
  const double share =
      p_.reduction == Reduction::mean ? 1.0 / std::max<double>(1, static_cast<double>(validRows())) : 1.0;
  for (const int64_t row : sampled_.rows)
    sampled_.gradients.push_back(share * upstream[p_.upstream == Upstream::rows ? row : 0]);
  return {};
}

Status Check::computeSamples() {
  for (std::size_t i = 0; i < sampled_.rows.size(); ++i) {
    TW_ASSIGN_OR_RETURN(const float *target, sampled_.weight(sampled_.labels[i], 1));
    targetLogit_.push_back(dotProduct(&hidden_[sampled_.rows[i] * p_.hidden], target, p_.hidden));
    logitSize_ = std::max(logitSize_, std::fabs(targetLogit_.back()));
  }
  TW_ASSIGN_OR_RETURN(rows_, sampleRows(sampled_, kSampledRows, p_.dHidden.has_value()));
  for (const SampledRow &row : rows_)
    logitSize_ = std::max(logitSize_, row.logitSize);
  if (!p_.dWeight) return {};
  std::vector<int64_t> labels = spread(kSampledClasses, p_.classes);
  if (!sampled_.labels.empty())
    labels.insert(labels.end(), {sampled_.labels.front(), sampled_.labels.back()});
  for (const int64_t label : labels) {
    TW_ASSIGN_OR_RETURN(SampledClass sample, sampleClass(sampled_, label));
    classes_.push_back({std::move(sample), {}});
  }
  return {};
}

Status Check::check() {
  Sketch sketch;
  TW_ASSIGN_OR_RETURN(sketch.lse, read(t_.lse));
  TW_RETURN_IF_ERROR(checkLosses(sketch.lse));
  if (p_.dHidden) {
    TW_RETURN_IF_ERROR(checkDHidden());
    TW_ASSIGN_OR_RETURN(sketch.dHidden, this->sketch(t_.dHidden));
  }
  if (p_.dWeight) {
    if (!accepted_) computeDWeight(sketch.lse);
    TW_RETURN_IF_ERROR(checkDWeight());
    TW_ASSIGN_OR_RETURN(sketch.dWeight, this->sketch(t_.dWeight));
  }
  if (accepted_) return compare(sketch);
  accepted_ = std::move(sketch);
  return {};
}

Status Check::checkLosses(const std::vector<float> &lse) const {
  const double allowed = allowedLossError() * logitSize_;
  for (const SampledRow &sample : rows_) {
    const int64_t row = sampled_.rows[sample.index];
    if (const double error = std::fabs(lse[row] - sample.lse); exceeds(error, allowed))
      return wrong("lse of row " + std::to_string(row), error, allowed, "float64");
  }
  TW_ASSIGN_OR_RETURN(const std::vector<float> loss, read(t_.loss));
  double sum = 0;
  for (std::size_t i = 0; i < sampled_.rows.size(); ++i) {
    const int64_t row = sampled_.rows[i];
    const double expected = lse[row] - targetLogit_[i];
    sum += expected;
    if (p_.reduction != Reduction::none) continue;
    if (const double error = std::fabs(loss[row] - expected); exceeds(error, allowed))
      return wrong("loss of row " + std::to_string(row), error, allowed, "lse and float64");
  }
  if (p_.reduction == Reduction::none) return {};
  const double count = std::max<double>(1, static_cast<double>(validRows()));
  const double perRow = p_.reduction == Reduction::mean ? 1 : count;
  const double error = std::fabs(loss[0] - sum / count * perRow);
  if (exceeds(error, allowed * perRow)) return wrong("loss", error, allowed * perRow, "lse and float64");
  return {};
}

Status Check::checkDHidden() const {
  RelativeError error;
  for (const SampledRow &sample : rows_) {
    TW_ASSIGN_OR_RETURN(const std::vector<float> found,
                        readRows(*device_, stream_, t_.dHidden, sampled_.rows[sample.index], 1));
    error.add(found.data(), sample.dHidden.data(), found.size());
  }
  return judge("dx", error.value());
}

void Check::computeDWeight(const std::vector<float> &lse) {
  parallelFor(static_cast<int64_t>(classes_.size()),
              [&](int64_t c) { classes_[c].dWeight = weightGradient(sampled_, classes_[c], lse); });
}

Status Check::checkDWeight() const {
  RelativeError error;
  for (const Class &sample : classes_) {
    TW_ASSIGN_OR_RETURN(const std::vector<float> found,
                        readRows(*device_, stream_, t_.dWeight, sample.label, 1));
    error.add(found.data(), sample.dWeight.data(), found.size());
  }
  return judge("dw", error.value());
}

Status Check::judge(const std::string &gradient, double error) const {
  const double allowed = allowedGradientError();
  return exceeds(error, allowed) ? wrong(gradient, error, allowed, "float64") : Status();
}

StatusOr<Check::RowSketches> Check::sketch(const TensorRef &matrix) const {
  const int64_t rows = matrix.sizes[0];
  TW_ASSIGN_OR_RETURN(const Buffer memory, device_->allocate(8 * rows, stream_));
  const TensorRef sums = TensorRef::vector(memory.data(), ElementType::f32, rows);
  const TensorRef squares =
      TensorRef::vector(static_cast<char *>(memory.data()) + 4 * rows, ElementType::f32, rows);
  TW_RETURN_IF_ERROR(launch(*runtime_, sketchRows(matrix.element), {matrix, sums, squares}, stream_));
  RowSketches sketches;
  TW_ASSIGN_OR_RETURN(sketches.sums, read(sums));
  TW_ASSIGN_OR_RETURN(sketches.squares, read(squares));
  return sketches;
}

/// Row by row, since one wrong block of a large matrix is little of its norm.
Status Check::compareRows(const std::string &name, const RowSketches &now, const RowSketches &before) const {
  constexpr double floor = 1e-3; // of a typical row: what may be left of terms that cancel
  double squares = 0;
  for (const float square : before.squares)
    squares += square;
  const double typical = std::sqrt(squares / std::max<double>(1, static_cast<double>(before.squares.size())));
  for (std::size_t row = 0; row < before.sums.size(); ++row) {
    const double size = std::sqrt(static_cast<double>(before.squares[row])) + floor * typical;
    const double error = std::fabs(static_cast<double>(now.sums[row]) - before.sums[row]);
    const double allowed = kAgreement * allowedGradientError();
    if (exceeds(error, allowed * size))
      return wrong(name, size > 0 ? error / size : error, allowed,
                   "the first result that was right, in row " + std::to_string(row) + ",");
  }
  return {};
}

Status Check::compare(const Sketch &sketch) const {
  const std::string first = "the first result that was right";
  for (const int64_t row : sampled_.rows) {
    const double expected = accepted_->lse[row], error = std::fabs(sketch.lse[row] - expected);
    const double allowed = kAgreement * allowedLossError() * std::max(logitSize_, std::fabs(expected));
    if (exceeds(error, allowed)) return wrong("lse of row " + std::to_string(row), error, allowed, first);
  }
  TW_RETURN_IF_ERROR(compareRows("dx", sketch.dHidden, accepted_->dHidden));
  return compareRows("dw", sketch.dWeight, accepted_->dWeight);
}

} // namespace tilewright::lce
