#include "kernels/lce/program.h"

#include "kernels/lce/phases/phases.h"

namespace tilewright::lce {
namespace {

TermValues valuesOf(const Scheme &scheme, const OptionValues &options) {
  TermValues values;
  values.options = options.loss;
  values.margin = options.margin;
  values.classes = scheme.allClasses();
  values.bias = tensor::bias;
  values.classWeight = tensor::classWeight;
  values.gradLse = tensor::gradLse;
  values.gradEntropy = tensor::gradEntropy;
  values.weightFacts = tensor::weightFacts;
  values.classNorm = tensor::classNorm;
  return values;
}

/// What is made in this phase of dX of rows in parts: they, their sum, or both.
void emitPartsOfHidden(Emitter &m, int now) {
  if (!m.has(tensor::products)) return;
  const Lifetime &life = m.lifeOf(tensor::products);
  if (life.first == now) emitHiddenParts(m);
  if (life.last == now) emitHiddenTotal(m);
}

/// Of one chunk of rows. dX comes before dW, whose sums of label segments are made beside it.
void emitChunk(Emitter &m) {
  m.forEachChunk(true);
  emitExponentials(m);
  emitCombination(m);
  if (m.s.keepsExponentials) {
    const bool hasClassGradients = m.s.makesClassGradientsOfChunks();
    emitFixUp(m);
    if (hasClassGradients) emitSort(m);
    emitHiddenTiles(m);
    emitPartsOfHidden(m, phase::hidden);
    if (hasClassGradients) emitClassGradients(m, tensor::e, tensor::u, 0, m.s.classes);
    if (m.c.keptClasses) emitKept(m);
    emitPartsOfHidden(m, phase::hiddenParts);
  }
  m.forEachChunk(false);
}

/// The same of a shard, cut where ranks wait for one another. dX comes before dW, beside which it is added
/// up.
void emitChunkOfShard(Emitter &m) {
  m.forEachChunk(true);
  m.forPart(CallPart::stats);
  emitExponentials(m);
  emitShardStats(m);
  m.forPart(CallPart::merge);
  emitMerge(m);
  if (m.s.keepsExponentials) emitFixUp(m);
  if (m.s.wantsClassGradients()) emitSort(m);
  m.forPart(CallPart::dHidden);
  emitHiddenTiles(m);
  emitPartsOfHidden(m, phase::hidden);
  m.forPart(CallPart::dWeight);
  if (m.s.wantsClassGradients()) emitClassGradients(m, tensor::e, tensor::u, 0, m.s.classes);
  m.forEachChunk(false);
}

} // namespace

StatusOr<Program> programFor(const Scheme &scheme, const Config &config, const OptionValues &options,
                             TargetKind target) {
  const TensorTable table = tensorsOf(scheme, config);
  if (!table.fitsBorrowed())
    return userError("what " + config.str() + " keeps in dW's memory does not fit there, for " +
                     scheme.Request::str());
  Program program(table, {scheme.rows, config.chunkRows}, tensor::status);
  const TermValues values = valuesOf(scheme, options);
  Emitter emitter(scheme, config, values, target, program);
  emitCompaction(emitter);
  if (scheme.isShard()) emitShardLabels(emitter);
  emitPreparation(emitter);
  scheme.isShard() ? emitChunkOfShard(emitter) : emitChunk(emitter);
  if (scheme.hasSecondPass) emitSecondPass(emitter);
  emitter.forPart(CallPart::finish);
  emitFinish(emitter);
  return program;
}

} // namespace tilewright::lce
