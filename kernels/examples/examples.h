#pragma once

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"

namespace tilewright {

/// Small kernels to learn the DSL from, most of them those of Triton's tutorials; kernels/README.md walks
/// through them. `element` is the type of the tensors, but for those said to be f32; the arithmetic is fp32
/// in all of them. Parameters in the order of a launch:

/// c = a + b.
///     (a N, b N, out c N)
Kernel vectorAdd(ElementType element);

/// y = softmax of each row of x.
///     (x N×C, out y N×C)
Kernel rowSoftmax(ElementType element);

/// y = x / (1 - p), or with probability p 0, drawn for each element by itself. 0 ≤ p < 1. A seed and a place
/// decide, so that a backward pass is the same kernel on the gradient. N is below 2³¹.
///     (x N, p, seed, out y N)
Kernel dropout(ElementType element);

/// y = (x - mean) · scale · gain + bias, mean of each row, scale = 1/√(variance of the row + epsilon).
///     (x N×C, gain C, bias C, epsilon, out y N×C, out mean N f32, out scale N f32)
Kernel layerNorm(ElementType element);

/// Its gradients, with n = (x - mean) · scale and g = dy · gain:
/// dx = (g - n · mean of g n - mean of g) · scale, and of each `rows` rows the sums Σ dy n and Σ dy. `width`
/// is at least C; the rows of a program are whole tiles of that width.
///     (dy N×C, x N×C, gain C, mean N f32, scale N f32, out dx N×C, out parts ⌈N/rows⌉×C f32, out parts
///     ⌈N/rows⌉×C f32)
Kernel layerNormGradient(ElementType element, int64_t width, int64_t rows);
Kernel layerNormGradient(ElementType element);

/// What those parts add up to, the gradients of gain and bias.
///     (parts P×C f32, parts P×C f32, out dgain C, out dbias C)
Kernel layerNormGradientSums(ElementType element);

/// c = a·b; a program makes blockRows × blockColumns of it.
///     (a M×K, b K×N, out c M×N)
Kernel matmul(ElementType element, int64_t blockRows, int64_t blockColumns);
Kernel matmul(ElementType element);

/// y = GELU(x·w + bias), GELU(t) = t/2 · (1 + erf(t/√2)); a program makes blockRows × blockColumns of it.
///     (x M×K, w K×N, bias N, out y M×N)
Kernel matmulBiasGelu(ElementType element, int64_t blockRows, int64_t blockColumns);
Kernel matmulBiasGelu(ElementType element);

/// o = softmax(scale · q·kᵀ) v of each head, `scale` positive, with an online softmax: one pass over the
/// keys. The heads' rows lie one below the other in all four matrices, D = `headSize` numbers each. If
/// `causal`, position i sees positions up to i alone. A program makes blockRows rows of one head, of
/// blockKeys keys at a time. What multiplies v is rounded to `element`. (Dao, FlashAttention-2, 2023)
///     (q HN×D, k HN×D, v HN×D, N, H, scale, out o HN×D)
Kernel attention(ElementType element, int64_t headSize, bool causal, int64_t blockRows, int64_t blockKeys);
/// Of blocks that suit a GPU.
Kernel attention(ElementType element, int64_t headSize, bool causal);

} // namespace tilewright
