#pragma once

#include <optional>
#include <string>

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"

namespace tilewright {

/// What the losses share. Rows that are not ignored are called *valid*.

/// Numbers the valid rows: row[p] and compactLabel[p] of the p-th one (both -1 beforehand). `summary` gets
/// the number of valid rows; `report` (Device::labelReport) the first row whose label is neither a class nor
/// ignored, if there is one. Losses, lse and dX of all other rows become 0.
///
/// (label N, ignore_index, classes, out row N, out compact_label N, out summary 1, out report 5,
///  out row_loss N, out lse N[, out dx N×H])
struct CompactRowsSpec {
  ElementType label;
  std::optional<ElementType> dHidden; ///< its type, when there is one to clear
};
Kernel compactRows(const CompactRowsSpec &spec);

/// loss = Σ row_loss, or for a mean that over the number of valid rows.
///
/// (row_loss N, summary 1, out loss 1)
Kernel reduceLoss(bool mean);

/// The gradient that arrives for the result: none is given (it is 1), one value, or one for each row.
enum class Upstream { one, scalar, rows };

/// What the gradient of a row's loss is made of.
struct UpstreamSpec {
  Upstream kind = Upstream::one;
  bool mean = false; ///< divide by the number of valid rows
  std::string str() const;
};

/// (summary 1[, grad_output 1 or N])
struct UpstreamParameters {
  View summary, gradOutput;
};
UpstreamParameters declareUpstream(KernelBuilder &k, const UpstreamSpec &spec);

/// The gradient of the losses of rows `row` (R×1, i32): 1×1 or R×1.
Tile rowGradient(KernelBuilder &k, const UpstreamSpec &spec, const UpstreamParameters &parameters,
                 const Tile &row);

} // namespace tilewright
