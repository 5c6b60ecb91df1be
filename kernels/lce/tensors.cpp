#include "kernels/lce/tensors.h"

#include <algorithm>

#include "kernels/lce/caller_tensors.h"
#include "kernels/lce/gradient_kernels.h"
#include "kernels/lce/label_sort.h"
#include "kernels/lce/shard_tensors.h"

namespace tilewright::lce {
namespace {

/// Rows of 4-byte numbers begin at multiples of 16 bytes.
int64_t wholeStride(int64_t columns) { return roundUp(columns, 4); }

/// Adds the tensors of a call to its table: each with the condition under which it exists, and the phases
/// that it lives through.
class Declarations {
public:
  Declarations(const Scheme &scheme, const Config &config)
      : s_(scheme), c_(config), n_(scheme.rows), h_(scheme.hidden), v_(scheme.classes),
        chunk_(std::min(config.chunkRows, scheme.rows)), kept_(config.weightRows(scheme)),
        tiles_(ceilDiv(scheme.classes, config.forward.block.columns)) {}

  TensorTable placed() {
    addCallersTensors(s_, table_);
    call();
    chunk();
    if (s_.wantsGradients()) rowGradients();
    if (s_.wantsClassGradients()) classGradients();
    if (s_.hasSecondPass) secondPass();
    if (s_.isShard()) addShardTensors(s_, c_, table_);
    table_.place(s_.borrowedBytes);
    return table_;
  }

private:
  static constexpr ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  static constexpr Lifetime kAlways = {phase::begin, phase::end};

  // ---- Of the call ---------------------------------------------------------------------------------------

  TensorEntry &vector(TensorId id, const char *name, ElementType element, int64_t size, Lifetime life,
                      Extent extent = Extent::whole) {
    TensorEntry &entry = table_.addVector(id, name, element, size, life);
    entry.extent = extent;
    return entry;
  }
  TensorEntry &matrix(TensorId id, const char *name, ElementType element, int64_t rows, int64_t columns,
                      int64_t stride, Lifetime life, Extent extent = Extent::whole) {
    TensorEntry &entry = table_.addMatrix(id, name, element, rows, columns, stride, life);
    entry.extent = extent;
    return entry;
  }

  void call() {
    vector(tensor::status, "status", ElementType::i64, kCallStatusWords, kAlways);
    vector(tensor::row, "row", i32, n_, kAlways, Extent::rows);
    vector(tensor::compactLabel, "compactLabel", i32, n_, kAlways, Extent::rows);
    vector(tensor::validCount, "validCount", i32, 1, kAlways);
    if (n_ > kMostUncountedRows) {
      const int64_t blocks = ceilDiv(n_, kCountedRows);
      matrix(tensor::rowCounts, "rowCounts", i32, 2, blocks, blocks, {phase::begin, phase::begin});
      vector(tensor::rowStarts, "rowStarts", i32, ceilDiv(blocks, kCountedBlocks) + 2,
             {phase::begin, phase::begin});
    }
    if (s_.outputs.monitored) {
      vector(tensor::top, "top", f32, n_, kAlways);
      vector(tensor::norm, "norm", f32, n_, kAlways);
    }
    const Lifetime prepared = {phase::prepare, phase::end};
    if (s_.terms.classWeight) {
      vector(tensor::rowWeight, "rowWeight", f32, n_, {phase::prepare, phase::prepare});
      vector(tensor::weightFacts, "weightFacts", f32, 2, prepared);
    }
    if (s_.terms.margin) {
      vector(tensor::classNorm, "classNorm", f32, v_, prepared, Extent::classes);
      if (s_.terms.classWeight)
        vector(tensor::classFactor, "classFactor", f32, v_, prepared, Extent::classes);
    }
    if (const int64_t columns = c_.columnsInBuffer(s_))
      matrix(tensor::partial, "partial", f32, v_, columns, columns, prepared, Extent::classes);
    if (s_.dBias && *s_.dBias != f32 && c_.weightParts(s_) > 1)
      vector(tensor::partialBias, "partialBias", f32, v_, prepared, Extent::classes);
    if (c_.columnsInPlace(s_) > 0) {
      TensorEntry &sums = table_.addAlias(tensor::sumsInPlace, "sumsInPlace", tensor::dWeight);
      sums.element = f32;
      sums.rowStride /= 2;
    }
    if (s_.dHidden && isTransposed(s_, c_, ProductKind::dHidden)) {
      const int last = c_.chunks(s_) == 1 ? phase::hidden : phase::hiddenParts; // of all chunks
      transposed(tensor::wt, "wt", h_, v_, {phase::prepare, last});
    }
    if (s_.isUniformRankOne && s_.dHidden) {
      matrix(tensor::classSum, "classSum", f32, 1, h_, h_, {phase::prepare, phase::hiddenParts});
      partialSums(tensor::classPart0, v_, {phase::prepare, phase::prepare});
    }
  }

