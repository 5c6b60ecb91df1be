#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"

namespace tilewright {

/// What the losses share. Rows that are not ignored are called *valid*.

/// Numbers the valid rows: row[p] and compactLabel[p] of the p-th one, -1 behind the last. `validCount` gets
/// the number of valid rows; `status` (runtime/call_status.h) the first row whose label is neither a class
/// nor ignored, or that there is none. Losses, lse and dX of all other rows become 0.
///
/// Each program has to know how many valid rows there are before its own. It reads all labels, which for many
/// rows takes time that grows with N²; or, with `counted`, what `countRows` and then `scanRows` counted. That
/// pays for more rows than kMostUncountedRows.
///
/// (label N, ignore_index, classes, sequence[, counts 2×B, starts G+2], out row N, out compact_label N,
///  out validCount 1, out status 8, out row_loss N, out lse N[, out dx N×H])
struct CompactRowsSpec {
  ElementType label;
  std::optional<ElementType> dHidden; ///< its type, when there is one to clear
  bool counted = false;
  std::string str() const; ///< of the others
};
Kernel compactRows(const CompactRowsSpec &spec);

/// The same in a kernel that does more with the rows. Its parameters are the kernel's next ones.
class RowCompaction {
public:
  struct Rows {
    Tile isValid, label; ///< truth values, i64
    Tile place;          ///< what numbers them, i32: the row's place among all, -1 past the last row
  };

  RowCompaction(KernelBuilder &k, const CompactRowsSpec &spec);
  const Index &rows() const { return rows_; }
  /// Numbers a program's rows and stores all that is told of them. `first`: what the first program does, too,
  /// which is given the number of valid rows.
  Rows compact(const Range &rows, const std::function<void(const Tile &)> &first = {}) const;

private:
  KernelBuilder &k_;
  CompactRowsSpec spec_;
  Index ignore_, classes_, sequence_, rows_;
  View label_, counts_, starts_, row_, compactLabel_, validCount_, status_, rowLoss_, lse_, dHidden_;
};

constexpr int64_t kMostUncountedRows = 16384;
constexpr int64_t kCountedRows = 512;  ///< of a block: B = N / kCountedRows, rounded up
constexpr int64_t kCountedBlocks = 32; ///< of a group: G = B / kCountedBlocks, rounded up

/// counts[0] = the number of valid rows in each block; counts[1] = the block's first row whose label is
/// neither a class nor ignored, N where there is none.
///
/// (label N, ignore_index, classes, out counts 2×B)
Kernel countRows(ElementType label);

/// starts[g] = the number of valid rows before group g; then that of all rows, and the first bad row of all.
///
/// (counts 2×B, out starts G+2)
Kernel scanRows();

/// loss = Σ row_loss, or for a mean that over the number of valid rows.
///
/// (row_loss N, validCount 1, out loss 1)
Kernel reduceLoss(bool mean);

/// The same in one program of a kernel that does something else besides. Its parameters are the kernel's next
/// ones.
class LossReduction {
public:
  LossReduction(KernelBuilder &k, bool mean);
  void store() const;

private:
  KernelBuilder &k_;
  bool mean_;
  View rowLoss_, validCount_, loss_;
};

/// scaled = scale · gradient, rounded once to the result's type.
///
/// (gradient R×C, scale 1, out scaled R×C)
Kernel scaleGradient(ElementType element, ElementType result);
/// The same where `scaled` holds the gradient. Nothing is done where the scale is 1.
///
/// (scale 1, out scaled R×C)
Kernel scaleGradientInPlace(ElementType element);
/// Two gradients in place in one launch, as a launch is all that it takes where the scale is 1.
///
/// (scale 1, out larger R×C, out smaller S×C), S <= R
Kernel scaleGradientPair(ElementType element);

/// The class weight of each row's label; 0 where there is none.
///
/// (label N, class_weight V, out row_weight N)
Kernel rowWeights();

/// weight_facts[0] is what a mean multiplies weighted losses with when it then divides by the number of valid
/// rows: that number over Σ u_y, 0 where that is 0 (without `mean` 1). weight_facts[1] = Σ_c u_c / V.
/// `status` (runtime/call_status.h) gets the first class whose weight is negative or not finite, or that
/// there is none.
///
/// (row_weight N, class_weight V, validCount 1, sequence, out weight_facts 2, out status 8)
Kernel weightFacts(bool mean);

/// What is made of each row beside its loss and lse.
struct RowOutputs {
  bool entropy = false;
  bool best = false;      ///< argmax, and whether it is the label
  bool monitored = false; ///< largest logit and 2-norm of the logits; with it the other two
  std::string str() const;
};

/// The monitored quantities of all rows, in their order. Rows that are not valid have 0 everywhere and argmax
/// -1.
///
/// (lse N, entropy N, top N, norm N, argmax N, correct N, validCount 1, out monitored kMonitoredQuantities)
Kernel monitor();

/// The gradient that arrives for the result: none is given (it is 1), one value, or one for each row.
enum class Upstream { one, scalar, rows };

/// What the gradient of a row's loss is made of.
struct UpstreamSpec {
  Upstream kind = Upstream::one;
  bool mean = false; ///< divide by the number of valid rows
  std::string str() const;
};

/// (validCount 1[, grad_output 1 or N])
struct UpstreamParameters {
  View validCount, gradOutput;
};
UpstreamParameters declareUpstream(KernelBuilder &k, const UpstreamSpec &spec);

/// The gradient of the losses of rows `row` (R×1, i32): 1×1 or R×1.
Tile rowGradient(KernelBuilder &k, const UpstreamSpec &spec, const UpstreamParameters &parameters,
                 const Tile &row);

} // namespace tilewright
