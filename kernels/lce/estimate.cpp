#include "kernels/lce/estimate.h"

#include "kernels/lce/tensors.h"

namespace tilewright::lce {
namespace {

double bytesOfNumbers(double count, ElementType type) {
  return count * static_cast<double>(elementBytes(type));
}

class Estimator {
public:
  Estimator(const Scheme &scheme, const Config &config, const DeviceInfo &device)
      : s_(scheme), c_(config), device_(device), speed_(speedOf(device)) {}

  CallEstimate call() {
    add("logits", ProductKind::forward);
    if (s_.dHidden) add("dX", ProductKind::dHidden);
    if (s_.dWeight && !s_.hasSecondPass) add("dW", ProductKind::dWeight);
    estimate_.othersSeconds = others();
    return std::move(estimate_);
  }

private:
  ProductCost costOf(ProductKind kind, int64_t rows) const {
    if (rows == 0) return {};
    Config chunk = c_;
    chunk.chunkRows = rows;
    return productCost(s_, c_, kind, shapeOf(s_, kind, chunk), device_);
  }

  void add(const char *name, ProductKind kind) {
    const ProductShape shape = shapeOf(s_, kind, c_);
    ProductEstimate p{kind, name, c_[kind], shape, costOf(kind, c_.chunkRows), 0, 0};
    p.filled =
        static_cast<double>(shape.rows) * static_cast<double>(shape.columns) /
        (p.cost.rounds * device_.units * static_cast<double>(p.product.block.rows * p.product.block.columns));
    // The columns of dW that add up in place, and the others, are a product each.
    const double products = kind == ProductKind::dWeight && c_.inPlace ? 2 : 1;
    p.seconds = products * (static_cast<double>(s_.rows / c_.chunkRows) * p.cost.seconds +
                            costOf(kind, s_.rows % c_.chunkRows).seconds);
    estimate_.products.push_back(p);
  }

  /// Launches of a chunk beside the products', but for those that run beside one. Of few rows: rows gathered,
  /// logits repaired, losses, and their mean, or the one-hot sums and the sum of dX's parts.
  int launches() const {
    if (s_.shifts == Shifts::mended) return 3;
    if (!s_.wantsGradients()) return hasFewRows(s_, c_) ? 4 : 9;
    const int beside =
        (sumsRunBesideHidden(s_, c_) ? 1 : 0) + (partsOrder(s_, c_) == PartsOrder::aroundWeight ? 1 : 0);
    return (hasFewRows(s_, c_) ? 5 : 11) - beside;
  }

  /// Kernels that read or write whole matrices take their bytes' time, and all kernels are launched.
  double others() const {
    const double x =
        bytesOfNumbers(static_cast<double>(s_.rows) * static_cast<double>(s_.hidden), s_.element);
    const double w = static_cast<double>(s_.classes) * static_cast<double>(s_.hidden);
    const double tiles = static_cast<double>(ceilDiv(s_.classes, c_.forward.block.columns));
    double bytes = 3 * x; // rows and their labels' rows of W, gathered
    bytes += 2 * 3 * sizeof(float) * static_cast<double>(s_.rows) * tiles; // sums and largest logits
    if (s_.wantsGradients()) bytes += 2 * x;                               // scaled
    if (s_.dWeight) bytes += x + 4 * x / static_cast<double>(elementBytes(s_.element)); // u
    if (s_.dWeight && elementBytes(*s_.dWeight) == 2 && c_.weightParts(s_) > 1 && !roundsInProduct(s_, c_))
      bytes += 6 * w;
    if (s_.dHidden && isTransposed(s_, c_, ProductKind::dHidden)) bytes += 8 * w;
    if (s_.dWeight && isTransposed(s_, c_, ProductKind::dWeight))
      bytes += 8 * static_cast<double>(s_.rows) * static_cast<double>(s_.classes);
    return bytes / speed_.bytes + static_cast<double>(launches() * c_.chunks(s_)) * speed_.launch;
  }

  const Scheme &s_;
  const Config &c_;
  const DeviceInfo &device_;
  const GpuSpeed &speed_;
  CallEstimate estimate_;
};

} // namespace

double CallEstimate::seconds() const {
  double sum = othersSeconds;
  for (const ProductEstimate &product : products)
    sum += product.seconds;
  return sum;
}

CallEstimate estimateCall(const Scheme &scheme, const Config &config, const DeviceInfo &device) {
  return Estimator(scheme, config, device).call();
}

double secondPassSeconds(const Scheme &scheme, const Config &config, const DeviceInfo &device) {
  const auto ofSlices = [&](int64_t classes) {
    const auto secondsOf = [&](ProductKind kind) {
      // Beside either product there is a kernel that makes small things: labels as a slice has them, and u.
      return productCost(scheme, config, kind, shapeOf(scheme, kind, config, classes), device).seconds +
             2 * kBetweenProducts;
    };
    const int64_t parts = scheme.dWeight ? ceilDiv(scheme.hidden, config.weightColumns(scheme, classes)) : 0;
    return secondsOf(ProductKind::again) +
           (parts ? static_cast<double>(parts) * secondsOf(ProductKind::dWeight) : 0);
  };
  const int64_t borrowed = config.borrowedSlices(scheme);
  const int64_t others = ceilDiv(scheme.classes - borrowed * config.borrowedClasses, config.sliceClasses);
  return (borrowed ? static_cast<double>(borrowed) * ofSlices(config.borrowedClasses) : 0) +
         static_cast<double>(others) * ofSlices(config.sliceClasses);
}

bool isEstimated(const Scheme &scheme, const Config &config) {
  return hasRoles(config.forward) && !scheme.hasSecondPass;
}

} // namespace tilewright::lce