  void transposed(TensorId id, const char *name, int64_t rows, int64_t columns, Lifetime life) {
    matrix(id, name, f32, rows, columns, paddedStride(columns, f32), life);
  }

  /// Partial sums of so many rows, made by turns in one of two matrices.
  void partialSums(TensorId first, int64_t rows, Lifetime life, Extent extent = Extent::whole) {
    for (const TensorId id : {first, first + 1}) {
      rows = ceilDiv(rows, kSummedRows);
      if (rows <= 1) return;
      matrix(id, id == first ? "partialSums" : "partialSums2", f32, rows, h_, h_, life, extent);
    }
  }

  // ---- Of a chunk ----------------------------------------------------------------------------------------

  /// Of the K rows that the class gradients need: of a second pass all rows', throughout; else a chunk's.
  void ofKept(TensorId id, const char *name, int first, int last) {
    if (s_.hasSecondPass)
      vector(id, name, f32, n_, {phase::gather, phase::ownSlices}, Extent::rows);
    else
      vector(id, name, f32, chunk_, {first, last}, Extent::chunk);
  }
  void ofChunk(TensorId id, const char *name, ElementType element, int first, int last) {
    vector(id, name, element, chunk_, {first, last}, Extent::chunk);
  }
  void ofTiles(TensorId id, const char *name, ElementType element, int last) {
    matrix(id, name, element, chunk_, tiles_, wholeStride(tiles_), {phase::forward, last}, Extent::chunk);
  }

  /// The last phase in which a chunk's rows of X are used.
  int lastOfRows() const {
    if (s_.terms.margin && s_.dHidden) return phase::hiddenParts; // which takes a part of these rows
    return s_.makesClassGradientsOfChunks() ? phase::weight : phase::fixUp;
  }

  void chunk() {
    matrix(tensor::xc, "xc", s_.element, chunk_, h_, h_, {phase::gather, lastOfRows()}, Extent::chunk);
    const int summed = s_.isShard() ? phase::stats : phase::combine; // the last phase that asks for sums
    ofChunk(tensor::target, "target", f32, phase::gather, summed);
    ofChunk(tensor::retry, "retry", i32, phase::gather, summed);
    vector(tensor::rowRange, "rowRange", i32, 4, {phase::gather, s_.isShard() ? summed : phase::hiddenParts});
    ofKept(tensor::shift, "shift", phase::gather, phase::fixUp);
    if (s_.fixUp == FixUp::rescale) sample();
    if (s_.normalisesRows) ofKept(tensor::largest, "largest", phase::gather, phase::weight);
    if (s_.terms.margin) ofKept(tensor::rowNorm, "rowNorm", phase::gather, phase::fixUp);
    if (s_.wantsGradients() && !s_.terms.logitsAreProducts()) {
      ofChunk(tensor::rate, "rate", f32, phase::gather, phase::combine);
      ofChunk(tensor::targetRate, "targetRate", f32, phase::gather, phase::combine);
    }
    ofTiles(tensor::sums, "sums", f32, summed);
    if (s_.shifts != Shifts::ofRowsAlone || s_.repairsShifts)
      ofTiles(tensor::tops, "tops", f32, s_.isShard() && s_.fixUp != FixUp::rescale ? summed : phase::fixUp);
    if (s_.outputs.best) ofTiles(tensor::best, "best", i32, summed);
    if (s_.hasTotals) ofChunk(tensor::total, "total", f32, phase::forward, summed);
    for (int sum = 0; sum < kRowSums; ++sum)
      if (s_.rowSums[sum]) ofTiles(tensor::rowSums + sum, rowSumName(sum), f32, summed);
    if (!s_.keepsExponentials) return;
    TensorEntry &e = matrixOfE(tensor::e, "e", chunk_, v_, {phase::forward, phase::hiddenParts});
    e.extent = Extent::chunk;
    if (borrowsChunk(s_, chunk_)) e.arena = Arena::borrowed;
  }

