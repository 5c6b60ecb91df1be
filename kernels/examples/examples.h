#pragma once

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"

namespace tilewright {

/// Four small kernels to learn the DSL from; kernels/README.md walks through them. `element` is the type of
/// the tensors; the arithmetic is fp32 in all of them. Parameters in the order of a launch:

/// c = a + b.
///     (a N, b N, out c N)
Kernel vectorAdd(ElementType element);

/// y = softmax of each row of x.
///     (x N×C, out y N×C)
Kernel rowSoftmax(ElementType element);

/// y = (x - mean) / √(variance + epsilon) · gain + bias, mean and variance of each row.
///     (x N×C, gain C, bias C, epsilon, out y N×C)
Kernel layerNorm(ElementType element);

/// y = GELU(x·w + bias), GELU(t) = t/2 · (1 + erf(t/√2)); a program makes blockRows × blockColumns of it.
///     (x M×K, w K×N, bias N, out y M×N)
Kernel matmulBiasGelu(ElementType element, int64_t blockRows, int64_t blockColumns);
Kernel matmulBiasGelu(ElementType element);

} // namespace tilewright
