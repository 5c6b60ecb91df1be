#pragma once

#include "kernels/lce/config.h"
#include "kernels/program/tensor_table.h"

namespace tilewright::lce {

/// The tensors of a call. N rows, of which C make a chunk, H columns, V classes, T blocks of columns of the
/// forward product. K rows are kept to the end of a second pass: N where there is one, else C.
namespace tensor {
enum : TensorId {
  // The caller's, as LinearCrossEntropyTensors names them.
  hidden,
  weight,
  label,
  gradOutput,
  loss,
  dHidden,
  dWeight,
  bias,
  classWeight,
  gradLse,
  gradEntropy,
  dBias,
  monitored,
  savedLse, ///< of a forward call, which a backward call reads
  stats,    ///< F×C: of a shard's chunk, what the other ranks are told of its rows; F facts of a row
  gathered, ///< R×F×C: the same of all ranks

  // The caller's where those are given, else of the workspace.
  lse,
  entropy,
  argmax,
  correct,

  // Of the call.
  status, ///< see CallStatus
  row,
  compactLabel, ///< N: the valid rows' numbers and labels
  validCount,   ///< 1: the number of valid rows
  globalLabel, ///< N, of a shard: the valid rows' labels among all classes. Then compactLabel is V where that
               ///< is another rank's
  ownLabel,    ///< N: the label, -1 where it is another rank's
  shiftLabel,  ///< N: the label, else another class of this rank
  ownClassWeight, ///< V: of a shard, of all classes' weights
  rowCounts,
  rowStarts, ///< 2×B, G+2: valid rows before blocks and groups of rows; where there are many rows
  rowLoss,   ///< N
  top,
  norm, ///< N: of the monitored quantities
  rowWeight,
  weightFacts, ///< N, 2
  classNorm,
  classFactor, ///< V
  classSum,
  classPart0,
  classPart1,  ///< 1×H, and partial sums on the way there
  sumsInPlace, ///< dW's first columns as fp32, in its own memory
  partial,
  partialBias, ///< V×H, V: dW and db so far, where the result cannot hold them
  wt,          ///< H×V: W transposed

  // Of a chunk.
  xc, ///< C×H: its rows of X
  target,
  retry,
  rowRange, ///< C, C, 4: from where to where E is to be computed, and then, computed again
  shift,
  largest,
  rowNorm, ///< K
  sample,
  sampleLabel,
  sampleBias, ///< S×H, S, S: classes by which rows' shifts are estimated
  sampleTop,
  unitOfE, ///< C: those estimates; and what E is to be multiplied by for the row's shift
  rate,
  targetRate, ///< C
  mend,       ///< C: of a shard, what undoes the rounding of E
  e,          ///< C×V
  et,         ///< V×C: E transposed
  sums,
  tops,
  best,
  total,   ///< C×T three times, C
  rowSums, ///< C×T: the first of kRowSums
  rowSumsEnd = rowSums + kRowSums,
  scale = rowSumsEnd,
  oneHot,
  factor,
  moment,
  uniform,  ///< K
  self,     ///< C
  products, ///< (parts·rows)×H: of dX's split-K tail

  // Of the gradients of the classes; of a chunk, or of all rows in a second pass.
  xs,   ///< K×H: rows of X as dW multiplies them
  xst,  ///< H×K: the same transposed
  gain, ///< 1
  order,
  run,  ///< K: rows sorted by label, and the lengths of label segments
  slot, ///< V: where a label's segment begins
  u,    ///< C × columns of dW: sums of the label segments
  rowSum,
  rowPart0,
  rowPart1, ///< 1×H, and partial sums on the way there
  labelSums,
  biasParts, ///< V, P×V or P × the classes of a slice
  blockLabels,
  blockRows, ///< K: rows sorted in blocks, which are to be merged
  pieces,
  labelPieces, ///< P×H, P: parts of long label segments

  // Of a second pass.
  allX, ///< N×H: the valid rows of X
  keptE,
  borrowedE,
  sliceE, ///< N × classes: saved by the first pass; of a slice in dW's memory; in the workspace
  keptU,
  borrowedU,
  sliceU, ///< classes × columns of dW

