#include <algorithm>

#include "kernels/lce/plan.h"
#include "kernels/loss/carver.h"

namespace tilewright::lce {
namespace {

/// Rows of 4-byte numbers begin at multiples of 16 bytes.
int64_t wholeStride(int64_t columns) { return roundUp(columns, 4); }

TensorRef cutE(const Problem &p, int64_t rows, int64_t classes, Carver &carver) {
  const ElementType type = p.exponentials();
  return carver.matrix(type, rows, classes, paddedStride(classes, type));
}

TensorRef cutOneHot(const Problem &p, const Config &config, int64_t classes, Carver &carver) {
  const int64_t columns = config.weightColumns(p, classes);
  return p.dWeight ? carver.matrix(ElementType::f32, classes, columns, columns) : TensorRef();
}

SliceMemory cutSlice(const Problem &p, const Config &config, int64_t most, Carver &carver) {
  const int64_t classes = std::min(most, p.classes);
  const TensorRef e = cutE(p, p.rows, classes, carver);
  return {e, cutOneHot(p, config, classes, carver)};
}

/// Where the last pieces of what dW lends begin that take as much as `counting` has counted.
int64_t lastPieces(const Problem &problem, const Carver &counting) {
  const int64_t left = problem.lentBytes - counting.bytes();
  return left < 0 ? left : left / kPieceBytes * kPieceBytes;
}

/// Cuts what a call needs out of memory: what is there throughout, what a chunk has, and what dW and db are
/// made with.
class Layout {
public:
  Layout(const Problem &problem, const Config &config, void *lent)
      : p_(problem), config_(config), lent_(lent), chunk_(std::min(config.chunkRows, problem.rows)),
        kept_(config.weightRows(problem)), tiles_(ceilDiv(problem.classes, config.forward.block.columns)) {}

  Workspace cut(void *base) {
    Carver carver(base);
    forCall(carver);
    if (p_.wantsGradients()) forGradients(carver);
    Carver slices = carver; // those come when all chunks are done
    forChunk(carver);
    if (p_.wantsClassGradients()) forClassGradients(p_.hasSecondPass() ? slices : carver);
    w_.bytes = std::max(carver.bytes(), slices.bytes());
    return w_;
  }

private:
  /// What is told of each row, and what options need of all rows or classes beforehand.
  void forCall(Carver &carver) {
    const int64_t n = p_.rows, v = p_.classes;
    vectors(carver, {&w_.row, &w_.compactLabel}, n, i32);
    w_.summary = carver.vector(i32, 1);
    if (p_.reduction != Reduction::none) w_.rowLoss = carver.vector(f32, n);
    if (!p_.wantsLse) w_.lse = carver.vector(f32, n);
    w_.anchor = carver.vector(f32, kept_);
    if (p_.outputs.entropy) vectors(carver, {&w_.entropy}, n, f32);
    if (p_.outputs.best) vectors(carver, {&w_.argmax, &w_.correct}, n, i32);
    if (p_.outputs.monitored) vectors(carver, {&w_.top, &w_.norm}, n, f32);
    if (p_.terms.classWeight) {
      vectors(carver, {&w_.rowWeight}, n, f32);
      vectors(carver, {&w_.weightFacts}, 2, f32);
      vectors(carver, {&w_.firstBadWeight}, 1, i32);
    }
    if (!p_.terms.margin) return;
    vectors(carver, {&w_.rowNorm}, kept_, f32);
    vectors(carver, {&w_.classNorm}, v, f32);
    if (p_.terms.classWeight) vectors(carver, {&w_.classFactor}, v, f32);
  }

