#include "kernels/catalog.h"

#include "kernels/ce/kernels.h"
#include "kernels/examples/examples.h"
#include "kernels/lce/gradient_kernels.h"
#include "kernels/lce/label_sort.h"
#include "kernels/lce/shard_kernels.h"
#include "kernels/loss/kernels.h"

namespace tilewright {
namespace {

// E and the scaled rows of X have the inputs' type. Kernels of 16 bits are those of whole calls on a GPU: in
// f16 E's shifts are raised, in bf16 rows of E are finished with their losses.
bool isHalf(ElementType element) { return element == ElementType::f16; }
bool finishesRows(ElementType element) { return element == ElementType::bf16; }

const lce::Block kBlock{128, 128};
const UpstreamSpec kMean{Upstream::one, true};

// The plain loss sums what it stores.
constexpr PerRowSum<bool> kStored = {true};

Kernel lceGatherRows(ElementType element) { return lce::gatherRows({element}); }
Kernel lceForward(ElementType element) {
  lce::ForwardSpec spec{element, element, kBlock};
  spec.shifts = isHalf(element)         ? lce::Shifts::raised
                : finishesRows(element) ? lce::Shifts::ofRowsAlone
                                        : lce::Shifts::ofRows;
  if (element == ElementType::f32) spec.sums = kStored;
  spec.flushesSmall = element == ElementType::bf16;
  return lce::forward(spec);
}
Kernel lceForwardLossBy(ElementType element, lce::Shifts shifts) {
  lce::ForwardSpec spec{element, {}, kBlock};
  spec.shifts = shifts;
  return lce::forward(spec);
}
Kernel lceForwardLoss(ElementType element) { return lceForwardLossBy(element, lce::Shifts::ofRowsAlone); }
Kernel lceForwardBlocks(ElementType element) { return lceForwardLossBy(element, lce::Shifts::ofBlocks); }
Kernel lceSampleClasses(ElementType element) { return lce::sampleClasses(element, {}); }
Kernel lceSampleTops(ElementType element) { return lce::sampleTops({element, kBlock}); }
Kernel lceTotalSums(ElementType) { return lce::totalSums(true); }
Kernel lceJoinSums(ElementType) { return lce::joinSums(true); }
Kernel lceRetryRange(ElementType) { return lce::retryRange(); }
Kernel lceCheckShifts(ElementType) { return lce::checkShifts(true); }
Kernel lceCombine(ElementType element) {
  lce::CombineSpec::Gradients gradients{element, element, kMean};
  lce::CombineSpec spec{gradients};
  if (finishesRows(element)) spec.finish = {kBlock, lce::OwnShifts::retried}, spec.hasTotals = true;
  if (element == ElementType::f32) spec.sums = kStored;
  if (!isHalf(element)) return lce::combine(spec);
  gradients.fixUp = lce::FixUp::rescale;
  gradients.scalesRows = false;
  spec.gradients = gradients;
  spec.hasTotals = true;
  return lce::combine(spec);
}
Kernel lceShardLabels(ElementType) { return lce::shardLabels(); }
Kernel lceShardStats(ElementType element) {
  return lce::shardStats({isHalf(element) ? PerRowSum<bool>{} : kStored, false, isHalf(element)});
}
lce::CombineSpec mergeSpec(ElementType element) {
  lce::CombineSpec::Gradients gradients{element, element, kMean};
  if (!isHalf(element)) return {gradients, {}, kStored};
  gradients.fixUp = lce::FixUp::rescale;
  gradients.scalesRows = false;
  return {gradients};
}
Kernel lceMergeShards(ElementType element) { return lce::mergeShards(mergeSpec(element)); }
Kernel lceRescale(ElementType element) { return lce::rescale({element, kBlock.columns, isHalf(element)}); }
Kernel lceFixUpAgain(ElementType element) { return lce::fixUpAgain({element, element, kBlock}); }
Kernel lceRowsGain(ElementType) { return lce::rowsGain(); }
Kernel lceScaleRows(ElementType element) { return lce::scaleRows({element}); }
Kernel lceTranspose(ElementType) { return lce::transposeMatrix(ElementType::f32); }
Kernel lceKeep(ElementType element) { return lce::keep({element, {32, kBlock.columns}, true}); }
Kernel lceCopyRows(ElementType element) { return lce::copyRows(element, element); }
Kernel lceLogits(ElementType element) { return lce::logits({element, element, kBlock}); }
Kernel lceRankLabels(ElementType) { return lce::rankLabels(); }
Kernel lceSortBlocks(ElementType) { return lce::sortBlocks(); }
Kernel lceMergeBlocks(ElementType) { return lce::mergeBlocks({lce::kSortedBlock, true}); }
Kernel lceCountLabels(ElementType) { return lce::countLabels(); }
Kernel lceOneHotSum(ElementType element) { return lce::oneHotSum({element, 512, 8}); }
Kernel lceOneHotPieces(ElementType element) { return lce::oneHotPieces(element, 256); }
Kernel lceOneHotSumOfPieces(ElementType element) {
  lce::OneHotSumSpec spec{element, 256, 8};
  spec.ofPieces = true;
  return lce::oneHotSum(spec);
}
CompileOptions oneHotOptions(TargetKind) { return lce::oneHotSumOptions(); }
Kernel lceDx(ElementType element) { return lce::dHidden({element, element, element, kBlock}); }
Kernel lceDxParts(ElementType element) { return lce::dHiddenParts({element, element, kBlock, 3}); }
Kernel lceDxTotal(ElementType element) {
  lce::DHiddenSpec spec{element, element, element, lce::kTotalBlock};
  spec.parts = 3;
  return lce::dHidden(spec);
}
Kernel lceDwOf(ElementType element, ElementType output, lce::Accumulation::Mode mode) {
  lce::DWeightSpec spec{element, output, {mode}, kBlock};
  spec.gain = isHalf(element);
  return lce::dWeight(spec);
}
Kernel lceDw(ElementType element) { return lceDwOf(element, element, lce::Accumulation::Mode::store); }
Kernel lceDwAdd(ElementType element) {
  return lceDwOf(element, ElementType::f32, lce::Accumulation::Mode::add);
}
// Sums that take two numbers' place are of numbers of 16 bits.
ElementType halfOf(ElementType element) { return element == ElementType::f32 ? ElementType::bf16 : element; }
Kernel lceRoundSums(ElementType element) { return lce::roundSums({halfOf(element), true}); }
Kernel lceWidenSums(ElementType element) { return lce::widenSums(halfOf(element)); }
Kernel lossCompactRows(ElementType) { return compactRows({ElementType::i64, {}}); }
Kernel lossCountRows(ElementType) { return countRows(ElementType::i64); }
Kernel lossScanRows(ElementType) { return scanRows(); }
Kernel lossReduce(ElementType) { return reduceLoss(true); }
Kernel ceRow(ElementType element) { return ce::row({element, {}}); }
Kernel ceRowGradient(ElementType element) {
  return ce::row({element, ce::RowSpec::Gradient{element, kMean}});
}
Kernel ceRowOptions(ElementType element) {
  LossTerms terms;
  terms.logitScale = terms.softcap = terms.classWeight = terms.labelSmoothing = terms.zLoss = true;
  return ce::row({element, ce::RowSpec::Gradient{element, kMean}, terms});
}

Kernel causalAttention(ElementType element) { return attention(element, 64, true); }

} // namespace

const std::vector<CatalogEntry> &kernelCatalog() {
  static const std::vector<CatalogEntry> catalog = {
      {"loss_compact_rows", "numbers the rows that are not ignored", lossCompactRows},
      {"loss_count_rows", "for many rows: how many of each block are not ignored", lossCountRows},
      {"loss_scan_rows", "for many rows: how many are not ignored before each group of blocks", lossScanRows},
      {"loss_reduce", "the mean of the rows' losses", lossReduce},
      {"lce_gather_rows", "linear cross entropy: a chunk's rows of X and their targets' logits",
       lceGatherRows},
      {"lce_sample_classes", "linear cross entropy: classes by which rows' shifts are estimated, for f16",
       lceSampleClasses},
      {"lce_sample_tops", "linear cross entropy: rows' shifts by those classes", lceSampleTops},
      {"lce_forward", "linear cross entropy: logits, their exponentials and row sums", lceForward},
      {"lce_forward_loss", "the same when no gradient is wanted", lceForwardLoss},
      {"lce_forward_blocks", "that for rows whose shift was wrong: each block takes its own",
       lceForwardBlocks},
      {"lce_retry_range", "linear cross entropy: which rows still want their exponentials", lceRetryRange},
      {"lce_check_shifts", "linear cross entropy: finds rows whose exponentials left fp32's range",
       lceCheckShifts, lce::rowSumOptions},
      {"lce_total_sums", "the same when no gradient is wanted", lceTotalSums, lce::rowSumOptions},
      {"lce_join_sums", "linear cross entropy: sums of blocks with shifts of their own", lceJoinSums,
       lce::rowSumOptions},
      {"lce_combine", "linear cross entropy: losses and the factors of the gradients", lceCombine,
       [](TargetKind target) { return lce::combineOptions(target); }},
      {"lce_shard_labels", "linear cross entropy of shards: labels as a shard's kernels take them",
       lceShardLabels},
      {"lce_shard_stats", "linear cross entropy of shards: what a rank tells the others of a row",
       lceShardStats, [](TargetKind) { return lce::shardStatsOptions(); }},
      {"lce_merge_shards", "linear cross entropy of shards: losses and factors, from what all ranks told",
       lceMergeShards, [](TargetKind) { return lce::mergeOptions(mergeSpec(ElementType::f32)); }},
      {"lce_fix_up_again", "linear cross entropy: the gradient of the logits, computed a second time",
       lceFixUpAgain},
      {"lce_rescale",
       "linear cross entropy: E of rows whose blocks have different shifts, in the row's unit, for f16",
       lceRescale},
      {"lce_rows_gain", "linear cross entropy: the unit of rows of X that are scaled, for f16", lceRowsGain,
       lce::rowsGainOptions},
      {"lce_scale_rows", "linear cross entropy: rows of X in units of the largest gradient, for f16",
       lceScaleRows},
      {"lce_transpose", "linear cross entropy: operands of dX and dW for TF32 on Hopper", lceTranspose},
      {"lce_keep", "linear cross entropy: E of the first classes, for a second pass", lceKeep},
      {"lce_copy_rows", "linear cross entropy: rows that are not ignored, side by side", lceCopyRows},
      {"lce_logits", "the logits alone", lceLogits},
      {"lce_rank_labels", "linear cross entropy: sorts a chunk's rows by label", lceRankLabels,
       lce::rankLabelsOptions},
      {"lce_sort_blocks", "linear cross entropy: sorts blocks of rows by label", lceSortBlocks,
       lce::sortBlocksOptions},
      {"lce_merge_blocks", "the same: makes one block of several", lceMergeBlocks, lce::mergeBlocksOptions},
      {"lce_count_labels", "linear cross entropy: sorts a chunk's rows by label, in one program",
       lceCountLabels},
      {"lce_one_hot_sum", "linear cross entropy: the targets' part of dW", lceOneHotSum, oneHotOptions},
      {"lce_one_hot_pieces", "linear cross entropy: pieces of that, for labels with many rows",
       lceOneHotPieces, oneHotOptions},
      {"lce_one_hot_sum_of_pieces", "linear cross entropy: the targets' part of dW of its pieces",
       lceOneHotSumOfPieces, oneHotOptions},
      {"lce_dx", "linear cross entropy: dX", lceDx},
      {"lce_dx_parts", "linear cross entropy: products of dX in three parts of the classes", lceDxParts},
      {"lce_dx_total", "linear cross entropy: dX of such parts", lceDxTotal},
      {"lce_dw", "linear cross entropy: dW of the first chunk", lceDw},
      {"lce_dw_add", "linear cross entropy: dW of a later chunk", lceDwAdd},
      {"lce_round_sums", "linear cross entropy: dW of its sums, in place", lceRoundSums},
      {"lce_widen_sums", "linear cross entropy: the reverse", lceWidenSums},
      {"ce_row", "cross entropy of a row of logits", ceRow},
      {"ce_row_gradient", "the same with the gradient", ceRowGradient},
      {"ce_row_options", "the same with options: scale, softcap, class weights, smoothing, z-loss",
       ceRowOptions},
      {"vector_add", "example: the sum of two vectors", vectorAdd},
      {"row_softmax", "example: the softmax of each row", rowSoftmax},
      {"dropout", "example: seeded dropout", dropout},
      {"layer_norm", "example: layer norm, forward", layerNorm},
      {"layer_norm_gradient", "example: layer norm, backward: dx, and parts of the other gradients",
       layerNormGradient},
      {"layer_norm_gradient_sums", "example: layer norm, backward: what those parts add up to",
       layerNormGradientSums},
      {"matmul", "example: a matrix product", matmul},
      {"matmul_bias_gelu", "example: a matrix product with bias and GELU", matmulBiasGelu},
      {"attention", "example: causal attention, forward, of heads of 64 numbers", causalAttention},
  };
  return catalog;
}

StatusOr<CatalogEntry> findKernel(const std::string &name) {
  std::string names;
  for (const CatalogEntry &entry : kernelCatalog()) {
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  return userError("there is no kernel '" + name + "'; choose one of " + names);
}

} // namespace tilewright
