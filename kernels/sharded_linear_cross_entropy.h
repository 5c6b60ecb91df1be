#pragma once

#include "kernels/lce_call.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/vocabulary_shard.h"

namespace tilewright {

/// What the ranks tell each other of a chunk's rows, in the device's memory; f32. The caller gathers
/// `gathered` from all ranks' `stats`, rank after rank, between `stats` and `merge` of a chunk. The next
/// chunk's are other memory.
struct ShardExchange {
  float *stats = nullptr;    ///< F×C numbers of this rank: `facts()` × `chunkRows()`
  float *gathered = nullptr; ///< R×F×C numbers of all ranks
};

/// Linear cross entropy of a vocabulary that ranks share, in parts that the caller runs on its stream. Rank r
/// has V_r of the classes; of the rows it computes what they add. E of a chunk stays in memory with shifts of
/// its own until dW is made of it: three products, as without ranks.
///
///     begin
///     stats(0)                       gather 0
///     for each chunk c:
///       stats(c + 1)                 gather c + 1, beside what follows
///       merge(c)                     after gather c
///       dHidden(c)                   add up dX over ranks, beside what follows
///       dWeight(c)
///     finish
///
/// With `chunkBuffers()` = 1, and several chunks, stats(c + 1) comes after dWeight(c). Without dHidden, or
/// dWeight and dBias, those parts do nothing. This library issues no collective; whoever gathers and adds up
/// is the caller's.
///
/// Losses, lse and the other outputs of rows are those of all classes, with the same bits on every rank of
/// one kind of device. dHidden is this rank's part. Once dHidden(c) is done, its rows
/// [c C, min(N, (c + 1) C)) are complete, with C = chunkRows(). dWeight and dBias are those of this rank's
/// classes, complete after `finish`.
///
/// Otherwise as `PreparedLinearCrossEntropy`.
class PreparedShardedLinearCrossEntropy {
public:
  /// `tensors` as of an unsharded call, with these differences: weight, bias, dWeight and dBias are of this
  /// rank's V_r classes, labels and argmax are numbers among all classes, and classWeight has all classes'
  /// weights, the same on every rank. Inputs of rows, upstream gradients among them, are the same on every
  /// rank. Labels of other ranks' classes are no errors; labels of none are, on every rank alike.
  ///
  /// What is planned depends on nothing that differs between ranks of one kind of device, nor on which
  /// gradients a rank wants, if each wants some or none does; but for the alignment of their matrices, and
  /// types of gradients: `schedule()` tells. No tuned configuration is looked for: pin one.
  ///
  /// User errors: as there; and shards that do not lie among all classes, the variant recompute.
  static StatusOr<PreparedShardedLinearCrossEntropy> prepare(Runtime &runtime,
                                                             const LinearCrossEntropyTensors &tensors,
                                                             const LinearCrossEntropyOptions &options,
                                                             const VocabularyShard &shard,
                                                             CallPass pass = CallPass::fused);

  int64_t workspaceBytes() const { return call_->workspaceBytes(); }
  int64_t chunks() const { return program().rows().chunks(); }
  int64_t chunkRows() const { return chunkRows_; } ///< C, at most N
  int64_t facts() const { return facts_; }         ///< F, numbers that a rank tells of a row
  int chunkBuffers() const { return chunkBuffers_; }
  /// What all ranks have to have in common, on one line; their collectives fit together if it is equal.
  const std::string &schedule() const { return schedule_; }
  const std::string &description() const { return description_; }
  const std::string &configuration() const { return configuration_; } ///< see PreparedLinearCrossEntropy
  const Program &program() const { return call_->program(); }

  /// Each enqueues its work; errors as `PreparedLinearCrossEntropy::run`. What is wrong with labels and class
  /// weights is found by `begin`. Tensors and memory are the same for all parts of a run.
  Status begin(const LinearCrossEntropyTensors &tensors, const CallMemory &memory, Stream stream) const;
  Status stats(const LinearCrossEntropyTensors &tensors, int64_t chunk, const ShardExchange &exchange,
               const CallMemory &memory, Stream stream) const;
  Status merge(const LinearCrossEntropyTensors &tensors, int64_t chunk, const ShardExchange &exchange,
               const CallMemory &memory, Stream stream) const;
  Status dHidden(const LinearCrossEntropyTensors &tensors, int64_t chunk, const CallMemory &memory,
                 Stream stream) const;
  Status dWeight(const LinearCrossEntropyTensors &tensors, int64_t chunk, const CallMemory &memory,
                 Stream stream) const;
  Status finish(const LinearCrossEntropyTensors &tensors, const CallMemory &memory, Stream stream) const;

  /// Whether the parts take such tensors.
  bool fits(const LinearCrossEntropyTensors &tensors) const;

private:
  PreparedShardedLinearCrossEntropy() = default;
  lce::ExchangedTensors exchangedOf(const ShardExchange &exchange) const;
  Status run(const LinearCrossEntropyTensors &tensors, lce::CallPart part, int64_t chunk,
             const ShardExchange &exchange, const CallMemory &memory, Stream stream) const;

  std::shared_ptr<const PreparedCall> call_;
  int64_t chunkRows_ = 0, facts_ = 0, ranks_ = 1;
  int chunkBuffers_ = 1;
  bool isAligned_ = false;
  std::string schedule_, description_, configuration_;
};

namespace lce {

/// As `plannedProgram`, of a rank's call.
StatusOr<Program> plannedShardProgram(const LinearCrossEntropyTensors &tensors,
                                      const LinearCrossEntropyOptions &options, const VocabularyShard &shard,
                                      CallPass pass, const DeviceInfo &device, TargetKind target);

} // namespace lce

} // namespace tilewright
