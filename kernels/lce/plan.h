#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/base/status.h"
#include "compiler/element_type.h"
#include "compiler/options.h"
#include "kernels/lce/kernels.h"
#include "kernels/loss_options.h"
#include "runtime/device.h"

namespace tilewright::lce {

/// The three products: logits, dX, dW; and the logits again, of a slice of the classes.
enum class ProductKind { forward, dHidden, dWeight, again };
constexpr bool isOfLogits(ProductKind kind) {
  return kind == ProductKind::forward || kind == ProductKind::again;
}

/// What is asked for. Sizes aside, everything here enters some kernel.
struct Problem {
  int64_t rows = 0, hidden = 0, classes = 0; ///< N, H, V
  ElementType element = ElementType::f32, label = ElementType::i64;
  std::optional<ElementType> dHidden, dWeight, dBias; ///< types of the gradients that are wanted
  Reduction reduction = Reduction::mean;
  Upstream upstream = Upstream::one;
  bool wantsLse = false;
  LossTerms terms;
  RowOutputs outputs;
  bool accumulate = false;  ///< dWeight and dBias are added to what is there
  bool aligned = false;     ///< matrices and their rows, the workspace's too, begin at multiples of 16 bytes
  bool tf32 = false;        ///< products of f32 round their operands
  bool quietZeros = false;  ///< E below 2^-30 is stored as 0
  bool recompute = false;   ///< dW and db are made once all losses are known, of logits computed again
  bool tensorCores = false; ///< products of 16 bits take less than half the time of others
  /// Of dW's memory, from its first multiple of 256 bytes on, which is free until values of dW are stored
  /// there.
  int64_t lentBytes = 0;

  /// Of a class's row of dW.
  int64_t classBytes() const { return dWeight ? hidden * static_cast<int64_t>(elementBytes(*dWeight)) : 0; }
  bool wantsGradients() const { return dHidden || dWeight || dBias; }
  bool wantsClassGradients() const { return dWeight || dBias; }
  /// The first pass makes losses and dX of one chunk of rows after the other, a second one dW and db of all
  /// rows, one slice of the classes after the other.
  bool hasSecondPass() const { return recompute && wantsClassGradients(); }
  /// A chunk's E is kept.
  bool keepsExponentials() const { return dHidden || (wantsClassGradients() && !recompute); }
  /// What E of a chunk has to become before the products of the gradients.
  Completion completion() const;
  /// A chunk's rows of X are multiplied for dW; else they go there as they are.
  bool scalesRows() const {
    return dWeight && !recompute && (completion() == Completion::none || element != exponentials());
  }
  /// And what dW makes of them is multiplied once more, for neither rows nor E have f32's range.
  bool normalisesRows() const { return dWeight && exponentials() == ElementType::f16; }
  /// And nothing asks afterwards for what they were.
  bool scalesInPlace() const {
    return scalesRows() && element == exponentials() && !terms.labelSmoothing && !terms.margin;
  }
  /// The gradient that all classes of a row get alike is added to the products instead.
  bool isUniformRankOne() const {
    return wantsGradients() && terms.labelSmoothing && completion() != Completion::again;
  }
  /// What dW and db are made of has still to be multiplied by a factor of its row.
  bool scalesExponentials() const { return !recompute || exponentials() == ElementType::f16; }
  bool hasClassFactor() const { return terms.classWeight || terms.margin; }
  PerRowSum<bool> rowSums() const; ///< those that the terms and the outputs need
  /// The forward product tells sums and nothing else. Where an anchor was wrong, its blocks then take their
  /// own, so that no other row's largest logit has to be found.
  bool wantsTotalsAlone() const;
  /// S itself is known before losses are, not the sums of blocks alone.
  bool hasTotals() const { return wantsTotalsAlone() || completion() == Completion::rescale; }
  /// What a chunk's exponentials are first measured from.
  Anchors anchors() const {
    if (completion() == Completion::rescale) return Anchors::ofBlocks;
    return wantsTotalsAlone() ? Anchors::ofRowsAlone : Anchors::ofRows;
  }
  /// What a product multiplies.
  std::pair<ElementType, ElementType> operands(ProductKind kind) const {
    if (isOfLogits(kind)) return {element, element};
    return {exponentials(), kind == ProductKind::dHidden ? element : exponentials()};
  }
  /// bf16 has fp32's range, which target anchors need. f16 has not: it can hold gradients of logits, in units
  /// of their row, once that row's sum is known (unless they are divided by norms, which may be anything),
  /// and before that exponentials of blocks of classes, each from the largest of its own logits.
  ElementType exponentials() const {
    if (element != ElementType::f16) return element;
    return (recompute || tensorCores) && !terms.margin ? ElementType::f16 : ElementType::f32;
  }
  /// Whether what is quiet is stored as 0: where E is rounded anyway.
  bool dropsQuiet() const { return quietZeros && exponentials() != ElementType::f32; }
  const char *typeName() const { return tf32 ? "tf32" : elementName(element); }
  std::string str() const;

private:
  bool ofBlocks() const; ///< E of f16 has each block's own anchor, and a row's gradient is E times a factor
};

/// How a product is computed: the block of one program, and its schedule.
struct Product {
  Block block;
  int64_t contractionStep = 0; ///< 0 in this and the next: the compiler's choice
  int stages = 0;
  Schedule::WarpRoles roles = Schedule::WarpRoles::automatic;
  int rasterRows = 0;
  int clusterCtas = 0;

