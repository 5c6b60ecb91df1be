#pragma once

#include <string>
#include <vector>

#include "tests/support/loss_call.h"

namespace tilewright::test {

/// Something that a loss can be told, or asked for, and how it gets into a case and a call.
struct LossFeature {
  std::string name;
  void (*apply)(LossCase &data, LossCall &call);
  bool overLogits = true;                 ///< logits in memory have it, too
  std::vector<std::string> excludes = {}; ///< features that do not go with it
};

const std::vector<LossFeature> &lossFeatures();
bool goTogether(const LossFeature &a, const LossFeature &b);

/// No feature, every one, and every pair of them that go together.
std::vector<std::vector<LossFeature>> lossFeatureSets(bool overLogits);

/// The names, joined by "_and_"; "plain" for none.
std::string featureNames(const std::vector<LossFeature> &features);

} // namespace tilewright::test
