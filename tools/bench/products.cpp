#include "tools/bench/products.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "compiler/base/integers.h"

#include "tools/bench/blas.h"
#include "tools/bench/cublas.h"

namespace tilewright {
namespace {

constexpr int64_t kChunk = 4096; // rows that stay in the second-level cache longer than the whole

class BlasProducts final : public Products {
public:
  BlasProducts(Blas blas, const LinearProblem &problem, bool lossOnly)
      : blas_(std::move(blas)), problem_(problem), lossOnly_(lossOnly),
        logits_(problem.shape.rows * problem.shape.classes), dHidden_(problem.hidden.size()),
        dWeight_(problem.weight.size()) {}

  Status run() override {
    const auto [rows, hidden, classes] = problem_.shape;
    const float *x = problem_.hidden.data(), *w = problem_.weight.data();
    blas_.product(false, true, rows, classes, hidden, x, w, logits_.data());
    if (lossOnly_) return {};
    blas_.product(false, false, rows, hidden, classes, logits_.data(), w, dHidden_.data());
    blas_.product(true, false, classes, hidden, rows, logits_.data(), x, dWeight_.data());
    return {};
  }

  std::string description() const override {
    return (lossOnly_ ? "one sgemm, " : "three sgemm, ") + blas_.description();
  }

private:
  Blas blas_;
  const LinearProblem &problem_;
  const bool lossOnly_;
  std::vector<float> logits_, dHidden_, dWeight_;
};

/// What cuBLAS's products read and write beside the problem's tensors, of the problem's own type. Where rows
/// of logits would not begin at multiples of 16 bytes the library takes kernels of a quarter of the speed:
/// then it has some more classes, of zeros, as its users give it.
struct CublasTensors {
  OwnedTensor logits, dWeight, paddedWeight;
  TensorRef weight;
};

StatusOr<CublasTensors> cublasTensors(Device &device, const LinearProblem &problem,
                                      const LinearProblemTensors &tensors, bool lossOnly) {
  constexpr int64_t kUnit = 8;
  const auto [rows, hidden, classes] = problem.shape;
  const int64_t padded = roundUp(classes, kUnit);
  CublasTensors t;
  t.weight = tensors.weight.ref;
  if (padded != classes) {
    std::vector<float> weight = problem.weight;
    weight.resize(padded * hidden);
    TW_ASSIGN_OR_RETURN(t.paddedWeight, uploadFloats(device, problem.element, {padded, hidden}, weight));
    t.weight = t.paddedWeight.ref;
  }
  TW_ASSIGN_OR_RETURN(t.logits, allocateTensor(device, problem.element, {rows, padded}));
  if (lossOnly) return t;
  TW_ASSIGN_OR_RETURN(t.dWeight, allocateTensor(device, problem.element, {padded, hidden}));
  return t;
}

/// Of the problem's own type, with its dX's memory as output.
class CublasProducts final : public Products {
public:
  /// In calls of `chunk` rows each.
  CublasProducts(std::shared_ptr<const Cublas> cublas, const LinearProblemTensors &tensors,
                 std::shared_ptr<const CublasTensors> own, bool lossOnly, int64_t chunk)
      : cublas_(std::move(cublas)), tensors_(tensors), own_(std::move(own)), lossOnly_(lossOnly),
        chunk_(chunk) {}

  Status run() override {
    const int64_t rows = tensors_.hidden.ref.sizes[0];
    for (int64_t first = 0; first < rows; first += chunk_)
      TW_RETURN_IF_ERROR(enqueue(first, std::min(chunk_, rows - first)));
    return {};
  }

  std::string description() const override {
    return fmt::format("{}, {}, {}", lossOnly_ ? "one product" : "three products", cublas_->description(),
                       chunk_ == tensors_.hidden.ref.sizes[0] ? "whole"
                                                              : fmt::format("chunks of {} rows", chunk_));
  }

private:
  Status enqueue(int64_t first, int64_t rows) const {
    const TensorRef x = tensors_.hidden.ref.rows(first, rows), dx = tensors_.dHidden.ref.rows(first, rows);
    const TensorRef &w = own_->weight, &z = own_->logits.ref;
    const int64_t hidden = x.sizes[1], classes = w.sizes[0];
    TW_RETURN_IF_ERROR(cublas_->product(false, true, rows, classes, hidden, x, w, z));
    if (lossOnly_) return {};
    TW_RETURN_IF_ERROR(cublas_->product(false, false, rows, hidden, classes, z, w, dx));
    return cublas_->product(true, false, classes, hidden, rows, z, x, own_->dWeight.ref, first > 0);
  }

  std::shared_ptr<const Cublas> cublas_;
  const LinearProblemTensors &tensors_;
  std::shared_ptr<const CublasTensors> own_;
  const bool lossOnly_;
  const int64_t chunk_;
};

} // namespace

Status checkBaseline(Baseline baseline, const Device &device) {
  const bool onGpu = device.target().kind == TargetKind::nvptx;
  if (baseline == Baseline::none || onGpu == (baseline == Baseline::cublas)) return {};
  return userError(std::string("expected --against ") + (onGpu ? "cublas" : "blas") + " on device " +
                   device.info().name + ", found the other; choose the device with TILEWRIGHT_DEVICE");
}

StatusOr<std::vector<std::unique_ptr<Products>>> Products::make(Baseline baseline, bool tf32, bool lossOnly,
                                                                Device &device, const LinearProblem &problem,
                                                                const LinearProblemTensors &tensors) {
  const auto [rows, hidden, classes] = problem.shape;
  if (std::max({rows, hidden, classes}) > std::numeric_limits<int>::max())
    return userError("expected sizes below 2^31 with --against, which the library cannot exceed");
  std::vector<std::unique_ptr<Products>> ways;
  if (baseline == Baseline::blas) {
    TW_ASSIGN_OR_RETURN(Blas blas, Blas::load(device.info().units));
    ways.push_back(std::make_unique<BlasProducts>(std::move(blas), problem, lossOnly));
    return ways;
  }
  TW_ASSIGN_OR_RETURN(CublasTensors own, cublasTensors(device, problem, tensors, lossOnly));
  TW_ASSIGN_OR_RETURN(Cublas cublas, Cublas::load(tf32));
  const auto shared = std::make_shared<const Cublas>(std::move(cublas));
  const auto room = std::make_shared<const CublasTensors>(std::move(own));
  for (const int64_t chunk : {rows, kChunk})
    if (ways.empty() || chunk < rows)
      ways.push_back(std::make_unique<CublasProducts>(shared, tensors, room, lossOnly, chunk));
  return ways;
}

} // namespace tilewright
