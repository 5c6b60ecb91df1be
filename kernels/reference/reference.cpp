#include "kernels/reference.h"

#include <algorithm>

#include "kernels/reference/product.h"
#include "kernels/reference/rows.h"
#include "kernels/reference/unit_rows.h"

namespace tilewright {

using namespace reference;

ReferenceResult referenceLinearCrossEntropy(const float *hidden, const float *weight, const int64_t *label,
                                            int64_t rows, int64_t hiddenSize, int64_t classes,
                                            const ReferenceOptions &options) {
  std::vector<double> x(hidden, hidden + rows * hiddenSize), w(weight, weight + classes * hiddenSize);
  std::optional<UnitRows> unitX, unitW;
  if (options.lmcl) {
    x = unitX.emplace(x, hiddenSize).values();
    w = unitW.emplace(w, hiddenSize).values();
  }
  Rows losses(label, rows, classes, options);
  ReferenceResult &result = losses.result;
  if (options.gradients) {
    result.dHidden.assign(x.size(), 0.0);
    result.dWeight.assign(w.size(), 0.0);
    if (!options.bias.empty()) result.dBias.assign(classes, 0.0);
  }
  const int64_t chunk = 256;
  const MatrixView allW = dense(w.data(), hiddenSize);
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    const MatrixView someX = dense(&x[first * hiddenSize], hiddenSize);
    std::vector<double> z(count * classes, 0.0); // then G, the gradient by the products
    addProduct(count, classes, hiddenSize, someX, allW.transposed(), z.data());
    losses.chunk(z.data(), first, count);
    if (!options.gradients) continue;
    const MatrixView g = dense(z.data(), classes);
    addProduct(count, hiddenSize, classes, g, allW, &result.dHidden[first * hiddenSize]);
    addProduct(classes, hiddenSize, count, g.transposed(), someX, result.dWeight.data());
    for (std::size_t j = 0; j < result.dBias.size(); ++j)
      for (int64_t i = 0; i < count; ++i)
        result.dBias[j] += g.at(i, j);
  }
  if (options.lmcl && options.gradients) {
    unitX->pullBack(result.dHidden);
    unitW->pullBack(result.dWeight);
  }
  return losses.finish();
}

ReferenceResult referenceCrossEntropy(const float *logits, const int64_t *label, int64_t rows,
                                      int64_t classes, const ReferenceOptions &options) {
  Rows losses(label, rows, classes, options);
  std::vector<double> z(logits, logits + rows * classes);
  losses.chunk(z.data(), 0, rows);
  if (options.gradients) losses.result.dLogits = std::move(z);
  return losses.finish();
}

} // namespace tilewright
