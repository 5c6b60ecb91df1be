#pragma once

#include <cstdint>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

/// OpenBLAS, opened at run time: what the products of a loss are measured against. Nothing else needs it.
class Blas {
public:
  /// Uses `threads` threads. A runtime error says what to install when there is none.
  static StatusOr<Blas> load(int threads);

  /// C (m×n) = op(A) · op(B) in fp32, all row after row without gaps; A is m×k, or k×m when transposed, B
  /// alike.
  void product(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float *a,
               const float *b, float *c) const;

  /// Its version, kernels and threads, on one line.
  const std::string &description() const { return description_; }

private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                         float *, int);
  Sgemm sgemm_ = nullptr;
  std::string description_;
};

} // namespace tilewright
