#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/lce/plan.h"
#include "kernels/reference.h"
#include "tests/support/loss_case.h"

namespace tilewright::test {

/// How a loss is called. The ignore index is the data's.
struct LossCall : LossOptions {
  Variant variant = Variant::automatic;
  int64_t workspaceLimit = 0;
  std::optional<Margin> lmcl;
  bool flushSmallProbabilities = true;
  bool accumulate = false; ///< gradients of the weight and the bias are added to what their buffers hold

  ElementType label = ElementType::i64;
  bool wantsDHidden = true, wantsDWeight = true, wantsDBias = true, wantsLse = true;
  bool observes = false; ///< wants each row's entropy, argmax and correctness, and what is monitored
  std::optional<ElementType> gradient; ///< type of the gradients; the inputs' own by default
  std::vector<double> gradOutput, gradLse, gradEntropy;
  int64_t gap = 0;      ///< elements between the rows of every matrix
  bool inPlace = false; ///< cross entropy: the gradient replaces the logits
  /// Linear cross entropy: a forward call, and a backward call from the lse that it stored.
  bool apart = false;
  /// Linear cross entropy: changes what `plan` chose, and no tuned configuration is looked for.
  std::function<void(lce::Config &)> changePlan;

  std::string str() const;
};

ReferenceOptions referenceOptions(const LossCase &data, const LossCall &call);
ReferenceResult referenceFor(const LossCase &data, const LossCall &call);

/// A case of cross entropy over logits has them as `x`, with `hidden` equal to `classes`, and no `w`.
ReferenceResult logitsReferenceFor(const LossCase &data, const LossCall &call);

} // namespace tilewright::test
