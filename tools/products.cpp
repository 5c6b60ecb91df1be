#include "tools/products.h"

#include <limits>

#include "tools/blas.h"
#include "tools/contest.h"
#include "tools/cublas.h"

namespace tilewright {
namespace {

class BlasProducts final : public ThreeProducts {
public:
  BlasProducts(Blas blas, const LinearProblem &problem)
      : blas_(std::move(blas)), problem_(problem), logits_(problem.shape.rows * problem.shape.classes),
        dHidden_(problem.hidden.size()), dWeight_(problem.weight.size()) {}

  StatusOr<double> milliseconds() override {
    return wallMilliseconds([&]() -> Status {
      const auto [rows, hidden, classes] = problem_.shape;
      const float *x = problem_.hidden.data(), *w = problem_.weight.data();
      blas_.product(false, true, rows, classes, hidden, x, w, logits_.data());
      blas_.product(false, false, rows, hidden, classes, logits_.data(), w, dHidden_.data());
      blas_.product(true, false, classes, hidden, rows, logits_.data(), x, dWeight_.data());
      return {};
    });
  }

  std::string description() const override { return "three sgemm, " + blas_.description(); }

private:
  Blas blas_;
  const LinearProblem &problem_;
  std::vector<float> logits_, dHidden_, dWeight_;
};

/// In calls of whole N; of the problem's own type, with its gradients' memory as output.
class CublasProducts final : public ThreeProducts {
public:
  CublasProducts(Cublas cublas, Device &device, const LinearProblemTensors &tensors, OwnedTensor logits)
      : cublas_(std::move(cublas)), device_(device), tensors_(tensors), logits_(std::move(logits)) {}

  StatusOr<double> milliseconds() override {
    return device_.time(nullptr, [&]() -> Status {
      const TensorRef &x = tensors_.hidden.ref, &w = tensors_.weight.ref, &z = logits_.ref;
      const int64_t rows = x.sizes[0], hidden = x.sizes[1], classes = w.sizes[0];
      TW_RETURN_IF_ERROR(cublas_.product(false, true, rows, classes, hidden, x, w, z));
      TW_RETURN_IF_ERROR(cublas_.product(false, false, rows, hidden, classes, z, w, tensors_.dHidden.ref));
      return cublas_.product(true, false, classes, hidden, rows, z, x, tensors_.dWeight.ref);
    });
  }

  std::string description() const override { return "three products, " + cublas_.description(); }

private:
  Cublas cublas_;
  Device &device_;
  const LinearProblemTensors &tensors_;
  OwnedTensor logits_;
};

} // namespace

StatusOr<std::unique_ptr<ThreeProducts>> ThreeProducts::make(Floor floor, bool tf32, Device &device,
                                                             const LinearProblem &problem,
                                                             const LinearProblemTensors &tensors) {
  const auto [rows, hidden, classes] = problem.shape;
  const bool onGpu = device.target().kind == TargetKind::nvptx;
  if (onGpu != (floor == Floor::cublas))
    return userError(std::string("expected --against ") + (onGpu ? "cublas" : "blas") + " on device " +
                     device.info().name + ", found the other; choose the device with TILEWRIGHT_DEVICE");
  if (std::max({rows, hidden, classes}) > std::numeric_limits<int>::max())
    return userError("expected sizes below 2^31 with --against, which the library cannot exceed");
  if (floor == Floor::blas) {
    TW_ASSIGN_OR_RETURN(Blas blas, Blas::load(device.info().units));
    return std::unique_ptr<ThreeProducts>(new BlasProducts(std::move(blas), problem));
  }
  TW_ASSIGN_OR_RETURN(OwnedTensor logits, allocateTensor(device, problem.element, {rows, classes}));
  TW_ASSIGN_OR_RETURN(Cublas cublas, Cublas::load(tf32));
  return std::unique_ptr<ThreeProducts>(
      new CublasProducts(std::move(cublas), device, tensors, std::move(logits)));
}

} // namespace tilewright
