#pragma once

#include <cstdint>
#include <vector>

#include "compiler/base/status.h"
#include "runtime/runtime.h"
#include "tools/io/tensors.h"

namespace tilewright {

struct ModelSizes {
  int64_t batch = 512;    ///< rows of a step
  int64_t context = 8;    ///< tokens that a prediction sees
  int64_t embedding = 32; ///< numbers a token
  int64_t hidden = 192;
  int64_t vocabulary = 1024;

  int64_t inputs() const { return context * embedding; }
  int64_t parameters() const { return vocabulary * (embedding + hidden) + hidden * (inputs() + 1); }
};

/// Weights on the host with Adam's averages.
struct AdamWeight {
  std::vector<float> value, gradient, mean, square;

  void reset(int64_t size, double deviation, uint64_t seed);
  /// Adam, the `step`-th step counted from 1.
  void update(double rate, int64_t step);
};

/// logits = W · tanh(A · [embeddings of the last tokens] + b). The layer runs on kernels of its own, loss and
/// gradients of W on the library's linear cross entropy; the embedding and Adam are plain loops on the host.
class NextTokenModel {
public:
  static StatusOr<NextTokenModel> make(Runtime &runtime, const ModelSizes &sizes);

  const ModelSizes &sizes() const { return sizes_; }
  /// Milliseconds that all steps spent in the loss.
  double lossMilliseconds() const { return lossMilliseconds_; }

  /// One step on `batch` places of `ids`, each at least `context` from the beginning. Returns the mean loss
  /// before it.
  StatusOr<double> trainStep(const std::vector<int32_t> &ids, const std::vector<int64_t> &places,
                             double rate);

  /// The token to follow, drawn by `uniform` in [0, 1) from the `choices` likeliest ones.
  int32_t next(const int32_t *context, int choices, double uniform) const;

private:
  NextTokenModel(Runtime &runtime, const ModelSizes &sizes) : runtime_(&runtime), sizes_(sizes) {}
  std::vector<float> embed(const int32_t *context) const;
  Status upload(const std::vector<int32_t> &ids, const std::vector<int64_t> &places);
  Status forwardAndBackward();
  Status readGradients(const std::vector<int32_t> &ids, const std::vector<int64_t> &places);

  Runtime *runtime_;
  ModelSizes sizes_;
  AdamWeight embedding_, layer_, bias_, head_;
  OwnedTensor x_, layerWeight_, layerBias_, h_, headWeight_, label_;          // what a step reads
  OwnedTensor loss_, dh_, dHeadWeight_, dz_, dx_, dLayerWeight_, dLayerBias_; // what it makes
  int64_t steps_ = 0;
  double lossMilliseconds_ = 0;
};

} // namespace tilewright
