#pragma once

#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

/// Valid rows of the chunk that begins at the `begin`-th valid row, at most `capacity`.
inline Index chunkRows(KernelBuilder &k, const View &validCount, const Index &begin, const Index &capacity) {
  const Index valid = k.toIndex(first(k, validCount));
  return max(min(valid - begin, capacity), k.constant(0));
}

} // namespace tilewright::lce
