#include <algorithm>

#include "kernels/lce/plan.h"
#include "kernels/loss/carver.h"

namespace tilewright::lce {
namespace {

/// Rows of 4-byte numbers begin at multiples of 16 bytes.
int64_t wholeStride(int64_t columns) { return roundUp(columns, 4); }

/// What options add to the workspace.
void layOutOptions(const Problem &problem, int64_t c, int64_t tiles, Carver &carver, Workspace &w) {
  const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  const int64_t n = problem.rows, h = problem.hidden, v = problem.classes;
  const LossTerms &terms = problem.terms;
  const auto vectors = [&](std::initializer_list<TensorRef *> tensors, int64_t size, ElementType type) {
    for (TensorRef *tensor : tensors)
      *tensor = carver.vector(type, size);
  };
  if (problem.outputs.entropy) vectors({&w.entropy}, n, f32);
  if (problem.outputs.best) {
    vectors({&w.argmax, &w.correct}, n, i32);
    w.best = carver.matrix(i32, c, tiles, wholeStride(tiles));
  }
  if (problem.outputs.monitored) vectors({&w.top, &w.norm}, n, f32);
  if (terms.classWeight) {
    vectors({&w.rowWeight}, n, f32);
    vectors({&w.weightFacts}, 2, f32);
    vectors({&w.firstBadWeight}, 1, i32);
  }
  if (terms.margin) {
    vectors({&w.rowNorm}, c, f32);
    vectors({&w.classNorm}, v, f32);
    if (terms.classWeight) vectors({&w.classFactor}, v, f32);
  }
  if (!problem.wantsGradients()) return;
  if (!terms.logitsAreProducts()) vectors({&w.rate, &w.targetRate}, c, f32);
  if (problem.completion() != Completion::none) vectors({&w.factor}, c, f32);
  if (terms.gradEntropy) vectors({&w.moment}, c, f32);
  if (terms.labelSmoothing) vectors({&w.uniform}, c, f32);
  if (terms.margin) vectors({&w.self}, c, f32);
  if (problem.isUniformRankOne()) {
    w.classSum = carver.matrix(f32, 1, h, h);
    w.rowSum = carver.matrix(f32, 1, h, h);
    int64_t parts = std::max(v, c);
    for (TensorRef &sums : w.partSums) {
      parts = ceilDiv(parts, kSummedRows);
      sums = carver.matrix(f32, parts, h, h);
    }
  }
}

} // namespace

int64_t paddedStride(int64_t columns, ElementType element) {
  const int64_t line = 128 / elementBytes(element);
  const int64_t stride = roundUp(columns, line);
  return stride % (16 * line) == 0 ? stride + line : stride;
}

Workspace layOut(const Problem &problem, const Config &config, void *base) {
  const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  const int64_t n = problem.rows, h = problem.hidden, v = problem.classes;
  const int64_t c = std::min(config.chunkRows, n), tiles = ceilDiv(v, config.forward.block.columns);
  const int64_t sumStride = wholeStride(tiles);
  Carver carver(base);
  Workspace w;
  w.rowNumbers = carver.vector(i32, 2 * n);
  w.row = TensorRef::vector(w.rowNumbers.data, i32, n);
  w.compactLabel = TensorRef::vector(static_cast<char *>(w.rowNumbers.data) + 4 * n, i32, n);
  w.summary = carver.vector(i32, 1);
  if (problem.reduction != Reduction::none) w.rowLoss = carver.vector(f32, n);
  if (!problem.wantsLse) w.lse = carver.vector(f32, n);
  w.xc = carver.matrix(problem.element, c, h, h);
  w.target = carver.vector(f32, c);
  w.anchor = carver.vector(f32, c);
  w.redo = carver.vector(i32, c);
  w.pending = carver.vector(i32, 2);
  Carver sums = carver, products = carver; // u is made once these are used up, in their place
  w.sums = sums.matrix(f32, c, tiles, sumStride);
  w.tops = sums.matrix(f32, c, tiles, sumStride);
  const PerRowSum<bool> rowSums = problem.rowSums();
  for (int s = 0; s < kRowSums; ++s)
    if (rowSums[s]) w.rowSums[s] = sums.matrix(f32, c, tiles, sumStride);
  const int64_t columns = config.weightColumns(problem);
  if (problem.dWeight) w.u = carver.matrix(f32, c, columns, columns);
  if (problem.dHidden && config.hasTail())
    w.products = products.matrix(f32, config.tail.parts * config.tailRows(), h, h);
  carver.skipTo(std::max(sums.bytes(), products.bytes()));
  if (problem.wantsGradients()) {
    const int64_t classes = config.slices(problem) > 1 ? config.sliceClasses : v;
    w.e = carver.matrix(problem.exponentials(), c, classes, paddedStride(classes, problem.exponentials()));
    w.scale = carver.vector(f32, c);
    w.oneHot = carver.vector(f32, c);
    const bool apart = problem.normalisesRows() || (problem.scalesRows() && !problem.scalesInPlace());
    w.xs = apart ? carver.matrix(problem.exponentials(), c, h, h) : w.xc;
    if (problem.normalisesRows()) w.gain = carver.vector(f32, 1);
  }
  if (config.slices(problem) > 1) {
    w.sliceLabel = carver.vector(i32, c);
    if (problem.dHidden) w.partialX = carver.matrix(f32, c, h, h);
  }
  if (problem.sortsLabels()) {
    w.order = carver.vector(i32, c);
    w.run = carver.vector(i32, c);
    w.slot = carver.vector(i32, v);
  }
  if (problem.dBias) {
    w.labelSums = carver.vector(f32, v);
    w.biasParts = carver.matrix(f32, ceilDiv(c, kSummedRows), w.e.sizes[1], wholeStride(w.e.sizes[1]));
  }
  if (problem.dWeight) {
    // Normalised gradients are made of whole rows, in fp32.
    const bool holds = problem.terms.margin ? *problem.dWeight == f32 && !problem.accumulate
                                            : *problem.dWeight == f32 || config.chunks(problem) == 1;
    if (!holds) w.partial = carver.matrix(config.halves ? ElementType::bf16 : f32, v, h, h);
  }
  if (problem.dBias && *problem.dBias != f32 && config.chunks(problem) > 1)
    w.partialBias = carver.vector(f32, v);
  layOutOptions(problem, c, tiles, carver, w);
  w.bytes = carver.bytes();
  return w;
}

} // namespace tilewright::lce
