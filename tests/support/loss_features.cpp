#include "tests/support/loss_features.h"

#include <algorithm>

#include "tests/support/device_tensor.h"

namespace tilewright::test {
namespace {

// Numbers without a period in common, so that no two rows or classes have the same.
float wave(int64_t i) { return static_cast<float>((i * 37 + 11) % 101) / 101; }

void addBias(LossCase &data, LossCall &) {
  for (int64_t j = 0; j < data.classes; ++j)
    data.bias.push_back(rounded(2 * wave(j) - 1, data.element));
}

void addClassWeights(LossCase &data, LossCall &) {
  for (int64_t j = 0; j < data.classes; ++j)
    data.classWeight.push_back(j % 7 == 3 ? 0 : 0.25f + 2 * wave(j));
}

void addRowGradients(const LossCase &data, std::vector<double> &gradients) {
  // Those of a mean are of its size.
  for (int64_t i = 0; i < data.rows; ++i)
    gradients.push_back((wave(i) - 0.4) / data.rows);
}

void accumulate(LossCase &data, LossCall &call) {
  call.accumulate = true;
  const float size = call.reduction == Reduction::mean ? 1.0f / data.rows : 1; // as the gradients
  for (int64_t k = 0; k < data.classes * data.hidden; ++k)
    data.dWeightBefore.push_back(rounded(size * (wave(k) - 0.5), data.element));
  for (int64_t j = 0; j < data.classes; ++j)
    data.dBiasBefore.push_back(rounded(size * (wave(j) - 0.5), data.element));
}

} // namespace

const std::vector<LossFeature> &lossFeatures() {
  static const std::vector<LossFeature> features = {
      {"bias", addBias, false},
      {"label_smoothing", [](LossCase &, LossCall &call) { call.labelSmoothing = 0.1f; }},
      {"class_weight", addClassWeights},
      {"z_loss", [](LossCase &, LossCall &call) { call.zLoss = 0.01f; }},
      {"logit_scale", [](LossCase &, LossCall &call) { call.logitScale = 0.7f; }},
      {"softcap", [](LossCase &, LossCall &call) { call.softcap = 5; }},
      {"prob",
       [](LossCase &, LossCall &call) { call.objective = Objective::prob; },
       true,
       {"label_smoothing", "class_weight"}},
      {"lmcl",
       [](LossCase &, LossCall &call) {
         call.lmcl = Margin{0.35f, 12};
       },
       false,
       {"bias", "logit_scale", "softcap"}},
      {"grad_lse", [](LossCase &data, LossCall &call) { addRowGradients(data, call.gradLse); }},
      {"grad_entropy", [](LossCase &data, LossCall &call) { addRowGradients(data, call.gradEntropy); }},
      {"observed", [](LossCase &, LossCall &call) { call.observes = true; }},
      {"accumulate", accumulate, false},
  };
  return features;
}

bool goTogether(const LossFeature &a, const LossFeature &b) {
  const auto excludes = [](const LossFeature &one, const LossFeature &other) {
    return std::find(one.excludes.begin(), one.excludes.end(), other.name) != one.excludes.end();
  };
  return !excludes(a, b) && !excludes(b, a);
}

std::vector<std::vector<LossFeature>> lossFeatureSets(bool overLogits) {
  std::vector<std::vector<LossFeature>> sets = {{}};
  for (const LossFeature &a : lossFeatures()) {
    if (overLogits && !a.overLogits) continue;
    sets.push_back({a});
    for (const LossFeature &b : lossFeatures())
      if (&b > &a && (b.overLogits || !overLogits) && goTogether(a, b)) sets.push_back({a, b});
  }
  return sets;
}

std::string featureNames(const std::vector<LossFeature> &features) {
  std::string names;
  for (const LossFeature &feature : features)
    names += (names.empty() ? "" : "_and_") + feature.name;
  return names.empty() ? "plain" : names;
}

} // namespace tilewright::test
