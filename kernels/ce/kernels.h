#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"
#include "compiler/options.h"
#include "compiler/target.h"
#include "kernels/loss/kernels.h"
#include "kernels/loss/terms/terms.h"

namespace tilewright::ce {

/// Loss, lse and gradient of one row of logits. Rows are numbered by `row`, the valid ones first, then -1.
///
/// (logits N×V, row N, label N, logit terms, row terms[, class_weight V], out row_loss N, out lse N
///  [, out entropy N][, out argmax N, out correct N][, out top N, out norm N]
///  [, validCount 1[, grad_output 1 or N], out dlogits N×V])
struct RowSpec {
  struct Gradient {
    ElementType output; ///< of dlogits
    UpstreamSpec upstream;
  };
  ElementType element; ///< of logits
  std::optional<Gradient> gradient;
  LossTerms terms = {}; ///< neither bias nor margin
  RowOutputs outputs = {};
};
Kernel row(const RowSpec &spec);

/// How `row` is compiled where rows have so many classes: what is read again stays on chip if it fits, on
/// sm_90 and later in a cluster of CTAs.
struct RowSchedule {
  CompileOptions options;
  std::string str() const; ///< for people
};
RowSchedule scheduleRow(const RowSpec &spec, int64_t classes, const Target &target, int64_t sharedBytes);

} // namespace tilewright::ce
