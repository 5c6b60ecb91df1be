#pragma once

#include "compiler/target.h"
#include "kernels/lce/gradient_kernels.h"
#include "kernels/lce/program.h"
#include "kernels/lce/tensors.h"
#include "kernels/loss/terms/terms.h"
#include "kernels/program/program.h"

namespace tilewright::lce {

/// Adds kernels and steps to the program of a call. Each phase has a file: its kernels, and which tensors
/// they are given in which order.
class Emitter {
public:
  Emitter(const Scheme &scheme, const Config &config, const TermValues &values, TargetKind target,
          Program &program)
      : s(scheme), c(config), values(values), target(target), logitTerms(scheme.terms),
        rowTerms(scheme.terms, scheme.wantsGradients()), program_(program) {}

  const Scheme &s;
  const Config &c;
  const TermValues &values;
  const TargetKind target;
  const LogitTerms logitTerms;
  const RowTerms rowTerms;

  bool has(TensorId id) const { return program_.table().has(id); }
  int64_t columnsOf(TensorId id) const { return program_.table()[id].columns; }
  const Lifetime &lifeOf(TensorId id) const { return program_.table()[id].life; }
  StepArguments arguments() const { return StepArguments(program_.table()); }

  int kernel(Kernel kernel, const CompileOptions &options = {}, int tag = -1) {
    return program_.addKernel(std::move(kernel), options, tag);
  }
  Step &launch(int kernel, const StepArguments &arguments) {
    return added(program_.addLaunch(kernel, arguments));
  }
  Step &fill(TensorId id, uint8_t byte) { return added(program_.addFill(id, byte)); }

  /// The steps from here on are done for each chunk; or once.
  void forEachChunk(bool perChunk) { perChunk_ = perChunk; }
  /// The steps from here on belong to this part of a shard's call.
  void forPart(CallPart part) { part_ = part; }
  /// The steps from here on work on these classes; by default on all.
  void forClasses(ClassWindow classes) { classes_ = classes; }
  bool isPerChunk() const { return perChunk_; }
  int64_t firstClass() const { return classes_.first; }

  /// That suit a product.
  CompileOptions optionsFor(ProductKind kind) const;
  /// That suit a pass over E.
  static CompileOptions passOptions();
  /// A factor for each class of what all classes get alike; kNoTensor: 1.
  TensorId classFactor() const;
  /// Of the V classes.
  TensorId classWeights() const { return s.isShard() ? tensor::ownClassWeight : tensor::classWeight; }
  /// -1 where a row has no label among the V classes.
  TensorId ownLabels() const { return s.isShard() ? tensor::ownLabel : tensor::compactLabel; }
  /// As the caller numbers them.
  TensorId globalLabels() const { return s.isShard() ? tensor::globalLabel : tensor::compactLabel; }
  bool hasUniformFactor() const { return s.isUniformRankOne && s.hasClassFactor; }
  OneHotPlace oneHotPlace() const { return hasRowsOfClasses(s, c) ? OneHotPlace::label : OneHotPlace::slot; }

  /// Of tensors with a row for each kRunPiece rows of a chunk, or of all rows.
  RowWindow pieceRows() const {
    return isPerChunk() ? RowWindow{0, RowWindow().end, kRunPiece} : RowWindow();
  }

private:
  Step &added(Step &step) {
    step.perChunk = perChunk_;
    step.classes = classes_;
    step.part = static_cast<int>(part_);
    return step;
  }

  Program &program_;
  bool perChunk_ = false;
  CallPart part_ = CallPart::begin;
  ClassWindow classes_;
};

// E is read and written once, a few cache lines of some rows at a time; on a GPU by so few warps that each
// thread has eight vectors on their way.
constexpr Block kInPlaceBlock{32, 256};

/// Kernels that add a part to a gradient: the first part's, the others', and the last one's where it stores
/// what the sums in a buffer become. -1: there is none.
struct PartKernels {
  int first = -1, next = -1, last = -1;
};

// The phases, in their order.
void emitCompaction(Emitter &emitter);   ///< numbers the valid rows
void emitPreparation(Emitter &emitter);  ///< what options need of all rows or classes beforehand
void emitExponentials(Emitter &emitter); ///< of a chunk: its rows, E and its sums
void emitCombination(Emitter &emitter);  ///< of a chunk: losses, and the factors of the gradients
void emitShardLabels(Emitter &emitter);  ///< of a shard: which rows' labels are among its classes
void emitShardStats(Emitter &emitter);   ///< of its chunk: what the other ranks are told
void emitMerge(Emitter &emitter);        ///< emitCombination from what all ranks told
void emitFixUp(Emitter &emitter);        ///< E becomes the gradient of x·w
void emitSort(Emitter &emitter);         ///< rows by their labels, and rows of X as dW multiplies them
void emitClassGradients(Emitter &emitter, TensorId e, TensorId u, int64_t firstColumn, int64_t classes);
void emitKept(Emitter &emitter);        ///< E of the first classes, for the second pass
void emitHiddenTiles(Emitter &emitter); ///< dX, if it is wanted, of the chunk's rows in whole tiles
void emitHiddenParts(Emitter &emitter); ///< of rows in parts (`tensor::products`): products, side by side
void emitHiddenTotal(Emitter &emitter); ///< and their sum, which is dX
void emitSecondPass(Emitter &emitter);
void emitFinish(Emitter &emitter); ///< what is made of all chunks

/// Of `RowCompaction`.
void addCompactionArguments(Emitter &emitter, StepArguments &arguments);
CombineSpec combineSpec(const Emitter &emitter);
/// Of the kernel that has this spec, from the row terms on.
void addCombineArguments(Emitter &emitter, StepArguments &arguments);
/// The logits of some classes again, which become the gradient of x·w.
void emitAgain(Emitter &emitter, ProductKind kind, TensorId rows, TensorId e, int64_t first, int64_t classes);
/// fp32 columns of a matrix become rows.
void emitTransposed(Emitter &emitter, TensorId matrix, const ColumnWindow &columns, TensorId transposed);
/// Σ of a matrix's rows, each times its factor, in steps of kSummedRows rows.
void emitSumOfRows(Emitter &emitter, TensorId matrix, TensorId factor, TensorId sum, TensorId part0,
                   int64_t rows);

} // namespace tilewright::lce
