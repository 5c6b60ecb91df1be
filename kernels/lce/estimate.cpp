#include "kernels/lce/estimate.h"

#include <cmath>

#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

// bench --grid tools/bench/heads.json --dtype bf16 --against cublas --json FILE, 2026-11-25: 28 heads on
// H200s, 12 of them on an H100.
constexpr GpuSpeed kSpeeds[] = {
    {"H200", 3.24e12, 4.2e12, 5e-6},
    {"H100", 3.19e12, 3.1e12, 5e-6},
};

/// Multiply-adds of other types take so many times as long.
double typeFactor(const Scheme &scheme) {
  constexpr double kTf32 = 1.88, kF16 = 1.05; // at the power limit
  return scheme.tf32 ? kTf32 : scheme.element == ElementType::f16 ? kF16 : 1;
}

double bytesOfNumbers(double count, ElementType type) {
  return count * static_cast<double>(elementBytes(type));
}

/// What a product writes, of which a loss alone keeps nothing.
double bytesWritten(const Scheme &scheme, ProductKind kind, const ProductShape &shape, bool adds) {
  const double numbers = static_cast<double>(shape.rows) * static_cast<double>(shape.columns);
  if (isOfLogits(kind)) return scheme.keepsExponentials ? bytesOfNumbers(numbers, scheme.exponentials) : 0;
  if (kind == ProductKind::dHidden) return bytesOfNumbers(numbers, *scheme.dHidden);
  return adds ? 8 * numbers : bytesOfNumbers(numbers, *scheme.dWeight); // fp32 is read and written
}

class Estimator {
public:
  Estimator(const Scheme &scheme, const Config &config, const DeviceInfo &device)
      : s_(scheme), c_(config), device_(device), speed_(speedOf(device)) {}

  CallEstimate call() {
    add("logits", ProductKind::forward);
    if (s_.dHidden) add("dX", ProductKind::dHidden);
    if (s_.dWeight) add("dW", ProductKind::dWeight);
    estimate_.othersSeconds = others();
    return std::move(estimate_);
  }

private:
  double chunkSeconds(ProductKind kind, int64_t rows) const {
    if (rows == 0) return 0;
    Config chunk = c_;
    chunk.chunkRows = rows;
    const ProductShape shape = shapeOf(s_, kind, chunk);
    const double work = chunkTime(s_, c_, kind, rows, device_) * typeFactor(s_) / speed_.multiplyAdds;
    // Neither hides all of the other.
    return std::hypot(work, bytesOf(kind, shape) / speed_.bytes);
  }

  double bytesOf(ProductKind kind, const ProductShape &shape) const {
    const bool adds = kind == ProductKind::dWeight && c_.weightParts(s_) > 1;
    const double written = bytesWritten(s_, kind, shape, adds);
    const int64_t number = elementBytes(s_.operands(kind).first);
    return operandBytes(c_[kind], shape, number, written > 0, device_) + written;
  }

  void add(const char *name, ProductKind kind) {
    const ProductShape shape = shapeOf(s_, kind, c_);
    ProductEstimate p{kind, name, c_[kind], shape, 0, 0, bytesOf(kind, shape), 0};
    p.rounds = roundsOf(kind, p.product, shape, device_, c_.tailBytes);
    p.filled =
        static_cast<double>(shape.rows) * static_cast<double>(shape.columns) /
        (p.rounds * device_.units * static_cast<double>(p.product.block.rows * p.product.block.columns));
    p.seconds = static_cast<double>(s_.rows / c_.chunkRows) * chunkSeconds(kind, c_.chunkRows) +
                chunkSeconds(kind, s_.rows % c_.chunkRows);
    estimate_.products.push_back(p);
  }

  /// Kernels that read or write whole matrices take their bytes' time, and all kernels are launched.
  double others() const {
    constexpr double kLaunches = 11;    // of a chunk
    constexpr double kSortedRow = 8e-9; // seconds, of many rows that are sorted by their labels
    const double x =
        bytesOfNumbers(static_cast<double>(s_.rows) * static_cast<double>(s_.hidden), s_.element);
    const double w = static_cast<double>(s_.classes) * static_cast<double>(s_.hidden);
    const double tiles = static_cast<double>(ceilDiv(s_.classes, c_.forward.block.columns));
    double bytes = 3 * x; // rows and their labels' rows of W, gathered
    bytes += 2 * 3 * sizeof(float) * static_cast<double>(s_.rows) * tiles; // sums and largest logits
    if (s_.wantsGradients()) bytes += 2 * x;                               // scaled
    if (s_.dWeight) bytes += x + 4 * x / static_cast<double>(elementBytes(s_.element));         // u
    if (s_.dWeight && elementBytes(*s_.dWeight) == 2 && c_.weightParts(s_) > 1) bytes += 6 * w; // rounded
    if (s_.dHidden && isTransposed(s_, c_, ProductKind::dHidden)) bytes += 8 * w;
    if (s_.dWeight && isTransposed(s_, c_, ProductKind::dWeight))
      bytes += 8 * static_cast<double>(s_.rows) * static_cast<double>(s_.classes);
    const double sorted = sortsByDigits(s_, c_) ? kSortedRow * static_cast<double>(s_.rows) : 0;
    return sorted + bytes / speed_.bytes + kLaunches * static_cast<double>(c_.chunks(s_)) * speed_.launch;
  }

  const Scheme &s_;
  const Config &c_;
  const DeviceInfo &device_;
  const GpuSpeed &speed_;
  CallEstimate estimate_;
};

} // namespace

const GpuSpeed &speedOf(const DeviceInfo &device) {
  for (const GpuSpeed &speed : kSpeeds)
    if (device.name.find(speed.chip) != std::string::npos) return speed;
  return kSpeeds[0];
}

double CallEstimate::seconds() const {
  double sum = othersSeconds;
  for (const ProductEstimate &product : products)
    sum += product.seconds;
  return sum;
}

std::optional<CallEstimate> estimateCall(const Scheme &scheme, const Config &config,
                                         const DeviceInfo &device) {
  if (!hasRoles(config.forward) || scheme.hasSecondPass) return std::nullopt;
  return Estimator(scheme, config, device).call();
}

} // namespace tilewright::lce