  /// Factors of the rows, gradients that chunks add to, and sums over all rows or classes.
  void forGradients(Carver &carver) {
    const int64_t v = p_.classes, h = p_.hidden;
    vectors(carver, {&w_.scale, &w_.oneHot}, kept_, f32);
    if (p_.completion() != Completion::none) vectors(carver, {&w_.factor}, kept_, f32);
    if (p_.terms.gradEntropy) vectors(carver, {&w_.moment}, kept_, f32);
    if (p_.terms.labelSmoothing) vectors(carver, {&w_.uniform}, kept_, f32);
    if (const int64_t columns = config_.columnsInBuffer(p_))
      w_.partial = carver.matrix(f32, v, columns, columns);
    if (p_.dBias && *p_.dBias != f32 && config_.weightParts(p_) > 1)
      vectors(carver, {&w_.partialBias}, v, f32);
    if (!p_.isUniformRankOne()) return;
    w_.classSum = carver.matrix(f32, 1, h, h);
    w_.rowSum = carver.matrix(f32, 1, h, h);
    int64_t parts = std::max(v, kept_);
    for (TensorRef &sums : w_.partSums) {
      parts = ceilDiv(parts, kSummedRows);
      sums = carver.matrix(f32, parts, h, h);
    }
  }

  void forChunk(Carver &carver) {
    const int64_t h = p_.hidden, v = p_.classes;
    Carver products = carver; // of dX's tail, which are made once all of this but E is used up, in its place
    w_.xc = carver.matrix(p_.element, chunk_, h, h);
    if (p_.terms.margin) products = carver; // dX takes a part of these rows
    w_.target = carver.vector(f32, chunk_);
    w_.redo = carver.vector(i32, chunk_);
    w_.pending = carver.vector(i32, 2);
    forSums(carver);
    if (p_.dHidden && config_.hasTail())
      w_.products = products.matrix(f32, config_.tail.parts * config_.tailRows(), h, h);
    carver.skipTo(std::max(carver.bytes(), products.bytes()));
    Carver lent(lent_);
    if (p_.keepsExponentials()) w_.e = cutE(p_, chunk_, v, isLent(p_, chunk_) ? lent : carver);
    if (p_.outputs.best) w_.best = carver.matrix(i32, chunk_, tiles_, wholeStride(tiles_));
    if (!p_.wantsGradients()) return;
    if (!p_.terms.logitsAreProducts()) vectors(carver, {&w_.rate, &w_.targetRate}, chunk_, f32);
    if (p_.terms.margin) vectors(carver, {&w_.self}, chunk_, f32);
  }

  /// u is made once E's sums are used up, in their place.
  void forSums(Carver &carver) {
    const int64_t stride = wholeStride(tiles_);
    Carver sums = carver, u = carver;
    w_.sums = sums.matrix(f32, chunk_, tiles_, stride);
    w_.tops = sums.matrix(f32, chunk_, tiles_, stride);
    if (p_.hasTotals()) w_.total = sums.vector(f32, chunk_);
    const PerRowSum<bool> rowSums = p_.rowSums();
    for (int s = 0; s < kRowSums; ++s)
      if (rowSums[s]) w_.rowSums[s] = sums.matrix(f32, chunk_, tiles_, stride);
    const int64_t columns = config_.weightColumns(p_);
    if (p_.dWeight && !p_.hasSecondPass()) w_.u = u.matrix(f32, chunk_, columns, columns);
    carver.skipTo(std::max(sums.bytes(), u.bytes()));
  }

  void forClassGradients(Carver &carver) {
    const int64_t v = p_.classes;
    const int64_t classes = p_.hasSecondPass() ? std::min(config_.widestSlice(), v) : v;
    if (p_.hasSecondPass()) forSlices(carver);
    if (p_.dWeight) forScaledRows(carver);
    vectors(carver, {&w_.order, &w_.run}, kept_, i32);
    vectors(carver, {&w_.slot}, v, i32);
    if (!p_.dBias) return;
    vectors(carver, {&w_.labelSums}, v, f32);
    w_.biasParts = carver.matrix(f32, ceilDiv(kept_, kSummedRows), classes, wholeStride(classes));
  }