  /// "192x256/256": rows x columns / step; "128x256/0 cooperative, 4 stages, raster 8, cluster 2" where warps
  /// have roles.
  std::string str() const;
};

/// Whether its warps have different roles, as those that use wgmma and TMA do.
inline bool hasRoles(const Product &product) {
  return product.roles == Schedule::WarpRoles::cooperative || product.roles == Schedule::WarpRoles::pingPong;
}

/// A product's result, and how many numbers each of its elements adds up.
struct ProductShape {
  int64_t rows, columns, depth;
};

/// Whether a product can be computed with such roles, where a device can: both operands are aligned, and of
/// 16 bits; or of fp32 that is rounded to TF32, which `wgmma` takes where rows run along the contracted axis.
bool allowsRoles(const Problem &problem, ProductKind kind);

/// Whether a thread that holds more than 128 of a tile's sums has registers left for what becomes of them:
/// not for what is there already, or for what all classes of a row get alike.
bool allowsLargeTiles(const Problem &problem, ProductKind kind);

/// Sums of a tile that each thread of warps with such roles holds; 192 at most.
int64_t accumulatorsOf(const Block &block, Schedule::WarpRoles roles);

// What parts of a tail may take where memory has no limit.
constexpr int64_t kMostTailBytes = int64_t(128) << 20;

/// Tiles that the busiest of a device's workers computes of a product; of dX, in the time of whole ones, with
/// the tail that suits it.
double roundsOf(ProductKind kind, const Product &product, const ProductShape &shape, const DeviceInfo &device,
                int64_t tailBytes = kMostTailBytes);

/// Time that a GPU's busiest multiprocessor takes for them, copies of rows and columns included, in
/// multiply-adds.
double productTime(ProductKind kind, const Product &product, const ProductShape &shape,
                   const DeviceInfo &device, int64_t tailBytes = kMostTailBytes);

/// How many rows of tiles should be walked column by column, as programs with such roles do, so that the
/// fewest bytes of operands with numbers of so many bytes come from memory: one wave of tiles reads strips of
/// both operands once, and a strip that stays in the second-level cache is hardly read again. Such that a
/// wave of the multiprocessors, which may work in clusters, is of whole columns, or all rows where they stay
/// in the cache. What tiles that are `stored` write takes a part of it.
int chooseRaster(const Product &product, const ProductShape &shape, int64_t numberBytes, bool stored,
                 const DeviceInfo &device);

/// Shared memory that a program with such roles takes, in bytes: the ring of operand stages, and what is on
/// its way out.
int64_t sharedBytesOf(const Problem &problem, ProductKind kind, const Product &product);

/// A chunk's last rows, whose dX is computed in parts of the classes, which are then added up: where whole
/// tiles leave multiprocessors idle at the end (or all the time, where there are few), parts of them do not.
struct Tail {
  int64_t begin = 0; ///< its first row
  int64_t parts = 1; ///< of the classes; with 1 there is no tail
};

/// Classes of which a second pass makes dW and db at once.
struct Slice {
  /// Where their E is: `kept` by the first pass; or made again, in what dW `lent` behind their rows or in the
  /// workspace.
  enum class Place { kept, lent, workspace };
  int64_t first, count;
  Place place;
};

/// How it is computed. The same for every N of a bucket, so that a new batch length compiles nothing.
struct Config {
  Variant variant = Variant::chunked;
  int64_t chunkRows = 0;
  int64_t sliceClasses = 0; ///< of the second pass, where E and u lie in the workspace
  int64_t lentClasses = 0;  ///< and in dW's memory, while there is room behind the slice's rows; 0 for none
  int64_t keptClasses = 0;  ///< the first ones, whose E the first pass leaves to the second in dW's memory
  /// dW of 16 bits, while chunks still add to it, is fp32: its first columns in its own rows' memory, where
  /// half of them have room, and the others in the workspace.
  bool inPlace = false;
  Product forward, dHidden, dWeight, again;
  Tail tail;
  int64_t tailBytes = kMostTailBytes; ///< that its parts may take

