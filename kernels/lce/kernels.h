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

namespace tilewright::lce {

/// The kernels of linear cross entropy, one a file. Rows that are not ignored, the *valid* rows, are worked
/// on in chunks; tensors of a chunk have C rows, of which the last may hold no valid row. Symbols as in the
/// README: E = exp(z - a) without the target's column, a = anchor, S = row sum of E. E and its sums are
/// stored times kUnitOfE.

/// Rows and columns of the output block of one program.
struct Block {
  int64_t rows = 0, columns = 0;
  std::string str() const { return std::to_string(rows) + "x" + std::to_string(columns); }
};

/// Which bits change from one number of a product's operands to the next takes a GPU's power, and so its
/// time: exponents of numbers about 1 differ in all of their bits, 127 = 01111111 and 128 = 10000000. Of the
/// units 2^0, 2^-4, 2^-8 … 2^-16 this was the fastest on an H200 with random logits, by 0.8 % of a call.
constexpr double kUnitOfE = 0x1p-8;
/// Where a block measures its exponentials from its own largest logit, it has them in this unit: at most 1,
/// they then keep f16's full precision from there down to 2^-29.
constexpr double kUnitOfBlocks = 0x1p15;

/// A logit of -∞ says nothing of the others, and above an anchor that is infinite even what no class has
/// would be no number.
constexpr double kLeastAnchor = -1e38;

/// Copies a chunk's rows of X, and computes their targets' logits, which are the first anchors. redo = 1 for
/// valid rows, which are all pending: pending = 0, their number. With `rates`, also dz/d(x·w) as far as it is
/// the row's, and that of the target. `byLse`: the rows' anchors are their lse of a call before.
///
/// (x N×H, w V×H, row C, label C[, lse N], logit terms, out xc C×H, out target C, out anchor C, out redo C,
///  out pending 2[, out row_norm C][, out rate C, out target_rate C])
struct GatherRowsSpec {
  ElementType element;
  LossTerms terms = {};
  bool rates = false, byLse = false;
};
Kernel gatherRows(const GatherRowsSpec &spec);

/// Those rows alone, all valid ones side by side.
///
/// (x N×H, row N, out xc N×H)
Kernel copyRows(ElementType element, ElementType output);

/// From the first to the last row that asks for its exponentials by `redo`: pending = first, last + 1.
///
/// (redo C, out pending 2)
Kernel pendingRows();

/// Where a block's exponentials are measured from: the rows' anchors, or its own largest logits. With the
/// rows' it tells the largest all the same, but where nobody asks for them.
enum class Anchors { ofRows, ofRowsAlone, ofBlocks };

/// One block of E, its row sums and its logits' row maxima (and where those are, else without the target's);
/// only where some of its rows are pending. E is stored times the class rates if `sums` have Σ stored.
///
/// (xc C×H, w V×H, label C, [anchor C,] pending 2, [row_norm C,] logit terms, [class_weight V,]
///  out sums C×T[, out tops C×T][, out best C×T][, out each of `sums` C×T][, out e C×V]), T blocks of columns
struct ForwardSpec {
  ElementType element;
  std::optional<ElementType> exponentials; ///< their type; none when they are not stored
  Block block;
  LossTerms terms = {};
  PerRowSum<bool> sums = {};
  bool best = false;
  bool quietZeros = false; ///< what is stored of exponentials below 2^-30 is 0; the sums have them all
  Anchors anchors = Anchors::ofRows;
};
Kernel forward(const ForwardSpec &spec);

/// The logits themselves.
///
/// (x N×H, w V×H, [row_norm N,] logit terms, out z N×V)
struct LogitsSpec {
  ElementType element, output;
  Block block;
  LossTerms terms = {};
};
Kernel logits(const LogitsSpec &spec);

/// Where S is out of range, the anchor becomes the largest of the row's logits in `tops`, and redo stays 1;
/// it is 0 elsewhere.
///
/// (sums C×T, tops C×T, out anchor C, out redo C)
Kernel checkAnchor();

/// S; where it is out of range, redo stays 1, and it is 0 elsewhere.
///
/// (sums C×T, out total C, out redo C)
Kernel totalSums();

/// S and the anchor of the rows with redo, from sums of blocks with anchors of their own. The anchor is the
/// largest of these and what it was.
///
/// (sums C×T, tops C×T, redo C, out total C, out anchor C)
Kernel joinSums();

CompileOptions rowSumOptions(TargetKind target); ///< that suit these three

/// Where a row's gradient is more than E times a factor of the row, or E's blocks have anchors of their own,
/// E becomes the gradient of x·w itself: as it is, from its own logarithm, in a second product, or times a
/// factor of its row and block.
enum class Completion { none, inPlace, again, rescale };

/// Losses, and the factors of the gradients: r_i = g_i v_i, t_i = g_i (p_iy - 1), xs = r x; other terms as
/// RowTotals says. With a completion, r goes to `factor` and scale becomes 1; for E in f16 scale becomes the
/// unit in which factor, moment and uniform tell what E will be, so that no number of the row leaves its
/// range.
///
/// (sums C×T or total C, target C, anchor C, row C, label C[, tops C×T, best C×T], each of `sums` C×T
///  [, row_norm C], row terms, out row_loss N, out lse N[, out entropy N][, out argmax N, out correct N][,
///  out top N, out norm N]
///  [, summary[, grad_output 1 or N], [xc C×H,] [rate C, target_rate C,] out scale C, out one_hot C[, out xs
///  C×H]
///   [, out factor C[, out moment C]][, out uniform C][, out self C]])
struct CombineSpec {
  struct Gradients {
    ElementType element;      ///< of xc
    ElementType exponentials; ///< of xs
    UpstreamSpec upstream;
    Completion completion = Completion::none;
    bool scalesRows = true; ///< makes xs
    bool inPlace = false;   ///< of what xs holds: there is no xc
  };
  std::optional<Gradients> gradients;
  LossTerms terms = {};
  PerRowSum<bool> sums = {};
  RowOutputs outputs = {};
  bool hasTotals = false; ///< S itself, not the blocks' sums
};
Kernel combine(const CombineSpec &spec);
CompileOptions combineOptions(bool hasTotals); ///< that suit it

/// E becomes the gradient of x·w, the targets' aside: rate (E (factor + moment log E)).
///
/// (label C, anchor C, factor C, moment C, [row_norm C,] logit terms, out e C×V)
struct CompleteSpec {
  ElementType element, exponentials;
  Block block;
  LossTerms terms = {};
  bool quietZeros = false; ///< as above; this and the next are completeAgain's
  bool uniform = false;    ///< what all classes of a row get alike is a part of it
};
Kernel completeInPlace(const CompleteSpec &spec);

/// The same of E in blocks with anchors of their own: E factor exp(top - a).
///
/// (tops C×T, label C, anchor C, factor C, out e C×V)
struct RescaleSpec {
  ElementType exponentials;
  Block block; ///< its columns are those of E's blocks
  bool quietZeros = false;
};
Kernel rescale(const RescaleSpec &spec);

/// The same from the logits: rate (E (factor + moment (z - a)) [- uniform u]). Of all classes, or of V from
/// `first` on.
///
/// (xc C×H, w V×H, label C, first, anchor C, factor C, [moment C,] [uniform C, [class_weight V,]]
///  [row_norm C,] logit terms, out e C×V)
Kernel completeAgain(const CompleteSpec &spec);

/// E of the first classes, times its rows' scales where it is not the gradient of x·w already, put where it
/// stays.
///
/// (e C×V, label C[, scale C], out kept C×V)
struct KeepSpec {
  ElementType exponentials;
  Block block;
  bool scales = false;
};
Kernel keep(const KeepSpec &spec);

/// Rows of X, each times its scale, so that the largest of the scales is 1: xs_i = xc_i scale_i / gain.
///
/// (scale C, xc C×H, out xs C×H, out gain 1)
Kernel scaleRows(ElementType element);

/// Sorts a chunk's rows by label: order[s] = row at sorted position s, run[s] = length of the run of equal
/// labels that starts there (else 0), slot[label] = where its run starts (-1 beforehand).
///
/// (label C, out order C, out run C, out slot V)
Kernel rankLabels();
CompileOptions rankLabelsOptions(TargetKind target); ///< that suit it

/// Where the one-hot part of dW is: at the label's slot, or, of few classes, at the class's own number.
enum class OneHotPlace { slot, label };

/// u = Σ t_i x_i over each run of equal labels: the one-hot part of dW, of each label that occurs. It has a
/// row for each sorted position, or for each class that there is a slot for.
///
/// (x N×H, row C, one_hot C, order C, run C[, slot V], out u C×H or V×H)
struct OneHotSumSpec {
  ElementType element;
  int64_t columns; ///< of one program
  OneHotPlace place = OneHotPlace::slot;
};
Kernel oneHotSum(const OneHotSumSpec &spec);
CompileOptions oneHotSumOptions(); ///< that suit it

/// sums[label] = Σ t_i over the rows of each label that occurs (0 beforehand).
///
/// (label C, one_hot C, order C, run C, out sums V)
Kernel labelSums();

/// The same sums for chunks of many rows, where runs may be long: kRunPiece sorted positions are a piece, and
/// the pieces of a run are summed by programs of their own. There are P = C / kRunPiece pieces, rounded up.
/// pieces[p] = what piece p has of a run that began in a piece before; where there is none, it is not
/// defined.
///
/// (x N×H, row C, one_hot C, label C, order C, run C, slot V, out pieces P×H)
constexpr int64_t kRunPiece = 512;
Kernel oneHotPieces(ElementType element, int64_t columns);
/// u, of what pieces have of their own runs and of `pieces`.
///
/// (x N×H, row C, one_hot C, order C, run C[, slot V], pieces P×H, out u C×H or V×H)
Kernel oneHotSumOfPieces(const OneHotSumSpec &spec);
CompileOptions oneHotPiecesOptions(); ///< that suit these two

/// The same of `labelSums`.
///
/// (one_hot C, label C, order C, run C, slot V, out pieces P)
Kernel labelPieces();
/// (one_hot C, order C, run C, slot V, pieces P, out sums V)
Kernel labelSumsOfPieces();

/// dX_i = r_i (E W)_i + t_i w_y [- uniform_i Σ_j u_j w_j][+ self_i x_i].
///
/// (e C×V, w V×H, label C, scale C, one_hot C, row C[, uniform C, class_sum 1×H][, self C, xc C×H], out dx
/// N×H)
///
/// Of products that were computed in parts, by `dHiddenParts`, products (parts·P)×H takes e's place.
struct DHiddenSpec {
  ElementType element, exponentials, output;
  Block block;
  bool uniform = false, self = false;
  int64_t parts = 0;
};
Kernel dHidden(const DHiddenSpec &spec);
constexpr Block kTotalBlock{8, 512}; ///< of what adds up parts

/// E W, one part of the classes below the other: Σ_j of part p is row p P + i for each row i, P a multiple of
/// the block's rows. What rows that are none get is not defined.
///
/// (e C×V, w V×H, row C, out products (parts·P)×H)
struct DHiddenPartsSpec {
  ElementType element, exponentials;
  Block block;
  int64_t parts;
};
Kernel dHiddenParts(const DHiddenPartsSpec &spec);

/// What becomes of a chunk's part of a gradient that all chunks add to.
struct Accumulation {
  enum class Mode {
    store,  ///< gradient = part
    add,    ///< gradient += part, in fp32
    finish, ///< gradient = partial + part; of db
  };
  Mode mode = Mode::store;
  bool ontoOutput = false; ///< store, finish: what the output holds is added too
  std::string str() const;
};

/// A chunk's part of dW = [gain] Eᵀ·xs + the rows of u [- f_j Σ_i uniform_i x_i, f_j = 1 or class_factor].
///
/// (e C×V, xs C×H, u C×H or V×H, slot V, summary, first[, gain 1][, row_sum 1×H[, class_factor V]],
///  out dw V×H)
struct DWeightSpec {
  ElementType exponentials, output;
  Accumulation accumulation;
  Block block;
  bool uniform = false, classFactor = false, gain = false;
  OneHotPlace place = OneHotPlace::slot;
};
Kernel dWeight(const DWeightSpec &spec);

/// A dW of 16 bits of its fp32 sums, once all chunks have added to them. Those of the last H-K columns are in
/// `partial`; `inPlace`: those of the K columns ahead, K at most H / 2, lie in dW's own rows' memory, each in
/// two numbers' place. `ontoOutput`: what the output holds is added to those in `partial`. A launch of its
/// own takes less than the last chunk's product with tiles that wait for what they add.
///
/// (partial V×(H-K), out dw V×H)
struct RoundSumsSpec {
  ElementType output;
  bool inPlace = false, ontoOutput = false;
};
Kernel roundSums(const RoundSumsSpec &spec);
/// The reverse, in place: what dw holds becomes fp32, in its memory or, of the other columns, in `partial`.
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
/// (m R×H[, factor R][, summary, first], out sum P×H)
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

/// From the gradient G of w_j's direction to that of w_j: dW_j = G_j - ŵ_j (ŵ_j·G_j).
///
/// (w V×H, class_norm V[, g V×H], out dw V×H); without g, dw holds G.
struct NormaliseSpec {
  ElementType element, output;
  bool inPlace = false, accumulate = false;
};
Kernel normalise(const NormaliseSpec &spec);

/// What two equal matrices share, to compare large ones by: each row's sum with fixed signs, and of squares.
///
/// (x R×C, out sums R, out squares R)
Kernel sketchRows(ElementType element);

} // namespace tilewright::lce
