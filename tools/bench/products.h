#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/bench/random_problem.h"

namespace tilewright {

/// What the loss is measured against.
enum class Baseline { none, blas, cublas };
/// OpenBLAS is for a CPU, cuBLAS for a GPU.
Status checkBaseline(Baseline baseline, const Device &device);

/// The products of the loss and nothing else, through a library: what no exact implementation can avoid.
/// Three with its gradients, else one. The problem and its tensors outlive it.
class Products {
public:
  virtual ~Products() = default;
  /// Does them, one behind the other; of cuBLAS, enqueues them.
  virtual Status run() = 0;
  virtual std::string description() const = 0;

  /// In all the ways in which the library may be called, of which the fastest is the baseline. `baseline` is
  /// not none and the device's; of cuBLAS, `tf32` allows it to round f32 operands. Errors say what is
  /// missing: a library, a device, or memory.
  static StatusOr<std::vector<std::unique_ptr<Products>>> make(Baseline baseline, bool tf32, bool lossOnly,
                                                               Device &device, const LinearProblem &problem,
                                                               const LinearProblemTensors &tensors);
};

} // namespace tilewright
