#pragma once

#include "kernels/lce/forward_kernels.h"

namespace tilewright::lce {

/// The kernels that make dX, dW and db from E. For the symbols see `forward_kernels.h`.

/// The unit in which the largest number of all scaled rows of X is 2^14, so that rows of small numbers and
/// small scales have f16's full precision; at least 2^-60. largest_i = max_j |xc_ij|.
///
/// (scale C, largest C, out gain 1)
Kernel rowsGain();
CompileOptions rowsGainOptions(TargetKind target); ///< that suit it
/// The same in a kernel that has these parameters.
Tile gainOf(KernelBuilder &k, const View &scale, const View &largest);

/// Where a kernel that needs the gain has it from. Of few rows that each program finds it by itself takes
/// less time than a launch; the first one stores it.
enum class Gain { none, given, made };

/// Rows of X, each times its scale, over the gain: xs_i = xc_i scale_i / gain.
///
/// (scale C, gain 1 or largest C, xc C×H, out xs C×H[, out gain 1])
struct ScaleRowsSpec {
  ElementType element;
  Gain gain = Gain::given;
};
Kernel scaleRows(const ScaleRowsSpec &spec);

/// The tensor cores multiply TF32 from shared memory along the rows of both operands alone: for dX and dW
/// matrices are transposed beforehand, which takes some percent of the product's time.
///
/// (m R×C, out t C×R)
Kernel transposeMatrix(ElementType element);

/// Sorts a chunk's rows by label: order[s] = row at sorted position s, run[s] = length of the run of equal
/// labels that starts there (else 0), slot[label] = the position where its run starts (-1 beforehand).
///
/// (label C, out order C, out run C, out slot V)
Kernel rankLabels();
CompileOptions rankLabelsOptions(TargetKind target); ///< that suit it

/// The same in a kernel whose programs have rows of a chunk: its outputs, which are its next parameters.
struct LabelRanks {
  View order, run, slot;
  explicit LabelRanks(KernelBuilder &k);
  void store(KernelBuilder &k, const View &label, const Range &rows) const;
};

/// The row of u that holds a label's one-hot part of dW: the label's slot or, of few classes, the label.
enum class OneHotPlace { slot, label };

/// u = Σ t_i x_i over each run of equal labels: the one-hot part of dW, for each label that occurs. u has a
/// row for each sorted position, or for each class from `first_class` on. `scalesRows`: x_i becomes r_i x_i,
/// the row that dW multiplies, besides. `gain`: both are over the gain, which dW is multiplied by; it is made
/// only where rows are scaled. `reduction`: `reduceLoss` besides.
///
/// (x N×H, row C, one_hot C, order C, run C[, label C, first_class][, pieces P×H][, gain 1],
///  out u C×H or V×H[, scale C, out xs C×H[, largest C, out gain 1]][, row_loss N, valid_count 1, out loss
///  1])
struct OneHotSumSpec {
  ElementType element;
  int64_t columns;       ///< of one program
  int64_t positions = 1; ///< of the sorted order, that one program has; it sums the runs that begin there
  OneHotPlace place = OneHotPlace::slot;
  Reduction reduction = Reduction::none;
  bool ofPieces = false; ///< `oneHotPieces` has summed parts of long runs
  Gain gain = Gain::none;
  bool scalesRows = false;
};
Kernel oneHotSum(const OneHotSumSpec &spec);
CompileOptions oneHotSumOptions(); ///< that suit it and `oneHotPieces`
/// Rows of so many columns that its program has registers for.
int64_t oneHotRowsAtOnce(int64_t columns);

/// sums[label] = Σ t_i over the rows of each label that occurs (0 beforehand).
///
/// (label C, one_hot C, order C, run C, out sums V)
Kernel labelSums();

/// Parts of these sums for chunks of many rows, where runs may be long. kRunPiece sorted positions are a
/// piece; each piece is summed by a program of its own. There are P = C / kRunPiece pieces, rounded up.
/// pieces[p] = the part of piece p that belongs to a run from an earlier piece; not defined where there is no
/// such run.
///
/// (x N×H, row C, one_hot C, label C, order C, run C, slot V, out pieces P×H)
constexpr int64_t kRunPiece = 512;
Kernel oneHotPieces(ElementType element, int64_t columns);

/// The same in two steps for `labelSums`.
///
/// (one_hot C, label C, order C, run C, slot V, out pieces P)
Kernel labelPieces();
/// (one_hot C, order C, run C, slot V, pieces P, out sums V)
Kernel labelSumsOfPieces();

/// dX_i = r_i (E W)_i + t_i w_y [- uniform_i Σ_j u_j w_j][+ self_i x_i].
///
/// (e C×V, w V×H[, wt H×V], label C, scale C, one_hot C, row C[, uniform C, class_sum 1×H][, self C, xc C×H],
///  out dx N×H)
///
/// With `parts`: products (parts·P)×H, which `dHiddenParts` made, takes e's place.
struct DHiddenSpec {
  ElementType element, exponentials, output;
  Block block;
  bool uniform = false, self = false;
  int64_t parts = 0;
  bool transposed = false; ///< the product takes Wᵀ
};
Kernel dHidden(const DHiddenSpec &spec);

/// Blocks of the kernel that adds up parts. On a GPU more programs than multiprocessors make a short one: of
/// 16 parts of 256×1024 sums an H100 takes 6.3 µs, with blocks of 8 rows 10.1 (ncu, caches kept, 2026-11-26).
constexpr Block kTotalBlock{2, 512}, kTotalBlockOnCpu{8, 512};

/// E W by split-K: the classes are cut into parts, and part p's product of row i is row p P + i of
/// `products`. P is a multiple of the block's rows. Rows beyond the valid ones are not defined.
///
/// (e C×V, w V×H or wt H×V, row C, out products (parts·P)×H)
struct DHiddenPartsSpec {
  ElementType element, exponentials;
  Block block;
  int64_t parts;
  bool transposed = false; ///< wt is given
};
Kernel dHiddenParts(const DHiddenPartsSpec &spec);

/// How a chunk's part of a gradient joins those of other chunks.
struct Accumulation {
  enum class Mode {
    store,  ///< gradient = part
    add,    ///< gradient += part, in fp32
    finish, ///< gradient = partial + part
  };
  Mode mode = Mode::store;
  bool ontoOutput = false; ///< store, finish: the output's old contents are added, too
  std::string str() const;
};

/// A chunk's part of dW = [gain] (Eᵀ·xs + the rows of u) [- f_j Σ_i uniform_i x_i, f_j = 1 or class_factor].
///
/// (e C×V, xs C×H, u C×H or V×H, slot V, validCount, first[, gain 1][, row_sum 1×H[, class_factor V]],
///  [, partial V×H], out dw V×H); `transposed`: e is V×C, and xs H×C
struct DWeightSpec {
  ElementType exponentials, output;
  Accumulation accumulation;
  Block block;
  bool uniform = false, classFactor = false, gain = false;
  OneHotPlace place = OneHotPlace::slot;
  bool transposed = false;
  bool skipsAbsent = false; ///< nothing is read for a class that has no row of u, as few have one
};
Kernel dWeight(const DWeightSpec &spec);

/// Rounds the fp32 sums of all chunks to a dW of 16 bits. The sums of the last H-K columns are in `partial`.
/// `inPlace`: the sums of the first K columns, K at most H / 2, are in dW's own rows, each in the place of
/// two numbers. `ontoOutput`: the output's old contents are added to those in `partial`. Of short chunks this
/// launch takes less time than a last product that rounds (`roundsInProduct`).
///
/// (partial V×(H-K), out dw V×H)
struct RoundSumsSpec {
  ElementType output;
  bool inPlace = false, ontoOutput = false;
};
Kernel roundSums(const RoundSumsSpec &spec);
/// The reverse, in place: numbers of dw become fp32, in dw's memory or, for the other columns, in `partial`.
///
/// (out partial V×(H-K), out dw V×H)
Kernel widenSums(ElementType output);

/// A chunk's part of db_j = Σ_i (E_ij r_i + [j = y_i] t_i [- f_j uniform_i]), from what `sumRows` made of the
/// first term and `labelSums` of the second.
///
/// (parts P×V, label_sums V[, uniform C[, class_factor V]][, partial V], out db V)
struct DBiasSpec {
  ElementType output;
  Accumulation accumulation;
  bool uniform = false, classFactor = false;
};
Kernel dBias(const DBiasSpec &spec);

/// Σ over blocks of kSummedRows rows of a matrix, each row times its factor; of a chunk the valid rows alone.
/// To be compiled with `sumRowsOptions`.
///
/// (m R×H[, factor R][, validCount, first], out sum P×H)
struct SumRowsSpec {
  ElementType element;
  bool factor = false, validRows = false;
};
constexpr int64_t kSummedRows = 512;
Kernel sumRows(const SumRowsSpec &spec);
/// On a GPU a program is one warp, whose lanes have columns of their own: nothing is exchanged.
CompileOptions sumRowsOptions();

/// 1 / |w_j| of a matrix's rows, and that times the class weight where there is one.
///
/// (w V×H[, class_weight V], out norm V[, out class_factor V])
Kernel rowNorms(ElementType element, bool classWeight);

/// The gradient of w_j from the gradient G_j of its direction: dW_j = G_j - ŵ_j (ŵ_j·G_j).
///
/// (w V×H, class_norm V[, g V×H], out dw V×H); without g, dw holds G.
struct NormaliseSpec {
  ElementType element, output;
  bool inPlace = false, accumulate = false;
};
Kernel normalise(const NormaliseSpec &spec);

/// A sketch by which large matrices are compared: of each row, a sum with fixed signs and the sum of squares.
///
/// (x R×C, out sums R, out squares R)
Kernel sketchRows(ElementType element);

} // namespace tilewright::lce
