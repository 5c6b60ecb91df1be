#include "kernels/lce_check.h"

#include "compiler/base/parallel.h"
#include "kernels/jit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tilewright::lce {
namespace {

constexpr int64_t kSampledRows = 8, kSampledClasses = 6;
constexpr int64_t kRowsAtOnce = 2048; // of a matrix that is read piece by piece
// Of two right results each may err that far, and a projection may find more than there is.
constexpr double kAgreement = 4;

float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float halfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1f,
                 fraction = bits & 0x3ff;
  const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                          : exponent == 31 ? floatOf(0x7f800000 | fraction << 13)
                                           : floatOf((exponent + 112) << 23 | fraction << 13);
  return sign ? -magnitude : magnitude;
}

float toFloat(const uint8_t *bytes, ElementType element) {
  uint16_t half = 0;
  if (element == ElementType::f32) {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  std::memcpy(&half, bytes, sizeof half);
  return element == ElementType::bf16 ? floatOf(uint32_t(half) << 16) : halfToFloat(half);
}

double dotProduct(const float *a, const float *b, int64_t size) {
  double sums[4] = {0, 0, 0, 0}; // four chains, so that the additions overlap
  int64_t k = 0;
  for (; k + 4 <= size; k += 4)
    for (int i = 0; i < 4; ++i)
      sums[i] += static_cast<double>(a[k + i]) * b[k + i];
  for (; k < size; ++k)
    sums[0] += static_cast<double>(a[k]) * b[k];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

/// `count` of the numbers below `size`, spread evenly, the first and the last among them.
std::vector<int64_t> spread(int64_t count, int64_t size) {
  std::vector<int64_t> positions;
  count = std::min(count, size);
  for (int64_t k = 0; k < count; ++k)
    positions.push_back(count < 2 ? 0 : k * (size - 1) / (count - 1));
  return positions;
}

/// |a - b| / |b|, absolute where b is nothing.
template <typename A> double distance(const std::vector<A> &a, const std::vector<double> &b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(size > 0 ? difference / size : difference);
}

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

} // namespace

StatusOr<std::vector<float>> Check::readRows(const TensorRef &matrix, int64_t first, int64_t count) const {
  const int64_t columns = matrix.rank == 1 ? 1 : matrix.sizes[1];
  const int64_t stride = matrix.rank == 1 ? 1 : matrix.rowStride;
  const int64_t size = static_cast<int64_t>(elementBytes(matrix.element));
  std::vector<float> values(count * columns);
  if (values.empty()) return values;
  std::vector<uint8_t> bytes(((count - 1) * stride + columns) * size);
  const auto *source = static_cast<const uint8_t *>(matrix.data) + first * stride * size;
  TW_RETURN_IF_ERROR(device_->copyToHost(bytes.data(), source, bytes.size(), stream_));
  const auto convert = [&](int64_t r) {
    for (int64_t c = 0; c < columns; ++c)
      values[r * columns + c] = toFloat(&bytes[(r * stride + c) * size], matrix.element);
  };
  if (columns == 1)
    for (int64_t r = 0; r < count; ++r)
      convert(r);
  else
    parallelFor(count, convert);
  return values;
}

StatusOr<Check> Check::make(Runtime &runtime, Stream stream, const Request &request,
                            const LinearCrossEntropyTensors &tensors,
                            const LinearCrossEntropyOptions &options) {
  Check check(runtime, stream, request, tensors);
  TW_RETURN_IF_ERROR(check.readInputs(options));
  TW_RETURN_IF_ERROR(check.computeRows());
  if (request.dWeight) TW_RETURN_IF_ERROR(check.computeClasses());
  return StatusOr<Check>(std::move(check));
}

Status Check::readInputs(const LinearCrossEntropyOptions &options) {
  TW_ASSIGN_OR_RETURN(hidden_, readRows(t_.hidden, 0, p_.rows));
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
      valid_.push_back(row);
      label_.push_back(labels[row]);
    }

  std::vector<float> upstream = {1};
  if (t_.gradOutput.data) {
    TW_ASSIGN_OR_RETURN(upstream, readRows(t_.gradOutput, 0, t_.gradOutput.sizes[0]));
  }
  const double share =
      p_.reduction == Reduction::mean ? 1.0 / std::max<double>(1, static_cast<double>(valid_.size())) : 1.0;
  for (std::size_t i = 0; i < valid_.size(); ++i) {
    gradient_.push_back(share * upstream[p_.upstream == Upstream::rows ? valid_[i] : 0]);
    TW_ASSIGN_OR_RETURN(const std::vector<float> target, readRows(t_.weight, label_[i], 1));
    targetLogit_.push_back(dotProduct(&hidden_[valid_[i] * p_.hidden], target.data(), p_.hidden));
    logitSize_ = std::max(logitSize_, std::fabs(targetLogit_.back()));
  }
  return {};
}

