#pragma once

#include <initializer_list>

#include "kernels/lce/kernel_set.h"
#include "kernels/lce/plan.h"
#include "kernels/linear_cross_entropy.h"

namespace tilewright::lce {

/// Enqueues the launches of one call. Nothing here reads a tensor's data.
class Launches {
public:
  Launches(Device &device, Stream stream, const Problem &problem, const Config &config,
           const KernelSet &kernels, const LinearCrossEntropyTensors &tensors,
           const LinearCrossEntropyOptions &options, const Workspace &workspace);

  Status run();

  /// For a product that is launched alone: what a whole call of another configuration may not have left.
  Status prepareProduct(ProductKind product);
  /// As for most chunks. Before it some whole call was run in this workspace.
  Status launchProduct(ProductKind product);

private:
  Status compact();
  Status prepare();
  void selectChunk(int64_t chunk);
  void selectAllRows();
  void selectClasses(int64_t first, int64_t count);
  Status gradients(int64_t chunk);
  Status keep();
  Status secondPass();
  Status completeSlice(const Slice &slice);
  Status exponentials();
  Status gatherRows();
  Status forward();
  Status forward(const KernelHandle &kernel, Anchors anchors);
  Status combine();
  Status complete();
  Status completeAgain(const KernelHandle &kernel, int64_t first);
  Status hiddenGradient();
  Status hiddenTail(int64_t first, int64_t count);
  KernelArguments hiddenArguments(const TensorRef &product, int64_t first, int64_t count) const;
  Status sortLabels();
  Status prepareWeightGradient();
  Status classGradients(int64_t part);
  int64_t weightColumnsFrom(int64_t first) const;
  Status weightGradient(int64_t part);
  Status oneHotSums(int64_t first, int64_t count);
  Status weightProduct(int64_t part, int64_t first, int64_t count);
  TensorRef weightSums(int64_t first, int64_t count) const;
  TensorRef sumsInPlace() const;
  Status biasGradient(int64_t part);
  Status finish();

  Status sumUp(const KernelHandle &kernel, const TensorRef &matrix, const TensorRef &factor,
               const TensorRef &sum);
  Status launch(const KernelHandle &kernel, const KernelArguments &arguments) {
    return device_.launch(*kernel, arguments, stream_);
  }

  Device &device_;
  Stream stream_;
  const Problem &p_;
  const Config &config_;
  const KernelSet &kernels_;
  const LinearCrossEntropyTensors &t_;
  const LinearCrossEntropyOptions &options_;
  Workspace w_; ///< with the caller's own tensors where there are some
  Workspace c_; ///< this chunk's part of it, or what a second pass has in its place
  TermValues values_;
  const LogitTerms logitTerms_;
  const RowTerms rowTerms_;
  int64_t first_ = 0; ///< this chunk's first row

  /// What of the parameters, and of what is made for each class, belongs to the classes at work.
  struct ClassTensors {
    TensorRef weight, classWeight, classFactor, dWeight, dBias;
    TensorRef slot, labelSums, partial, partialBias;
    TermValues values;
  } s_;
};

} // namespace tilewright::lce