  Product &operator[](ProductKind kind) {
    return kind == ProductKind::forward   ? forward
           : kind == ProductKind::dHidden ? dHidden
           : kind == ProductKind::dWeight ? dWeight
                                          : again;
  }
  const Product &operator[](ProductKind kind) const { return const_cast<Config &>(*this)[kind]; }
  bool hasTail() const { return tail.parts > 1; }
  int64_t tailRows() const;                     ///< to the chunk's end, in whole strips of dX's tiles
  int64_t chunks(const Problem &problem) const; ///< at least 1
  /// Of a second pass: those that dW's memory lends E and u theirs, and all.
  int64_t lentSlices(const Problem &problem) const;
  std::vector<Slice> slices(const Problem &problem) const;
  /// Parts that dW and db add up from: chunks, but for a second pass, which has all rows at once.
  int64_t weightParts(const Problem &problem) const { return problem.hasSecondPass() ? 1 : chunks(problem); }
  /// Rows whose E dW and db are made of at once.
  int64_t weightRows(const Problem &problem) const;
  /// Columns of dW that add up, two numbers' place each, in its own memory, and in a buffer.
  int64_t columnsInPlace(const Problem &problem) const;
  int64_t columnsInBuffer(const Problem &problem) const;
  int64_t widestSlice() const { return std::max(sliceClasses, lentClasses); }
  /// Columns of dW that are made at a time, lest u, which holds all rows' part of them, or a slice's, becomes
  /// large.
  int64_t weightColumns(const Problem &problem, int64_t slice) const;
  int64_t weightColumns(const Problem &problem) const { return weightColumns(problem, widestSlice()); }
  std::string str() const;
};

/// Of a product of whole chunks, or of slices of so many classes; else of the widest.
ProductShape shapeOf(const Problem &problem, ProductKind kind, const Config &config, int64_t slice);
ProductShape shapeOf(const Problem &problem, ProductKind kind, const Config &config);

/// Chooses the variant and the largest chunk that is worth its memory and fits `workspaceLimit` bytes (0: no
/// limit). A user error says how much the variant needs at least.
StatusOr<Config> plan(const Problem &problem, Variant variant, int64_t workspaceLimit,
                      const DeviceInfo &device);

/// A product on a GPU, for chunks or slices of `config`.
Product chooseGpuProduct(const Problem &problem, ProductKind kind, const DeviceInfo &device,
                         const Config &config);

/// Time that a GPU's multiprocessor takes for the chunks' logits and dX, and for what each chunk has beside
/// the products, in multiply-adds.
double chunksCost(const Problem &problem, const Config &config, const DeviceInfo &device);

/// The tail that suits the product of dX; none where warps are alike.
void chooseTail(const Problem &problem, const DeviceInfo &device, Config &config);

/// Tuning is of the plain loss. Where options leave too few registers for what it found for a product, what
/// `plan` would choose for that takes its place.
void fitToOptions(const Problem &problem, const DeviceInfo &device, Config &config);

// Rows and columns of a block are multiples of these, the register tile of the products.
constexpr int64_t kRowStep = 8, kColumnStep = 32;
// Past this, a larger chunk gains less than its memory is worth on a CPU.
constexpr int64_t kChunkBytes = int64_t(64) << 20;
/// The same for any device: a GPU needs more rows to fill it, and has more memory.
int64_t chunkBytes(const DeviceInfo &device);

int64_t ceilDiv(int64_t a, int64_t b);
int64_t roundUp(int64_t a, int64_t multiple);

/// The chunk that holds all of `rows` rows. Chunk sizes are few, for blocks depend on them.
int64_t chunkBucket(int64_t rows);
/// The same problem as a variant sees it.
Problem asVariant(Problem problem, Variant variant);
/// The smallest chunk that needs no more passes over `rows` rows than `chunk` does.
int64_t balanced(int64_t rows, int64_t chunk);
/// The largest chunk whose exponentials take about `bytes`; of the variant `whole`, all rows.
int64_t largestChunk(const Problem &problem, Variant variant, int64_t bytes);
/// Multiply-adds of the busiest worker in the second pass, and in the time of its launches.
double secondPassCost(const Problem &problem, const Config &config, const DeviceInfo &device);

/// What slices of a second pass take turns in.
struct SliceMemory {
  TensorRef e; ///< N × the classes of a slice
  TensorRef u; ///< these × columns of dW
};

/// A device's memory beside inputs and outputs, cut into tensors. What a problem has no use for stays null.
/// K rows are kept to the end of a second pass: N where there is one, else C.
struct Workspace {
  TensorRef row, compactLabel;    ///< N
  TensorRef summary;              ///< 1
  TensorRef rowLoss, lse;         ///< N, unless the caller's own are used
  TensorRef xc;                   ///< C×H
  TensorRef xs;                   ///< K×H
  TensorRef u;                    ///< C × columns of dW; not where there is a second pass
  TensorRef products;             ///< (parts·rows)×H: of dX's tail
  TensorRef target, redo;         ///< C
  TensorRef anchor;               ///< K
  TensorRef pending;              ///< 2
  TensorRef sums, tops;           ///< C×T
  TensorRef total;                ///< C, where that is all that is wanted of a row
  PerRowSum<TensorRef> rowSums;   ///< C×T
  TensorRef e;                    ///< C×V; in dW's memory where it finds room beside what is kept there
  TensorRef scale, oneHot;        ///< K
  TensorRef gain;                 ///< 1
  TensorRef order, run;           ///< K
  TensorRef slot;                 ///< V
  TensorRef partial;              ///< V×H: dW so far, or its last columns, where the result cannot hold it
  TensorRef partialBias;          ///< V: the same of db
  TensorRef labelSums, biasParts; ///< V, P×V or the classes of a slice

