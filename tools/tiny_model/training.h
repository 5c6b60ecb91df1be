#pragma once

#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "runtime/runtime.h"
#include "tools/tiny_model/model.h"

namespace tilewright {

/// A training run on this repository's text, for people to look at.
struct Training {
  ModelSizes sizes;
  std::string origin; ///< of the text
  std::size_t textBytes = 0;
  std::size_t tokens = 0;
  std::vector<double> losses; ///< of each step
  double seconds = 0;
  double lossMilliseconds = 0; ///< of all steps, in the loss
  std::string sample;          ///< what the model writes
};

/// At most `steps` steps and, once 100 are made, at most `seconds`.
StatusOr<Training> trainOnRepository(Runtime &runtime, int steps, double seconds);

} // namespace tilewright
