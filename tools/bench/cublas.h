#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// cuBLAS, opened at run time: what the products of a loss on a GPU are measured against. Nothing else needs
/// it.
class Cublas {
public:
  /// For the device that is current, which is the one that a Device last worked with on this thread. A
  /// runtime error says what to install when there is none.
  /// `tf32`: products of f32 may round their operands.
  static StatusOr<Cublas> load(bool tf32 = false);

  /// Enqueues C (m×n) = op(A) · op(B), plus C if asked, on the null stream, summed in fp32; all row after row
  /// in device memory. A is m×k, or k×m when transposed, B alike.
  Status product(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const TensorRef &a,
                 const TensorRef &b, const TensorRef &c, bool accumulate = false) const;

  const std::string &description() const { return description_; }

private:
  using Handle = void *;
  using Gemm = int (*)(Handle, int, int, int, int, int, const void *, const void *, int, int, const void *,
                       int, int, const void *, void *, int, int, int, int);
  std::shared_ptr<void> handle_;
  Gemm gemm_ = nullptr;
  int compute_ = 0; ///< its cublasComputeType_t
  std::string description_;
};

} // namespace tilewright
