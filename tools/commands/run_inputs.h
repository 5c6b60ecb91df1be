#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "kernels/loss_options.h"
#include "tools/cli/arguments.h"
#include "tools/cli/number_type.h"
#include "tools/io/npy.h"

namespace tilewright {

/// What `tilewright run` was asked to do, checked as far as the files' headers and the labels tell.
struct RunInputs : LossOptions {
  NumberType type;
  bool eval = false; ///< wants the logits alone
  Variant variant = Variant::automatic;
  int64_t workspaceLimit = 0; ///< bytes; 0: none given
  std::optional<Margin> lmcl;
  bool flushSmallProbabilities = true;
  bool metrics = false; ///< wants what is monitored, and per-row outputs

  std::optional<NpyFile> hidden, weight; ///< both, or
  std::optional<NpyFile> logits;         ///< this
  int64_t rows = 0, hiddenSize = 0, classes = 0;
  std::vector<int64_t> labels;
  std::vector<float> bias, classWeight;    ///< empty, or one for each class
  std::vector<float> gradOutput;           ///< empty, or 1 value, or one for each row with Reduction::none
  std::vector<float> gradLse, gradEntropy; ///< empty, or one for each row
};

/// Reads the options and all files but the matrices' data. Errors are the user's.
StatusOr<RunInputs> readRunInputs(const Arguments &arguments);

/// Every label is a class or the ignore index; else a user error that names the row and the label.
Status checkLabels(const std::string &path, const std::vector<int64_t> &labels, int64_t classes,
                   int64_t ignoreIndex);

} // namespace tilewright
