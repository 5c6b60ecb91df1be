#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/base/status.h"
#include "compiler/element_type.h"
#include "compiler/options.h"
#include "kernels/lce/kernels.h"
#include "kernels/loss_options.h"
#include "runtime/device.h"

namespace tilewright::lce {

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
  bool accumulate = false; ///< dWeight and dBias are added to what is there

  bool wantsGradients() const { return dHidden || dWeight || dBias; }
  /// What E has to become before the products of the gradients.
  Completion completion() const;
  /// The gradient that all classes of a row get alike is added to the products instead.
  bool isUniformRankOne() const {
    return wantsGradients() && terms.labelSmoothing && completion() != Completion::again;
  }
  bool hasClassFactor() const { return terms.classWeight || terms.margin; }
  PerRowSum<bool> rowSums() const; ///< those that the terms and the outputs need
  /// bf16 has fp32's range, which target anchors need; f16 has not.
  ElementType exponentials() const {
    return element == ElementType::bf16 ? ElementType::bf16 : ElementType::f32;
  }
  std::string str() const;
};

/// How one of the three products is computed.
struct Product {
  Block block;
  int64_t contractionStep = Schedule().contractionStep;

  /// "192x256/256", rows x columns / step.
  std::string str() const { return block.str() + "/" + std::to_string(contractionStep); }
};

/// How it is computed. The same for every N of a bucket, so that a new batch length compiles nothing.
struct Config {
  Variant variant = Variant::chunked;
  int64_t chunkRows = 0;
  Product forward, dHidden, dWeight;

  int64_t chunks(const Problem &problem) const; ///< at least 1
  std::string str() const;
};

/// Chooses the variant and the largest chunk that is worth its memory and fits `workspaceLimit` bytes (0: no
/// limit). A user error says how much the variant needs at least.
StatusOr<Config> plan(const Problem &problem, Variant variant, int64_t workspaceLimit,
                      const DeviceInfo &device);

// Rows and columns of a block are multiples of these, the register tile of the products.
constexpr int64_t kRowStep = 8, kColumnStep = 32;
// Past this, a larger chunk gains less than its memory is worth on a CPU.
constexpr int64_t kChunkBytes = int64_t(64) << 20;
/// The same for any device: a GPU needs more rows to fill it.
int64_t chunkBytes(const DeviceInfo &device);

int64_t ceilDiv(int64_t a, int64_t b);
int64_t roundUp(int64_t a, int64_t multiple);

/// The chunk that holds all of `rows` rows. Chunk sizes are few, for blocks depend on them.
int64_t chunkBucket(int64_t rows);
/// The smallest chunk that needs no more passes over `rows` rows than `chunk` does.
int64_t balanced(int64_t rows, int64_t chunk);
/// The largest chunk whose exponentials take about `bytes`; of the variant `whole`, all rows.
int64_t largestChunk(const Problem &problem, Variant variant, int64_t bytes);

/// A device's memory beside inputs and outputs, cut into tensors. What a problem has no use for stays null.
struct Workspace {
  TensorRef rowNumbers;           ///< row and compactLabel as one vector, to be filled together
  TensorRef row, compactLabel;    ///< N
  TensorRef summary;              ///< 1
  TensorRef rowLoss, lse;         ///< N, unless the caller's own are used
  TensorRef xc, xs, u;            ///< C×H
  TensorRef target, anchor, redo; ///< C
  TensorRef sums, tops;           ///< C×T
  PerRowSum<TensorRef> rowSums;   ///< C×T
  TensorRef e;                    ///< C×V
  TensorRef scale, oneHot;        ///< C
  TensorRef order, run;           ///< C
  TensorRef slot;                 ///< V
  TensorRef partial;              ///< V×H: dW so far, where the result cannot hold it
  TensorRef partialBias;          ///< V: the same of db

  // Of some options only.
  TensorRef entropy, argmax, correct, top, norm;    ///< N, unless the caller's own are used
  TensorRef best;                                   ///< C×T
  TensorRef rowNorm, rate, targetRate;              ///< C
  TensorRef factor, moment, uniform, self;          ///< C
  TensorRef rowWeight, weightFacts, firstBadWeight; ///< N, 2, 1
  TensorRef classNorm, classFactor;                 ///< V
  TensorRef classSum, rowSum;                       ///< 1×H
  TensorRef partSums[2];                            ///< P×H, on the way to the last two
  int64_t bytes = 0;
};

/// Cuts memory at `base` (256-byte aligned; null to learn the size) for a problem.
Workspace layOut(const Problem &problem, const Config &config, void *base);

} // namespace tilewright::lce
