#pragma once

#include <cstdint>
#include <vector>

#include "kernels/reference.h"

namespace tilewright::reference {

/// What the formulas say of one row's final logits.
struct Row {
  double main = 0, extra = 0;
  double lse = 0, entropy = 0, largest = 0, norm = 0;
  int64_t argmax = -1;
  double size = 0; ///< the largest |logit|
  // Of the exponentials exp(z − largest): their sum, and the sum without the target's, which keeps the digits
  // of a loss near 0.
  double total = 1, others = 0;
};

/// What the gradients of a row's terms are multiplied with.
struct RowUpstream {
  double main = 0, extra = 0, lse = 0, entropy = 0;
};

/// The loss as a function of one row.
class RowLoss {
public:
  RowLoss(const ReferenceOptions &options, int64_t classes);

  /// Raw logits t (products, or logits in memory) to final ones, in place.
  void finishLogits(double *t, int64_t label) const;
  Row evaluate(const double *z, int64_t label) const;
  /// Final logits to the gradient by the raw ones, in place.
  void differentiate(double *z, int64_t label, const Row &row, const RowUpstream &upstream) const;

  double weightOf(int64_t label) const { return o_.classWeight.empty() ? 1.0 : o_.classWeight[label]; }

private:
  double mainOf(const double *z, int64_t label, const Row &row) const;
  double slope(double z) const; ///< dz/dt

  const ReferenceOptions &o_;
  const int64_t classes_;
  const double smoothing_; ///< A
  double weightSum_;       ///< Σ_c u_c
};

} // namespace tilewright::reference