  count
};
} // namespace tensor
static_assert(tensor::count <= TensorTable::kCapacity);

/// The phases of a call, in their order. From `gather` to `hiddenParts` they are repeated for each chunk;
/// from `copyRows` on they are a second pass's.
namespace phase {
enum : int {
  begin,
  prepare,
  gather,
  forward,
  repair,
  stats, ///< of shards
  combine,
  fixUp,
  sort,
  hidden, ///< dX of rows in whole tiles
  weight,
  bias,
  keep,
  hiddenParts, ///< dX of rows in parts
  copyRows,
  sortAll,
  keptSlices,
  borrowedSlices,
  ownSlices,
  end
};
} // namespace phase

/// Every tensor that a call has beside the caller's, placed. `request.outputs` and the flags say which of the
/// outputs are the caller's own; see `Outputs`.
TensorTable tensorsOf(const Scheme &scheme, const Config &config);

/// Bytes of the workspace.
int64_t workspaceBytes(const Scheme &scheme, const Config &config);

/// Elements between rows of E: they begin a cache line further than a power of two would have them, lest a
/// column's rows share cache sets. A line is a GPU's: what TMA moves, 128 bytes a row, is then one.
int64_t paddedStride(int64_t columns, ElementType element);

// What a plan has to know of single tensors, in bytes.
int64_t bytesOfE(const Scheme &scheme, int64_t rows, int64_t classes);
int64_t bytesOfU(const Scheme &scheme, const Config &config, int64_t classes);
/// E and u of a slice.
int64_t bytesOfSlice(const Scheme &scheme, const Config &config, int64_t classes);

/// Whether a product of a gradient takes transposed matrices: TF32 by warps with roles.
bool isTransposed(const Scheme &scheme, const Config &config, ProductKind kind);
/// When dX of rows in parts is made. Its whole tiles always come before dW.
enum class PartsOrder {
  /// With the sum of the parts: of a shard, which sends dX to other ranks meanwhile; and where dX and dW take
  /// transposed matrices, which are then not in memory at the same time.
  beforeWeight,
  /// The sum of the parts runs beside dW (`Schedule::runsBeside`): where all rows are in parts, so that there
  /// are no whole tiles beside which label segments are summed up, and memory is not scarce.
  aroundWeight,
  behindWeight ///< in memory that dW has done with
};
PartsOrder partsOrder(const Scheme &scheme, const Config &config);
/// Whether the sums of label segments run beside dX (`Schedule::runsBeside`), which leaves multiprocessors
/// idle in its last round.
bool sumsRunBesideHidden(const Scheme &scheme, const Config &config);

/// Whether E of so many rows finds room in dW's memory, ahead of as many classes as may be kept there.
bool borrowsChunk(const Scheme &scheme, int64_t chunkRows);
/// Classes of a slice that was kept: the widest one's, if u of so many finds room where other slices are
/// made.
int64_t keptSlice(const Scheme &scheme, const Config &config);
/// Whether a chunk's rows (or all, of a second pass) are so few that they are sorted by comparing all pairs.
bool comparesAllPairs(const Scheme &scheme, const Config &config);
/// Whether they are so many that the rows of one label may be more than one program is to add up.
bool mayHaveLongRuns(const Scheme &scheme, const Config &config);
/// Whether launches count more than rows: a GPU's, of few rows. What is done a row then takes fewer kernels,
/// each of which does more.
bool hasFewRows(const Scheme &scheme, const Config &config);
/// Whether the kernel that gathers rows numbers them, too: few, which are one chunk and which nothing else
/// needs before.
bool numbersAsGathered(const Scheme &scheme, const Config &config);
/// Whether the kernel of the one-hot sums reduces the losses, too: of few rows, which are one chunk.
bool reducesBesideOneHotSums(const Scheme &scheme, const Config &config);
/// Whether the kernel of the one-hot sums multiplies the chunk's rows of X for dW, too. The kernel of the
/// losses, which all products of the gradients wait for, spent a quarter to a third of its time on that.
bool scalesBesideOneHotSums(const Scheme &scheme, const Config &config);
/// Whether the kernel that makes losses sorts the chunk's rows, too.
bool ranksInCombine(const Scheme &scheme, const Config &config);
/// Whether the last chunk's product of dW adds what the chunks before it have summed up, and rounds, so that
/// no launch of its own has to.
bool roundsInProduct(const Scheme &scheme, const Config &config);
/// Whether u has a row for each class, instead of one for each row of the chunk.
bool hasRowsOfClasses(const Scheme &scheme, const Config &config);

/// Where in dW's memory a tensor of so many bytes begins that is placed at its end; negative where there is
/// no room.
int64_t borrowedBegin(const Scheme &scheme, int64_t bytes);

} // namespace tilewright::lce