  // Of a second pass only.
  TensorRef allX;               ///< N×H: xc of all rows
  SliceMemory slice, lentSlice; ///< the latter in dW's memory
  SliceMemory kept;             ///< E of all kept classes, in dW's memory; u in the place of `slice`

  // Of some options only.
  TensorRef entropy, argmax, correct, top, norm;    ///< N, unless the caller's own are used
  TensorRef best;                                   ///< C×T
  TensorRef rowNorm, factor, moment, uniform;       ///< K
  TensorRef rate, targetRate, self;                 ///< C
  TensorRef rowWeight, weightFacts, firstBadWeight; ///< N, 2, 1
  TensorRef classNorm, classFactor;                 ///< V
  TensorRef classSum, rowSum;                       ///< 1×H
  TensorRef partSums[2];                            ///< P×H, on the way to the last two
  int64_t bytes = 0;
};

/// Elements between rows of E: they begin a cache line further than a power of two would have them, lest a
/// column's rows share cache sets. A line is a GPU's: what its copy engine moves, 128 bytes a row, is then
/// one.
int64_t paddedStride(int64_t columns, ElementType element);

/// Cuts memory at `base` for a problem, and what dW lends at `lent` (both 256-byte aligned; null to learn the
/// size).
Workspace layOut(const Problem &problem, const Config &config, void *base, void *lent = nullptr);

/// dW's memory from its first multiple of 256 bytes on.
void *lentMemory(const TensorRef &dWeight);
/// Of E of a chunk.
int64_t exponentialBytes(const Problem &problem, int64_t chunkRows);
/// Whether E of so many rows finds room in what dW lends, ahead of as many classes as may be kept there.
bool isLent(const Problem &problem, int64_t chunkRows);
/// Classes of a slice that was kept: the widest one's, if u of so many finds room where slices take turns.
int64_t keptSlice(const Problem &problem, const Config &config);
/// How many bytes of what dW lends lie before what it is lent to; negative where there is no room.
int64_t lentSliceBegin(const Problem &problem, const Config &config);
int64_t keptBegin(const Problem &problem, const Config &config);

} // namespace tilewright::lce