  void forSlices(Carver &carver) {
    w_.allX = carver.matrix(p_.element, kept_, p_.hidden, p_.hidden);
    Carver inTurn = carver;
    w_.slice = cutSlice(p_, config_, config_.sliceClasses, carver);
    if (config_.lentClasses) {
      Carver lent = lentFrom(lentSliceBegin(p_, config_));
      w_.lentSlice = cutSlice(p_, config_, config_.lentClasses, lent);
    }
    if (!config_.keptClasses) return;
    Carver lent = lentFrom(keptBegin(p_, config_));
    w_.kept.e = cutE(p_, p_.rows, config_.keptClasses, lent);
    w_.kept.u = cutOneHot(p_, config_, keptSlice(p_, config_), inTurn);
  }

  /// What dW lends, but for its first bytes.
  Carver lentFrom(int64_t begin) const {
    Carver lent(lent_);
    lent.skipTo(begin);
    return lent;
  }

  void forScaledRows(Carver &carver) {
    const TensorRef &rows = p_.hasSecondPass() ? w_.allX : w_.xc;
    const bool apart =
        p_.normalisesRows() || p_.element != p_.exponentials() || (p_.scalesRows() && !p_.scalesInPlace());
    w_.xs = apart ? carver.matrix(p_.exponentials(), kept_, p_.hidden, p_.hidden) : rows;
    if (p_.normalisesRows()) w_.gain = carver.vector(f32, 1);
  }

  static void vectors(Carver &carver, std::initializer_list<TensorRef *> tensors, int64_t size,
                      ElementType type) {
    for (TensorRef *tensor : tensors)
      *tensor = carver.vector(type, size);
  }

  static constexpr ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  const Problem &p_;
  const Config &config_;
  void *const lent_;
  const int64_t chunk_, kept_; ///< rows of a chunk, and those that dW and db are made of at once
  const int64_t tiles_;        ///< blocks of columns of the forward product
  Workspace w_;
};

} // namespace

int64_t paddedStride(int64_t columns, ElementType element) {
  const int64_t line = 128 / elementBytes(element);
  const int64_t stride = roundUp(columns, line);
  return stride % (16 * line) == 0 ? stride + line : stride;
}

Workspace layOut(const Problem &problem, const Config &config, void *base, void *lent) {
  return Layout(problem, config, lent).cut(base);
}

void *lentMemory(const TensorRef &dWeight) {
  const auto address = reinterpret_cast<uintptr_t>(dWeight.data);
  return reinterpret_cast<void *>(roundUp(static_cast<int64_t>(address), kPieceBytes));
}

int64_t exponentialBytes(const Problem &problem, int64_t chunkRows) {
  Carver counting(nullptr);
  cutE(problem, std::min(chunkRows, problem.rows), problem.classes, counting);
  return counting.bytes();
}

bool isLent(const Problem &problem, int64_t chunkRows) {
  if (!problem.hasSecondPass() || problem.lentBytes == 0) return false;
  const int64_t numberBytes = elementBytes(problem.exponentials());
  const int64_t kept = problem.lentBytes / (problem.classBytes() + problem.rows * numberBytes);
  return exponentialBytes(problem, chunkRows) <= kept * problem.classBytes();
}

int64_t keptSlice(const Problem &problem, const Config &config) {
  Carver slice(nullptr), u(nullptr);
  cutSlice(problem, config, config.sliceClasses, slice);
  cutOneHot(problem, config, config.widestSlice(), u);
  return u.bytes() <= slice.bytes() ? config.widestSlice() : config.sliceClasses;
}

int64_t lentSliceBegin(const Problem &problem, const Config &config) {
  Carver counting(nullptr);
  cutSlice(problem, config, config.lentClasses, counting);
  return lastPieces(problem, counting);
}

int64_t keptBegin(const Problem &problem, const Config &config) {
  Carver counting(nullptr);
  cutE(problem, problem.rows, config.keptClasses, counting);
  return lastPieces(problem, counting);
}

} // namespace tilewright::lce