Status Check::computeRows() {
  const std::vector<int64_t> samples = spread(kSampledRows, static_cast<int64_t>(valid_.size()));
  std::vector<std::vector<double>> logits(samples.size());
  for (int64_t first = 0; first < p_.classes; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, p_.classes - first);
    TW_ASSIGN_OR_RETURN(const std::vector<float> w, readRows(t_.weight, first, count));
    parallelFor(static_cast<int64_t>(samples.size()), [&](int64_t s) {
      for (int64_t j = 0; j < count; ++j)
        logits[s].push_back(
            dotProduct(&hidden_[valid_[samples[s]] * p_.hidden], &w[j * p_.hidden], p_.hidden));
    });
  }
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const double top = *std::max_element(logits[s].begin(), logits[s].end());
    double sum = 0;
    for (const double z : logits[s]) {
      sum += std::exp(z - top);
      logitSize_ = std::max(logitSize_, std::fabs(z));
    }
    rows_.push_back({valid_[samples[s]], top + std::log(sum), std::vector<double>(p_.hidden, 0.0)});
  }
  if (!p_.dHidden) return {};
  for (int64_t first = 0; first < p_.classes; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, p_.classes - first);
    TW_ASSIGN_OR_RETURN(const std::vector<float> w, readRows(t_.weight, first, count));
    parallelFor(static_cast<int64_t>(samples.size()), [&](int64_t s) {
      for (int64_t j = 0; j < count; ++j) {
        const bool target = first + j == label_[samples[s]];
        const double factor =
            gradient_[samples[s]] * (std::exp(logits[s][first + j] - rows_[s].lse) - (target ? 1 : 0));
        for (int64_t k = 0; k < p_.hidden; ++k)
          rows_[s].dHidden[k] += factor * w[j * p_.hidden + k];
      }
    });
  }
  return {};
}

Status Check::computeClasses() {
  std::vector<int64_t> labels = spread(kSampledClasses, p_.classes);
  if (!label_.empty()) labels.insert(labels.end(), {label_.front(), label_.back()});
  for (const int64_t label : labels) {
    TW_ASSIGN_OR_RETURN(const std::vector<float> w, readRows(t_.weight, label, 1));
    Class sample{label, std::vector<double>(valid_.size()), {}};
    parallelFor(static_cast<int64_t>(valid_.size()), [&](int64_t i) {
      sample.logits[i] = dotProduct(&hidden_[valid_[i] * p_.hidden], w.data(), p_.hidden);
    });
    classes_.push_back(std::move(sample));
  }
  return {};
}

