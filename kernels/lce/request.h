#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/element_type.h"
#include "kernels/loss/kernels.h"
#include "kernels/loss/terms/terms.h"
#include "kernels/loss_options.h"
#include "kernels/vocabulary_shard.h"

namespace tilewright::lce {

/// What is asked for: sizes, types, wanted outputs, options. Of addresses it holds what a plan depends on.
/// Two calls whose requests are equal are computed by the same kernels in the same way.
struct Request {
  int64_t rows = 0, hidden = 0, classes = 0; ///< N, H, V
  ElementType element = ElementType::f32, label = ElementType::i64;
  std::optional<ElementType> dHidden, dWeight, dBias; ///< types of the gradients that are wanted
  CallPass pass = CallPass::fused;
  Reduction reduction = Reduction::mean;
  Upstream upstream = Upstream::one;
  LossTerms terms;
  RowOutputs outputs;
  /// Which outputs of the rows the caller has memory for; the others that `outputs` needs are in the
  /// workspace.
  struct {
    bool lse = false, entropy = false, argmax = false, correct = false;
  } given;
  /// Elements between rows of the caller's matrices; 0: dense.
  struct {
    int64_t hidden = 0, weight = 0, dHidden = 0, dWeight = 0;
  } strides;
  bool accumulate = false; ///< dWeight and dBias are added to what is there
  bool aligned = false;    ///< matrices and their rows, the workspace's too, begin at multiples of 16 bytes
  bool tf32 = false;       ///< products of f32 round their operands
  bool flushSmallProbabilities = false; ///< exponentials below 2^-30 are stored as 0
  bool tensorCores = false;             ///< products of 16 bits take less than half the time of others
  /// Bytes of dW's buffer that may be used as scratch before dW is written, whatever its address.
  int64_t borrowedBytes = 0;

  VocabularyShard shard;
  int shardBuffers = 2; ///< of a shard, chunks at work at the same time, where there are several

  bool isShard() const { return shard.all > 0; }
  int64_t allClasses() const { return isShard() ? shard.all : classes; }
  bool wantsGradients() const { return dHidden || dWeight || dBias; }
  bool reducesLoss() const { return pass == CallPass::fused && reduction != Reduction::none; }
  bool wantsClassGradients() const { return dWeight || dBias; }
  /// Bytes of a class's row of dW.
  int64_t classBytes() const { return dWeight ? hidden * static_cast<int64_t>(elementBytes(*dWeight)) : 0; }
  const char *typeName() const { return tf32 ? "tf32" : elementName(element); }
  std::string str() const;
};

} // namespace tilewright::lce
