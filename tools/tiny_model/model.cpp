#include "tools/tiny_model/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/jit.h"
#include "kernels/linear_cross_entropy.h"
#include "tools/bench/random_problem.h"
#include "tools/tiny_model/layers.h"

namespace tilewright {
namespace {

constexpr ElementType f32 = ElementType::f32;

Status uploadTo(Device &device, const OwnedTensor &tensor, const std::vector<float> &values) {
  return device.copyToDevice(tensor.ref.data, values.data(), values.size() * sizeof(float), nullptr);
}

float dotProduct(const float *a, const float *b, int64_t size) {
  return std::inner_product(a, a + size, b, 0.0f);
}

} // namespace

void AdamWeight::reset(int64_t size, double deviation, uint64_t seed) {
  value = randomNumbers(size, deviation, seed);
  gradient.assign(size, 0);
  mean.assign(size, 0);
  square.assign(size, 0);
}

void AdamWeight::update(double rate, int64_t step) {
  constexpr float beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-8f;
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  const float scale = static_cast<float>(rate / correction1),
              squareScale = static_cast<float>(1 / correction2);
  for (std::size_t i = 0; i < value.size(); ++i) {
    mean[i] += (1 - beta1) * (gradient[i] - mean[i]);
    square[i] += (1 - beta2) * (gradient[i] * gradient[i] - square[i]);
    value[i] -= scale * mean[i] / (std::sqrt(square[i] * squareScale) + epsilon);
  }
}

StatusOr<NextTokenModel> NextTokenModel::make(Runtime &runtime, const ModelSizes &sizes) {
  NextTokenModel model(runtime, sizes);
  const int64_t n = sizes.batch, d = sizes.inputs(), m = sizes.hidden, v = sizes.vocabulary;
  model.embedding_.reset(v * sizes.embedding, 1, 11);
  model.layer_.reset(m * d, 1 / std::sqrt(static_cast<double>(d)), 12);
  model.bias_.reset(m, 0, 13);
  model.head_.reset(v * m, 0.3 / std::sqrt(static_cast<double>(m)), 14);

  Device &device = runtime.device();
  const auto allocate = [&](OwnedTensor &tensor, ElementType element,
                            const std::vector<int64_t> &shape) -> Status {
    TW_ASSIGN_OR_RETURN(tensor, allocateTensor(device, element, shape));
    return {};
  };
  for (auto &[tensor, shape] :
       std::vector<std::pair<OwnedTensor *, std::vector<int64_t>>>{{&model.x_, {n, d}},
                                                                   {&model.layerWeight_, {m, d}},
                                                                   {&model.layerBias_, {m}},
                                                                   {&model.h_, {n, m}},
                                                                   {&model.headWeight_, {v, m}},
                                                                   {&model.loss_, {1}},
                                                                   {&model.dh_, {n, m}},
                                                                   {&model.dHeadWeight_, {v, m}},
                                                                   {&model.dz_, {n, m}},
                                                                   {&model.dx_, {n, d}},
                                                                   {&model.dLayerWeight_, {m, d}},
                                                                   {&model.dLayerBias_, {m}}})
    TW_RETURN_IF_ERROR(allocate(*tensor, f32, shape));
  TW_RETURN_IF_ERROR(allocate(model.label_, ElementType::i32, {n}));
  return StatusOr<NextTokenModel>(std::move(model));
}

std::vector<float> NextTokenModel::embed(const int32_t *context) const {
  std::vector<float> x;
  x.reserve(sizes_.inputs());
  for (int64_t t = 0; t < sizes_.context; ++t) {
    const float *row = &embedding_.value[context[t] * sizes_.embedding];
    x.insert(x.end(), row, row + sizes_.embedding);
  }
  return x;
}

Status NextTokenModel::upload(const std::vector<int32_t> &ids, const std::vector<int64_t> &places) {
  Device &device = runtime_->device();
  std::vector<float> x;
  std::vector<int32_t> labels;
  for (int64_t place : places) {
    const std::vector<float> row = embed(&ids[place - sizes_.context]);
    x.insert(x.end(), row.begin(), row.end());
    labels.push_back(ids[place]);
  }
  TW_RETURN_IF_ERROR(uploadTo(device, x_, x));
  TW_RETURN_IF_ERROR(
      device.copyToDevice(label_.ref.data, labels.data(), labels.size() * sizeof(int32_t), nullptr));
  TW_RETURN_IF_ERROR(uploadTo(device, layerWeight_, layer_.value));
  TW_RETURN_IF_ERROR(uploadTo(device, layerBias_, bias_.value));
  TW_RETURN_IF_ERROR(uploadTo(device, headWeight_, head_.value));
  return device.synchronize(nullptr);
}

Status NextTokenModel::forwardAndBackward() {
  Runtime &runtime = *runtime_;
  TW_RETURN_IF_ERROR(
      launch(runtime, denseTanh(), {x_.ref, layerWeight_.ref, layerBias_.ref, h_.ref}, nullptr));

  LinearCrossEntropyTensors head;
  head.hidden = h_.ref, head.weight = headWeight_.ref, head.label = label_.ref;
  head.loss = loss_.ref, head.dHidden = dh_.ref, head.dWeight = dHeadWeight_.ref;
  TW_ASSIGN_OR_RETURN(const double milliseconds, runtime.device().time(nullptr, [&] {
    return linearCrossEntropy(runtime, head, {}, nullptr).status();
  }));
  lossMilliseconds_ += milliseconds;

  TW_RETURN_IF_ERROR(launch(runtime, tanhBackward(), {dh_.ref, h_.ref, dz_.ref}, nullptr));
  TW_RETURN_IF_ERROR(launch(runtime, denseBackwardInput(), {dz_.ref, layerWeight_.ref, dx_.ref}, nullptr));
  TW_RETURN_IF_ERROR(launch(runtime, denseBackwardWeight(), {dz_.ref, x_.ref, dLayerWeight_.ref}, nullptr));
  return launch(runtime, denseBackwardBias(), {dz_.ref, dLayerBias_.ref}, nullptr);
}

Status NextTokenModel::readGradients(const std::vector<int32_t> &ids, const std::vector<int64_t> &places) {
  Device &device = runtime_->device();
  TW_ASSIGN_OR_RETURN(head_.gradient, download(device, dHeadWeight_.ref));
  TW_ASSIGN_OR_RETURN(layer_.gradient, download(device, dLayerWeight_.ref));
  TW_ASSIGN_OR_RETURN(bias_.gradient, download(device, dLayerBias_.ref));
  TW_ASSIGN_OR_RETURN(const std::vector<float> dx, download(device, dx_.ref));
  std::fill(embedding_.gradient.begin(), embedding_.gradient.end(), 0.0f);
  const float *from = dx.data();
  for (int64_t place : places)
    for (int64_t t = 0; t < sizes_.context; ++t) {
      float *to = &embedding_.gradient[ids[place - sizes_.context + t] * sizes_.embedding];
      for (int64_t k = 0; k < sizes_.embedding; ++k)
        to[k] += *from++;
    }
  return {};
}

StatusOr<double> NextTokenModel::trainStep(const std::vector<int32_t> &ids,
                                           const std::vector<int64_t> &places, double rate) {
  TW_RETURN_IF_ERROR(upload(ids, places));
  TW_RETURN_IF_ERROR(forwardAndBackward());
  TW_ASSIGN_OR_RETURN(const std::vector<float> loss, download(runtime_->device(), loss_.ref));
  TW_RETURN_IF_ERROR(readGradients(ids, places));
  ++steps_;
  for (AdamWeight *parameter : {&embedding_, &layer_, &bias_, &head_})
    parameter->update(rate, steps_);
  return static_cast<double>(loss[0]);
}

int32_t NextTokenModel::next(const int32_t *context, int choices, double uniform) const {
  const std::vector<float> x = embed(context);
  std::vector<float> h(sizes_.hidden), logits(sizes_.vocabulary);
  for (int64_t j = 0; j < sizes_.hidden; ++j)
    h[j] =
        std::tanh(dotProduct(x.data(), &layer_.value[j * sizes_.inputs()], sizes_.inputs()) + bias_.value[j]);
  for (int64_t j = 0; j < sizes_.vocabulary; ++j)
    logits[j] = dotProduct(h.data(), &head_.value[j * sizes_.hidden], sizes_.hidden);

  std::vector<int32_t> order(sizes_.vocabulary);
  std::iota(order.begin(), order.end(), 0);
  choices = static_cast<int>(std::min<int64_t>(choices, sizes_.vocabulary));
  std::partial_sort(order.begin(), order.begin() + choices, order.end(),
                    [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  double total = 0;
  for (int i = 0; i < choices; ++i)
    total += std::exp(logits[order[i]] - logits[order[0]]);
  double left = uniform * total;
  for (int i = 0; i < choices; ++i)
    if ((left -= std::exp(logits[order[i]] - logits[order[0]])) < 0) return order[i];
  return order[0];
}

} // namespace tilewright