Status Check::check() {
  Sketch sketch;
  TW_ASSIGN_OR_RETURN(sketch.lse, readRows(t_.lse, 0, p_.rows));
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
  for (const Row &row : rows_)
    if (const double error = std::fabs(lse[row.row] - row.lse); exceeds(error, allowed))
      return wrong("lse of row " + std::to_string(row.row), error, allowed, "float64");
  TW_ASSIGN_OR_RETURN(const std::vector<float> loss, readRows(t_.loss, 0, t_.loss.elements()));
  double sum = 0;
  for (std::size_t i = 0; i < valid_.size(); ++i) {
    const double expected = lse[valid_[i]] - targetLogit_[i];
    sum += expected;
    if (p_.reduction != Reduction::none) continue;
    if (const double error = std::fabs(loss[valid_[i]] - expected); exceeds(error, allowed))
      return wrong("loss of row " + std::to_string(valid_[i]), error, allowed, "lse and float64");
  }
  if (p_.reduction == Reduction::none) return {};
  const double count = std::max<double>(1, static_cast<double>(valid_.size()));
  const double perRow = p_.reduction == Reduction::mean ? 1 : count;
  const double error = std::fabs(loss[0] - sum / count * perRow);
  if (exceeds(error, allowed * perRow)) return wrong("loss", error, allowed * perRow, "lse and float64");
  return {};
}

Status Check::checkDHidden() const {
  std::vector<float> got;
  std::vector<double> expected;
  for (const Row &row : rows_) {
    TW_ASSIGN_OR_RETURN(const std::vector<float> values, readRows(t_.dHidden, row.row, 1));
    got.insert(got.end(), values.begin(), values.end());
    expected.insert(expected.end(), row.dHidden.begin(), row.dHidden.end());
  }
  const double error = distance(got, expected);
  return exceeds(error, allowedGradientError()) ? wrong("dx", error, allowedGradientError(), "float64")
                                                : Status();
}

void Check::computeDWeight(const std::vector<float> &lse) {
  parallelFor(static_cast<int64_t>(classes_.size()), [&](int64_t c) {
    Class &sample = classes_[c];
    sample.dWeight.assign(p_.hidden, 0.0);
    for (std::size_t i = 0; i < valid_.size(); ++i) {
      const double factor =
          gradient_[i] * (std::exp(sample.logits[i] - lse[valid_[i]]) - (label_[i] == sample.label ? 1 : 0));
      for (int64_t k = 0; k < p_.hidden; ++k)
        sample.dWeight[k] += factor * hidden_[valid_[i] * p_.hidden + k];
    }
  });
}

Status Check::checkDWeight() const {
  std::vector<float> got;
  std::vector<double> expected;
  for (const Class &sample : classes_) {
    TW_ASSIGN_OR_RETURN(const std::vector<float> values, readRows(t_.dWeight, sample.label, 1));
    got.insert(got.end(), values.begin(), values.end());
    expected.insert(expected.end(), sample.dWeight.begin(), sample.dWeight.end());
  }
  const double error = distance(got, expected);
  return exceeds(error, allowedGradientError()) ? wrong("dw", error, allowedGradientError(), "float64")
                                                : Status();
}

StatusOr<Check::RowSketches> Check::sketch(const TensorRef &matrix) const {
  const int64_t rows = matrix.sizes[0];
  TW_ASSIGN_OR_RETURN(const Buffer memory, device_->allocate(8 * rows, stream_));
  const TensorRef sums = TensorRef::vector(memory.data(), ElementType::f32, rows);
  const TensorRef squares =
      TensorRef::vector(static_cast<char *>(memory.data()) + 4 * rows, ElementType::f32, rows);
  TW_RETURN_IF_ERROR(launch(*runtime_, sketchRows(matrix.element), {matrix, sums, squares}, stream_));
  RowSketches sketches;
  TW_ASSIGN_OR_RETURN(sketches.sums, readRows(sums, 0, rows));
  TW_ASSIGN_OR_RETURN(sketches.squares, readRows(squares, 0, rows));
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
  for (const int64_t row : valid_) {
    const double expected = accepted_->lse[row], error = std::fabs(sketch.lse[row] - expected);
    const double allowed = kAgreement * allowedLossError() * std::max(logitSize_, std::fabs(expected));
    if (exceeds(error, allowed)) return wrong("lse of row " + std::to_string(row), error, allowed, first);
  }
  TW_RETURN_IF_ERROR(compareRows("dx", sketch.dHidden, accepted_->dHidden));
  return compareRows("dw", sketch.dWeight, accepted_->dWeight);
}

} // namespace tilewright::lce
