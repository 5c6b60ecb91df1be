#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"
#include "compiler/options.h"
#include "compiler/target.h"
#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"
#include "kernels/loss/terms/terms.h"

namespace tilewright::lce {

/// The kernels of linear cross entropy that make logits, exponentials and losses, one a file. Those of the
/// gradients are in `gradient_kernels.h`.
///
/// A row is *valid* where it is not ignored. Valid rows are numbered and worked on in chunks. A tensor of a
/// chunk has C rows; the last of them may hold no valid row. Symbols are the README's: z = logits, a = the
/// row's shift, E = exp(z - a) with 0 in the target's column, S = row sum of E. E and its sums are stored
/// times kUnitOfE.

/// Rows and columns of the output block of one program.
struct Block {
  int64_t rows = 0, columns = 0;
  std::string str() const { return std::to_string(rows) + "x" + std::to_string(columns); }
};

/// The unit of E. A GPU's power, and with it the time of a product, depends on how many bits change from one
/// operand to the next. Exponents of numbers about 1 change in every bit (127 = 01111111, 128 = 10000000);
/// those of smaller numbers do not. Of the units 2^0, 2^-4, 2^-8 … 2^-16 this one was the fastest on an H200
/// with random logits, by 0.8 % of a call.
constexpr double kUnitOfE = 0x1p-8;
/// The unit of E, of f16, where blocks' shifts are raised. A shift is at most the row's largest logit beside
/// the target's, so E of that is at least this, and f16 keeps its full precision down to 2^-16 of it.
constexpr double kUnitOfRaised = 0x1p2;
/// The largest logit of a block may be so much above the row's shift: E of it is 32412 then, of f16's 65504.
constexpr double kMostAboveShift = 9;

/// What sums of a block with shifts of its own are stored times where blocks are mended (see
/// `Shifts::mended`). Sums of others, and of all of a row's, are less than kLeastMended: whoever has them
/// knows which is which. A power of two rounds nothing.
constexpr double kUnitOfMended = 0x1p100, kLeastMended = 0x1p80;

/// The least shift. A target's logit may be -∞; as a shift it would make every exponential of the row NaN.
constexpr double kLeastShift = -1e38;
/// A logit as a shift: at least that.
Tile asShift(KernelBuilder &k, const Tile &logit);

/// Copies a chunk's rows of X and computes the logits of their targets, which are the rows' first shifts.
/// retry = 1 for valid rows, 0 for others: the forward product has yet to compute all of them. row_range =
/// 0 and their number, and behind it the range of rows to retry: 0 and 0. `rates`: also dz/d(x·w), its factor
/// of the row and that of the target. `byLse`: the shifts are the rows' lse, which an earlier call made.
/// `clearsSlots`: -1 for each class, as `storeRanks` wants it. `tellsLargest`: of each row, the largest |x|.
/// `compaction`: the rows are numbered by this kernel, and all of them are the chunk's.
///
/// (x N×H, w V×H, (row C, label C or what `RowCompaction` takes)[, lse N], logit terms, out xc C×H,
///  out target C, out shift C, out retry C, out row_range 4[, out row_norm C][, out rate C,
///  out target_rate C][, out slot V][, out largest C])
struct GatherRowsSpec {
  ElementType element;
  LossTerms terms = {};
  bool rates = false, byLse = false, clearsSlots = false, tellsLargest = false;
  std::optional<CompactRowsSpec> compaction = {};
  int64_t rowsAtOnce = kRowsPerProgram; ///< of a program
};
Kernel gatherRows(const GatherRowsSpec &spec);
constexpr int64_t kShortRow = 1024; ///< columns
/// That suit it. `rowsAreShort`: there are many, of at most kShortRow columns.
CompileOptions gatherRowsOptions(ElementType element, bool rowsAreShort);

/// Copies all valid rows of X, side by side.
///
/// (x N×H, row N, out xc N×H)
Kernel copyRows(ElementType element, ElementType output);

/// The rows of a large chunk that the forward product has to compute again: row_range = the first row with
/// retry, and the last one + 1.
///
/// (retry C, out row_range 2)
Kernel retryRange();

/// What the exponentials of a block are shifted by.
enum class Shifts {
  ofRows,      ///< the rows' shifts; the block's largest logits are stored, too
  ofRowsAlone, ///< the rows' shifts; nobody asks for the largest logits
  ofBlocks,    ///< the block's own largest logits
  raised,      ///< the rows' shifts, or the block's largest logit where it is more than kMostAboveShift above
  mended       ///< the rows' shifts, or the block's own largest logits where one of its sums is out of range
};

/// One block of E, its row sums and the row maxima of its logits, without the target's logit. `best`: the
/// maxima have it, and their columns are stored, too. A block without a row in row_range is left as it is. If
/// `sums` have Σ stored, E is stored times the class rates. Where blocks may have different shifts, tops are
/// those; where they are raised, E and its sums are times kUnitOfRaised. Where they are mended, no E is
/// stored, nor tops of blocks that keep the rows' shifts. `tellsRange`: where the sum of a block is out of
/// range, the empty retry_range becomes all rows.
///
/// (xc C×H, w V×H, label C, [shift C,] row_range 2, [row_norm C,] logit terms, [class_weight V,]
///  [out retry_range 2,] out sums C×T[, out tops C×T][, out best C×T][, out each of `sums` C×T][, out e
///  C×V]), T blocks of columns
struct ForwardSpec {
  ElementType element;
  std::optional<ElementType> exponentials; ///< their type; none when they are not stored
  Block block;
  LossTerms terms = {};
  PerRowSum<bool> sums = {};
  bool best = false;
  bool flushesSmall = false; ///< E below 2^-30 is stored as 0; the sums have all of it
  Shifts shifts = Shifts::ofRows;
  bool tellsRange = false;
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

/// Finds rows whose shift was too small: where S is out of range, the shift becomes the largest of the row's
/// logits in `tops`, and retry stays 1. Elsewhere retry becomes 0. `tellsRange`: where there is such a row,
/// the empty retry_range becomes row_range, so that nothing is to be launched behind it for that.
///
/// (sums C×T, tops C×T, out shift C, out retry C[, row_range 2, out retry_range 2])
Kernel checkShifts(bool tellsRange);

/// S of each row. Where it is out of range, retry stays 1; elsewhere retry becomes 0. `tellsRange` as above.
///
/// (sums C×T, out total C, out retry C[, row_range 2, out retry_range 2])
Kernel totalSums(bool tellsRange);

/// S and the shift of the rows with retry, from sums of blocks that may have different shifts. The row's
/// new shift is the largest of theirs and of its old one. `tellsUnits`: unit_e = what E of the row is to be
/// multiplied by to be kUnitOfE exp(z - a) for the new shift a, and 0 where blocks have different shifts.
///
/// (sums C×T, tops C×T, retry C, out total C, out shift C[, out unit_e C])
Kernel joinSums(bool tellsUnits);

CompileOptions rowSumOptions(TargetKind target); ///< that suit these three

/// The pass that turns E into the gradient of x·w before the products of the gradients. It is there where
/// that gradient is more than E times a factor of the row, or where a row's blocks may have different shifts.
enum class FixUp {
  none,    ///< E times a factor of the row is the gradient: the products apply it
  inPlace, ///< computed from E and its logarithm
  again,   ///< computed from the logits, by a second product
  rescale  ///< the same, but where a row's blocks have different shifts, E times a factor of row and block
};

/// Which blocks of a row may have shifts of their own when its loss is made.
enum class OwnShifts {
  none,
  retried, ///< of rows in `retry_range` all: their largest logits
  mended,  ///< those that had to (`Shifts::mended`)
  raised   ///< any of them (`Shifts::raised`)
};

/// What is done with a row before its loss and its factors are made. If its blocks have shifts of their own
/// it gets one; where they are raised, `unit_e`, too, as `joinSums` tells it. E, of bf16, is summed up as
/// stored, but for blocks with little of the row.
///
/// ([e C×V][, sums C×T][, tops C×T][, retry_range 2]), without `sums` where the kernel has them already
struct FinishSpec {
  Block block; ///< of `forward`
  OwnShifts ownShifts = OwnShifts::none;
  bool hasE = true; ///< else there are sums alone
  /// Others ask for the row's shift afterwards.
  bool storesShifts() const {
    return ownShifts == OwnShifts::raised || (ownShifts == OwnShifts::retried && hasE);
  }
  std::string str() const;
};

/// Losses, and the factors of the gradients: r_i = g_i v_i, t_i = g_i (p_iy - 1), xs = r x; other terms as
/// RowTotals says. With a fix-up pass, r goes to `factor` and scale becomes 1. For E in f16, scale is the
/// unit of factor, moment and uniform, chosen so that no number of the row of E leaves f16's range. With
/// `FixUp::rescale` it is r unit_e where a row's blocks have one shift, as then E stays what it is; unit_e is
/// an output where `finish` joins blocks.
/// `ranksLabels`: what `rankLabels` makes, too, by programs of their own: the grid's second axis counts
/// `jobs`.
///
/// `finish`: each row of E is finished, too (see `FinishSpec`).
///
/// (sums C×T or total C[, what `finish` takes], target C, [out] shift C, row C, label C[, tops C×T,
///  best C×T], each of `sums` C×T[, row_norm C], row terms, out row_loss N, out lse N[, out entropy N]
///  [, out argmax N, out correct N][, out top N, out norm N]
///  [, validCount[, grad_output 1 or N], [xc C×H,] [rate C, target_rate C,] [[out] unit_e C,] out scale C,
///  out one_hot C[, out xs C×H]
///   [, out factor C[, out moment C]][, out uniform C][, out self C]][, jobs, out order C, out run C, out
///   slot V])
struct CombineSpec {
  struct Gradients {
    ElementType element;      ///< of xc
    ElementType exponentials; ///< of xs
    UpstreamSpec upstream;
    FixUp fixUp = FixUp::none;
    bool scalesRows = true; ///< makes xs
    bool inPlace = false;   ///< of what xs holds: there is no xc
  };
  std::optional<Gradients> gradients;
  LossTerms terms = {};
  PerRowSum<bool> sums = {};
  RowOutputs outputs = {};
  bool hasTotals = false; ///< S itself, not the blocks' sums
  std::optional<FinishSpec> finish = {};
  bool ranksLabels = false;
  int64_t rowsAtOnce = 1; ///< of a program, which finishes a single one; of more where sums were joined
};
constexpr int64_t kCombineJobs = 2; ///< losses, and ranks of labels
Kernel combine(const CombineSpec &spec);
/// That suit it; `rowsAreShort` as for `gatherRowsOptions`.
CompileOptions combineOptions(TargetKind target, bool rowsAreShort = false);

/// E becomes the gradient of x·w, but for the targets' part: rate (E (factor + moment log E)).
///
/// (label C, shift C, factor C, moment C, [row_norm C,] logit terms, out e C×V)
struct FixUpSpec {
  ElementType element, exponentials;
  Block block;
  LossTerms terms = {};
  bool flushesSmall = false; ///< as above; this field and the next are fixUpAgain's
  bool uniform = false;      ///< label smoothing's part, the same for all classes of a row, is included
};
Kernel fixUpInPlace(const FixUpSpec &spec);

/// The same for rows whose blocks have different shifts: E factor exp(top - a). E of others is not touched.
///
/// (tops C×T, label C, unit_e C, shift C, factor C, out e C×V)
struct RescaleSpec {
  ElementType exponentials;
  int64_t columns; ///< of E's blocks
  bool flushesSmall = false;
};
Kernel rescale(const RescaleSpec &spec);

/// A sample of the classes by which rows' logits are estimated: labels of rows spread over the chunk, which
/// are drawn as classes occur, and their rows of W and biases. -1 where there are fewer rows than S.
///
/// (w V×H, label C, row_range 2, [bias V,] out sample S×H, out sample_label S[, out sample_bias S])
Kernel sampleClasses(ElementType element, std::optional<ElementType> bias);

/// The largest logit of a row among the S classes of the sample but its label: at most the largest of all of
/// them, so that with this shift the row's sum is at least 1, and hardly ever far below it. `block` has S
/// columns.
///
/// (xc C×H, sample S×H, label C, sample_label S, logit terms, out top C)
struct SampleTopsSpec {
  ElementType element;
  Block block;
  LossTerms terms = {};
};
Kernel sampleTops(const SampleTopsSpec &spec);

/// The same from the logits: rate (E (factor + moment (z - a)) [- uniform u]). The V classes begin at
/// `first`.
///
/// (xc C×H, w V×H, label C, first, shift C, factor C, [moment C,] [uniform C, [class_weight V,]]
///  [row_norm C,] logit terms, out e C×V)
Kernel fixUpAgain(const FixUpSpec &spec);

/// Copies E of the first classes to where a second pass finds it. `scales`: times the rows' scales, where E
/// is not the gradient of x·w already.
///
/// (e C×V, label C[, scale C], out kept C×V)
struct KeepSpec {
  ElementType exponentials;
  Block block;
  bool scales = false;
};
Kernel keep(const KeepSpec &spec);

} // namespace tilewright::lce
