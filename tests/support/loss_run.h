#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/reference.h"
#include "tests/support/device_tensor.h"
#include "tests/support/loss_case.h"

namespace tilewright::test {

/// How a loss is called.
struct LossCall {
  Reduction reduction = Reduction::mean;
  Variant variant = Variant::automatic;
  int64_t workspaceLimit = 0;
  ElementType label = ElementType::i64;
  bool wantsDHidden = true, wantsDWeight = true, wantsLse = true;
  std::optional<ElementType> gradient; ///< type of the gradients; the inputs' own by default
  std::vector<double> gradOutput;
  int64_t gap = 0;      ///< elements between the rows of every matrix
  bool inPlace = false; ///< cross entropy: the gradient replaces the logits

  std::string str() const;
};

/// What came back. Outputs are poisoned with NaN before the call, and empty when they were not asked for.
struct LossResult {
  Status status;
  LossReport report;
  std::vector<double> loss, lse, dHidden, dWeight, dLogits;
  std::vector<uint8_t> bits; ///< of all outputs
  bool gapsUntouched = true;
};

LossResult runLinearCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call);
ReferenceResult referenceFor(const LossCase &data, const LossCall &call);

/// A case of cross entropy over logits has them as `x`, with `hidden` equal to `classes`, and no `w`.
LossResult runCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call);
ReferenceResult logitsReferenceFor(const LossCase &data, const LossCall &call);

/// Compares with the reference: losses within 3e-6 of the logits' size, gradients within the tolerance of
/// their inputs' type. `gradientFloor`: how large gradients are before they cancel, for data whose gradients
/// vanish.
void expectClose(const LossResult &result, const ReferenceResult &reference, const LossCase &data,
                 double gradientFloor = 0);

} // namespace tilewright::test
