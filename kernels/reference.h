#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/loss_options.h"

namespace tilewright {

/// What the losses are checked against: the same mathematics in float64, written as plainly as the formulas.
/// Inputs are fp32, which holds every bf16 and f16 number; matrices are dense, row after row.
struct ReferenceOptions : LossOptions {
  std::vector<double> bias;                 ///< empty (0), or V
  std::vector<double> classWeight;          ///< empty (1), or V
  std::optional<Margin> lmcl;               ///< without bias, logit scale and softcap
  std::vector<double> gradOutput;           ///< empty (1), one value, or one for each row
  std::vector<double> gradLse, gradEntropy; ///< empty (0), or one for each row
  bool gradients = true;
};

struct ReferenceResult {
  int64_t validRows = 0;
  std::vector<double> loss; ///< 1 value, or N with Reduction::none

  std::vector<double> lse, entropy; ///< N; 0 for an ignored row
  std::vector<double> argmax;       ///< N; the first of the largest logits, -1 for an ignored row
  std::vector<double> correct;      ///< N; 1 where argmax is the label, else 0
  std::array<double, kMonitoredQuantities> monitored = {}; ///< of the final logits, as `Monitored` says

  std::vector<double> dHidden, dWeight, dBias, dLogits;
  /// The largest |logit|, at least 1: the scale against which an error of the loss is judged.
  double logitSize = 1;
};

/// Every label is a class or the ignore index. Works on chunks of rows, so that N×V is never held.
ReferenceResult referenceLinearCrossEntropy(const float *hidden, const float *weight, const int64_t *label,
                                            int64_t rows, int64_t hiddenSize, int64_t classes,
                                            const ReferenceOptions &options);

/// The logits are t in z = softcap(S·t); neither bias nor LMCL.
ReferenceResult referenceCrossEntropy(const float *logits, const int64_t *label, int64_t rows,
                                      int64_t classes, const ReferenceOptions &options);

} // namespace tilewright
