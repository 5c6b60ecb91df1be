#pragma once

#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/support/device_tensor.h"
#include "tests/support/loss_call.h"

namespace tilewright::test {

/// What came back. Outputs are poisoned with NaN before the call, and empty when they were not asked for.
struct LossResult {
  Status status; ///< of the call, or of the device's work
  LossReport report;
  std::vector<double> loss, lse, entropy, argmax, correct, monitored;
  std::vector<double> dHidden, dWeight, dBias, dLogits;
  std::vector<uint8_t> bits; ///< of all outputs
  bool gapsUntouched = true;
};

LossResult runLinearCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call);

/// A case of cross entropy over logits has them as `x`, with `hidden` equal to `classes`, and no `w`.
LossResult runCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call);

/// What the report says of a call's configuration after a word: 384 of "chunk 384, ..." after "chunk".
int64_t configured(const LossResult &result, const std::string &word);

/// Compares with the reference: losses within 3e-6 of the logits' size, gradients within the tolerance of
/// their inputs' type. `gradientFloor`: how large gradients are before they cancel, for data whose gradients
/// vanish. `ofShifts`: what rounding the rows' shifts adds to the tolerance.
void expectClose(const LossResult &result, const ReferenceResult &reference, const LossCase &data,
                 double gradientFloor = 0, double ofShifts = 0);

} // namespace tilewright::test