  /// Classes by which rows' shifts are estimated.
  void sample() {
    const int64_t classes = c_.forward.block.columns;
    const Lifetime life = {phase::gather, phase::gather};
    matrix(tensor::sample, "sample", s_.element, classes, h_, h_, life);
    vector(tensor::sampleLabel, "sampleLabel", i32, classes, life);
    ofChunk(tensor::sampleTop, "sampleTop", f32, phase::gather, phase::forward);
    ofChunk(tensor::unitOfE, "unitOfE", f32, phase::forward, phase::fixUp);
    if (s_.terms.bias) vector(tensor::sampleBias, "sampleBias", *s_.terms.bias, classes, life);
  }

  TensorEntry &matrixOfE(TensorId id, const char *name, int64_t rows, int64_t classes, Lifetime life) {
    const ElementType type = s_.exponentials;
    return matrix(id, name, type, rows, classes, paddedStride(classes, type), life);
  }

  // ---- Of gradients --------------------------------------------------------------------------------------

  void rowGradients() {
    ofKept(tensor::scale, "scale", phase::combine, phase::hiddenParts);
    ofKept(tensor::oneHot, "oneHot", phase::combine, phase::hiddenParts);
    if (s_.fixUp != FixUp::none) ofKept(tensor::factor, "factor", phase::combine, phase::fixUp);
    if (s_.terms.gradEntropy) ofKept(tensor::moment, "moment", phase::combine, phase::fixUp);
    if (s_.terms.labelSmoothing) ofKept(tensor::uniform, "uniform", phase::combine, phase::hiddenParts);
    if (s_.terms.margin) ofChunk(tensor::self, "self", f32, phase::combine, phase::hiddenParts);
    if (!s_.dHidden || !c_.hasTail()) return;
    const PartsOrder order = partsOrder(s_, c_);
    const Lifetime parts = {order == PartsOrder::behindWeight ? phase::hiddenParts : phase::hidden,
                            order == PartsOrder::beforeWeight ? phase::hidden : phase::hiddenParts};
    matrix(tensor::products, "products", f32, c_.tail.parts * c_.tailRows(), h_, h_, parts);
  }

  /// Of a chunk's rows, or of all rows in a second pass.
  void classGradients() {
    const bool second = s_.hasSecondPass;
    const Lifetime sorted =
        second ? Lifetime{phase::sortAll, phase::ownSlices} : Lifetime{phase::sort, phase::bias};
    const Extent extent = second ? Extent::whole : Extent::chunk;
    if (s_.dWeight) scaledRows();
    if (s_.dWeight && isTransposed(s_, c_, ProductKind::dWeight)) {
      transposed(tensor::et, "et", v_, chunk_, {phase::weight, phase::weight});
      transposed(tensor::xst, "xst", h_, chunk_, {phase::weight, phase::weight});
    }
    const bool early = ranksInCombine(s_, c_);
    const Lifetime ranked = {early ? int(phase::combine) : sorted.first, sorted.last};
    vector(tensor::order, "order", i32, kept_, ranked, extent);
    vector(tensor::run, "run", i32, kept_, ranked, extent);
    vector(tensor::slot, "slot", i32, v_, {early ? int(phase::gather) : sorted.first, sorted.last},
           Extent::classes);
    if (s_.dWeight && !second) {
      const int64_t columns = c_.weightColumns(s_);
      const bool ofClasses = hasRowsOfClasses(s_, c_);
      const int first = sumsRunBesideHidden(s_, c_) ? phase::hidden : phase::weight;
      matrix(tensor::u, "u", f32, ofClasses ? v_ : chunk_, columns, columns, {first, phase::weight},
             ofClasses ? Extent::whole : Extent::chunk);
    }
    const Lifetime sorting = {sorted.first, sorted.first};
    if (s_.tensorCores && !comparesAllPairs(s_, c_)) {
      vector(tensor::blockLabels, "blockLabels", i32, kept_, sorting, extent);
      vector(tensor::blockRows, "blockRows", i32, kept_, sorting, extent);
    }
    if (mayHaveLongRuns(s_, c_)) {
      const int64_t pieces = std::max<int64_t>(1, ceilDiv(kept_, kRunPiece));
      if (s_.dWeight) matrix(tensor::pieces, "pieces", f32, pieces, h_, h_, sorted, extent);
      if (s_.dBias) vector(tensor::labelPieces, "labelPieces", f32, pieces, sorting, extent);
    }
    if (s_.isUniformRankOne && s_.dWeight) {
      matrix(tensor::rowSum, "rowSum", f32, 1, h_, h_, sorted);
      partialSums(tensor::rowPart0, kept_, {sorted.first, sorted.first}, extent);
    }
    if (!s_.dBias) return;
    const int64_t classes = second ? std::min(c_.widestSlice(), v_) : v_;
    vector(tensor::labelSums, "labelSums", f32, v_, sorted, Extent::classes);
    const int64_t parts = std::max<int64_t>(1, ceilDiv(kept_, kSummedRows));
    matrix(tensor::biasParts, "biasParts", f32, parts, classes, wholeStride(classes),
           second ? Lifetime{phase::keptSlices, phase::ownSlices} : Lifetime{phase::bias, phase::bias},
           extent);
  }

