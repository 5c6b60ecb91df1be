#include "tools/commands/run_inputs.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/commands/loss_arguments.h"

namespace tilewright {
namespace {

Status readOptions(const Arguments &arguments, RunInputs &inputs) {
  TW_ASSIGN_OR_RETURN(inputs.type, readNumberType(arguments));
  inputs.eval = arguments.has("--eval");
  TW_ASSIGN_OR_RETURN(const std::string reduction, arguments.choice("--reduction", {"mean", "sum", "none"}));
  TW_ASSIGN_OR_RETURN(inputs.reduction, parseReduction(reduction));
  TW_ASSIGN_OR_RETURN(const std::string variant,
                      arguments.choice("--variant", {"auto", "chunked", "whole", "recompute", "loss_only"}));
  TW_ASSIGN_OR_RETURN(inputs.variant, parseVariant(variant));
  TW_RETURN_IF_ERROR(readLossOptions(arguments, inputs, inputs.lmcl));
  inputs.flushSmallProbabilities = !arguments.has("--no-flush");
  inputs.metrics = arguments.has("--metrics");
  TW_ASSIGN_OR_RETURN(inputs.ignoreIndex, arguments.integer("--ignore-index", kDefaultIgnoreIndex));
  TW_ASSIGN_OR_RETURN(inputs.workspaceLimit, arguments.bytes("--workspace-limit", 0));
  return {};
}

StatusOr<NpyFile> openMatrix(const Arguments &arguments, const std::string &option,
                             const std::string &shape) {
  TW_ASSIGN_OR_RETURN(const std::string path, arguments.required(option));
  TW_ASSIGN_OR_RETURN(NpyFile file, NpyFile::open(path));
  if (file.header().shape.size() != 2)
    return userError(fmt::format("{}: expected {} to be a matrix {}, found shape {}", path, option, shape,
                                 file.header().shapeText()));
  return StatusOr<NpyFile>(std::move(file));
}

Status openLinear(const Arguments &arguments, RunInputs &inputs) {
  TW_ASSIGN_OR_RETURN(NpyFile hidden, openMatrix(arguments, "--hidden", "N×H"));
  TW_ASSIGN_OR_RETURN(NpyFile weight, openMatrix(arguments, "--weight", "V×H"));
  const std::vector<int64_t> &x = hidden.header().shape, &w = weight.header().shape;
  if (x[1] != w[1])
    return userError(fmt::format("{}: expected {} columns as in --hidden {}, found shape {}", weight.path(),
                                 x[1], hidden.path(), weight.header().shapeText()));
  inputs.rows = x[0], inputs.hiddenSize = x[1], inputs.classes = w[0];
  inputs.hidden.emplace(std::move(hidden));
  inputs.weight.emplace(std::move(weight));
  return {};
}

Status openLogits(const Arguments &arguments, RunInputs &inputs) {
  if (inputs.type.tf32)
    return userError("expected --dtype f32, bf16 or f16 with --logits, found 'tf32'; it is a way to multiply "
                     "f32 matrices, and logits are products already");
  if (inputs.variant != Variant::automatic && inputs.variant != Variant::lossOnly)
    return userError("expected --variant auto or loss_only with --logits, found '" +
                     *arguments.text("--variant") + "'; the others are ways to compute the logits");
  TW_ASSIGN_OR_RETURN(NpyFile logits, openMatrix(arguments, "--logits", "N×V"));
  inputs.rows = logits.header().shape[0], inputs.classes = logits.header().shape[1];
  inputs.logits.emplace(std::move(logits));
  return {};
}

Status openMatrices(const Arguments &arguments, RunInputs &inputs) {
  const bool linear = arguments.has("--hidden") || arguments.has("--weight");
  if (arguments.has("--logits") && linear)
    return userError("expected --hidden and --weight, or --logits alone; found both");
  if (!arguments.has("--logits") && !linear)
    return userError("expected --hidden X.npy and --weight W.npy, or --logits Z.npy; found neither");
  return linear ? openLinear(arguments, inputs) : openLogits(arguments, inputs);
}

/// Of a loss, which has no part in the logits.
Status checkEval(const Arguments &arguments) {
  for (const char *option :
       {"--labels", "--logits", "--class-weight", "--label-smoothing", "--z-loss", "--objective", "--metrics",
        "--grad-output", "--grad-lse", "--grad-entropy", "--reduction", "--ignore-index", "--variant",
        "--workspace-limit", "--lmcl-margin"})
    if (arguments.has(option))
      return userError(fmt::format("expected no {} with --eval, which computes logits and no loss", option));
  return {};
}

Status readLabels(const Arguments &arguments, RunInputs &inputs) {
  TW_ASSIGN_OR_RETURN(const std::string path, arguments.required("--labels"));
  TW_ASSIGN_OR_RETURN(const NpyFile file, NpyFile::open(path));
  const NpyHeader &header = file.header();
  if (header.shape != std::vector<int64_t>{inputs.rows})
    return userError(fmt::format("{}: expected {} labels, one a row: shape ({},), found shape {}", path,
                                 inputs.rows, inputs.rows, header.shapeText()));
  TW_ASSIGN_OR_RETURN(inputs.labels, file.readIntegers());
  return checkLabels(path, inputs.labels, inputs.classes, inputs.ignoreIndex);
}

Status readGradOutput(const Arguments &arguments, RunInputs &inputs) {
  const std::optional<std::string> path = arguments.text("--grad-output");
  if (!path) return {};
  if (inputs.variant == Variant::lossOnly)
    return userError("expected no --grad-output with --variant loss_only, which computes no gradient");
  TW_ASSIGN_OR_RETURN(const NpyFile file, NpyFile::open(*path));
  const NpyHeader &header = file.header();
  const bool perRow = inputs.reduction == Reduction::none;
  const bool fits = perRow ? header.shape == std::vector<int64_t>{inputs.rows} : header.elements() == 1;
  if (!fits)
    return userError(fmt::format("{}: expected {} with --reduction {}, found shape {}", *path,
                                 perRow ? fmt::format("shape ({},)", inputs.rows) : "one number",
                                 reductionName(inputs.reduction), header.shapeText()));
  inputs.gradOutput.resize(header.elements());
  return file.readFloats(ElementType::f32, inputs.gradOutput.data());
}

/// A file of one number for each class, or each row.
StatusOr<std::vector<float>> readVector(const Arguments &arguments, const std::string &option, int64_t size,
                                        const char *each) {
  const std::optional<std::string> path = arguments.text(option);
  if (!path) return std::vector<float>();
  TW_ASSIGN_OR_RETURN(const NpyFile file, NpyFile::open(*path));
  const NpyHeader &header = file.header();
  if (header.shape != std::vector<int64_t>{size})
    return userError(fmt::format("{}: expected {} of one number for each {}: shape ({},), found shape {}",
                                 *path, option, each, size, header.shapeText()));
  std::vector<float> values(size);
  TW_RETURN_IF_ERROR(file.readFloats(ElementType::f32, values.data()));
  return values;
}

Status readRowGradients(const Arguments &arguments, RunInputs &inputs) {
  for (const char *option : {"--grad-lse", "--grad-entropy"})
    if (arguments.has(option) && inputs.variant == Variant::lossOnly)
      return userError(
          fmt::format("expected no {} with --variant loss_only, which computes no gradient", option));
  TW_ASSIGN_OR_RETURN(inputs.gradLse, readVector(arguments, "--grad-lse", inputs.rows, "row"));
  TW_ASSIGN_OR_RETURN(inputs.gradEntropy, readVector(arguments, "--grad-entropy", inputs.rows, "row"));
  return {};
}

Status checkClassWeights(const std::string &path, const std::vector<float> &weights) {
  for (std::size_t c = 0; c < weights.size(); ++c)
    if (!(weights[c] >= 0 && std::isfinite(weights[c])))
      return userError(fmt::format("{}: class {}: expected a finite weight that is not negative, found {}",
                                   path, c, weights[c]));
  return {};
}

Status readClassVectors(const Arguments &arguments, RunInputs &inputs) {
  if (inputs.logits)
    for (const char *option : {"--bias", "--lmcl-margin", "--lmcl-scale", "--no-flush"})
      if (arguments.has(option))
        return userError(
            fmt::format("expected no {} with --logits: it is about making them from --hidden", option));
  TW_RETURN_IF_ERROR(checkOptions(inputs, arguments.has("--class-weight")));
  if (inputs.lmcl) TW_RETURN_IF_ERROR(checkMargin(*inputs.lmcl, inputs, arguments.has("--bias")));
  TW_ASSIGN_OR_RETURN(inputs.bias, readVector(arguments, "--bias", inputs.classes, "class"));
  TW_ASSIGN_OR_RETURN(inputs.classWeight, readVector(arguments, "--class-weight", inputs.classes, "class"));
  return checkClassWeights(arguments.text("--class-weight").value_or(""), inputs.classWeight);
}

} // namespace

Status checkLabels(const std::string &path, const std::vector<int64_t> &labels, int64_t classes,
                   int64_t ignoreIndex) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const int64_t label = labels[row];
    if (label == ignoreIndex || (label >= 0 && label < classes)) continue;
    return userError(
        fmt::format("{}: row {}: expected a label from 0 to {} or the ignore index {}, found {}; correct "
                    "it, or give --ignore-index",
                    path, row, classes - 1, ignoreIndex, label));
  }
  return {};
}

StatusOr<RunInputs> readRunInputs(const Arguments &arguments) {
  RunInputs inputs;
  TW_RETURN_IF_ERROR(readOptions(arguments, inputs));
  if (inputs.eval) TW_RETURN_IF_ERROR(checkEval(arguments));
  TW_RETURN_IF_ERROR(openMatrices(arguments, inputs));
  TW_RETURN_IF_ERROR(readClassVectors(arguments, inputs));
  if (inputs.eval) return StatusOr<RunInputs>(std::move(inputs));
  TW_RETURN_IF_ERROR(readLabels(arguments, inputs));
  TW_RETURN_IF_ERROR(readGradOutput(arguments, inputs));
  TW_RETURN_IF_ERROR(readRowGradients(arguments, inputs));
  return StatusOr<RunInputs>(std::move(inputs));
}

} // namespace tilewright
