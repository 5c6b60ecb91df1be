#include <cmath>

#include "kernels/examples/examples.h"

namespace tilewright {

Kernel matmulBiasGelu(ElementType element, int64_t blockRows, int64_t blockColumns) {
  const std::string specialisation = elementName(element) + std::string(",") + std::to_string(blockRows) +
                                     "x" + std::to_string(blockColumns);
  return defineKernel("matmul_bias_gelu", specialisation, [=](KernelBuilder &k) {
    const View x = k.input("x", element, 2), w = k.input("w", element, 2), bias = k.input("bias", element, 1);
    const View y = k.output("y", element, 2);

    const auto [rows, columns] = k.block(x.dim(0), w.dim(1), blockRows, blockColumns);

    const Tile t = dot(x.rows(rows), w.columns(columns)) + bias[columns];
    const Tile gelu = 0.5 * t * (1.0 + erf(t * M_SQRT1_2));

    k.store(y, rows, columns, gelu);
  });
}

Kernel matmulBiasGelu(ElementType element) { return matmulBiasGelu(element, 64, 128); }

} // namespace tilewright