  void scaledRows() {
    const bool second = s_.hasSecondPass;
    const Lifetime life =
        second ? Lifetime{phase::copyRows, phase::ownSlices} : Lifetime{phase::combine, phase::weight};
    const bool apart =
        s_.element != s_.exponentials || ((s_.normalisesRows || s_.scalesRows) && !s_.scalesInPlace);
    if (second) allRows();
    if (apart)
      matrix(tensor::xs, "xs", s_.exponentials, kept_, h_, h_, life, second ? Extent::whole : Extent::chunk);
    else
      table_.addAlias(tensor::xs, "xs", second ? tensor::allX : tensor::xc);
    if (s_.normalisesRows)
      vector(tensor::gain, "gain", f32, 1,
             second ? Lifetime{phase::sortAll, phase::ownSlices} : Lifetime{phase::sort, phase::weight});
  }

  void allRows() {
    matrix(tensor::allX, "allX", s_.element, kept_, h_, h_, {phase::copyRows, phase::ownSlices});
  }

  // ---- Of a second pass ----------------------------------------------------------------------------------

  void secondPass() {
    if (!s_.dWeight) allRows();
    slice(tensor::sliceE, tensor::sliceU, c_.sliceClasses, phase::ownSlices, Arena::workspace);
    if (c_.borrowedSlices(s_) > 0) {
      slice(tensor::borrowedE, tensor::borrowedU, c_.borrowedClasses, phase::borrowedSlices, Arena::borrowed);
      const int64_t stored = c_.keptClasses + c_.borrowedSlices(s_) * c_.borrowedClasses;
      table_.reserveBorrowed(stored * s_.classBytes(), {phase::borrowedSlices, phase::end});
    }
    if (!c_.keptClasses) return;
    TensorEntry &kept =
        matrixOfE(tensor::keptE, "keptE", n_, c_.keptClasses, {phase::gather, phase::keptSlices});
    kept.arena = Arena::borrowed, kept.place = Place::highest, kept.extent = Extent::rows;
    table_.reserveBorrowed(c_.keptClasses * s_.classBytes(), {phase::keptSlices, phase::end});
    if (s_.dWeight) matrixOfU(tensor::keptU, "keptU", keptSlice(s_, c_), phase::keptSlices);
  }

  TensorEntry &matrixOfU(TensorId id, const char *name, int64_t classes, int during) {
    const int64_t columns = c_.weightColumns(s_, classes);
    return matrix(id, name, f32, std::min(classes, v_), columns, columns, {during, during});
  }

  void slice(TensorId e, TensorId u, int64_t most, int during, Arena arena) {
    const int64_t classes = std::min(most, v_);
    TensorEntry *entries[] = {&matrixOfE(e, "sliceE", n_, classes, {during, during}),
                              s_.dWeight ? &matrixOfU(u, "sliceU", classes, during) : nullptr};
    for (TensorEntry *entry : entries) {
      if (!entry) continue;
      entry->arena = arena;
      if (arena == Arena::borrowed) entry->place = Place::highest;
    }
  }

  const Scheme &s_;
  const Config &c_;
  const int64_t n_, h_, v_;
  const int64_t chunk_, kept_; ///< rows of a chunk, and those that dW and db are made of at once
  const int64_t tiles_;        ///< blocks of columns of the forward product
  TensorTable table_;
};

} // namespace

TensorTable tensorsOf(const Scheme &scheme, const Config &config) {
  return Declarations(scheme, config).placed();
}

int64_t workspaceBytes(const Scheme &scheme, const Config &config) {
  return tensorsOf(scheme, config).workspaceBytes();
}

} // namespace tilewright::lce
