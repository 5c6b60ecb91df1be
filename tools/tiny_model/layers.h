#pragma once

#include "compiler/dsl/builder.h"

namespace tilewright {

/// The hidden layer of the tiny model, h = tanh(x·wᵀ + b), and what its backward needs. All fp32.

/// (x N×D, w M×D, b M, out h N×M)
Kernel denseTanh();

/// The slope behind tanh, dz = dh·(1 - h²). (dh N×M, h N×M, out dz N×M)
Kernel tanhBackward();

/// dx = dz·w. (dz N×M, w M×D, out dx N×D)
Kernel denseBackwardInput();

/// dw = dzᵀ·x. (dz N×M, x N×D, out dw M×D)
Kernel denseBackwardWeight();

/// db_j = Σ_i dz_ij. (dz N×M, out db M)
Kernel denseBackwardBias();

} // namespace tilewright
