#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/cross_entropy.h"
#include "kernels/linear_cross_entropy.h"
#include "runtime/runtime.h"
#include "tools/commands.h"
#include "tools/output_folder.h"
#include "tools/run_inputs.h"
#include "tools/tensors.h"
#include "tools/text.h"

namespace tilewright {
namespace {

/// What a run computes, in the order in which it is written.
struct Result {
  std::string name; ///< of the file
  std::vector<int64_t> shape;
  OwnedTensor tensor;
};

struct RunResults {
  std::vector<Result> results;
  LossReport report;
};

StatusOr<OwnedTensor> uploadFile(Device &device, const NpyFile &file, ElementType element) {
  std::vector<char> bytes(file.header().elements() * elementBytes(element));
  TW_RETURN_IF_ERROR(file.readFloats(element, bytes.data()));
  return uploadBytes(device, element, file.header().shape, bytes.data());
}

/// The tensors that both losses have.
struct CommonTensors {
  OwnedTensor label, gradOutput, loss, lse;
};

StatusOr<CommonTensors> commonTensors(Device &device, const RunInputs &inputs) {
  CommonTensors common;
  TW_ASSIGN_OR_RETURN(common.label,
                      uploadBytes(device, ElementType::i64, {inputs.rows}, inputs.labels.data()));
  if (!inputs.gradOutput.empty()) {
    const int64_t size = static_cast<int64_t>(inputs.gradOutput.size());
    TW_ASSIGN_OR_RETURN(common.gradOutput, uploadFloats(device, ElementType::f32, {size}, inputs.gradOutput));
  }
  const int64_t losses = inputs.reduction == Reduction::none ? inputs.rows : 1;
  TW_ASSIGN_OR_RETURN(common.loss, allocateTensor(device, ElementType::f32, {losses}));
  TW_ASSIGN_OR_RETURN(common.lse, allocateTensor(device, ElementType::f32, {inputs.rows}));
  return common;
}

void addCommon(const RunInputs &inputs, CommonTensors &common, RunResults &run) {
  const bool perRow = inputs.reduction == Reduction::none;
  run.results.push_back(
      {"loss.npy", perRow ? std::vector<int64_t>{inputs.rows} : std::vector<int64_t>{}, common.loss});
  run.results.push_back({"lse.npy", {inputs.rows}, common.lse});
}

StatusOr<RunResults> runLinear(Runtime &runtime, const RunInputs &inputs) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const OwnedTensor hidden, uploadFile(device, *inputs.hidden, inputs.element));
  TW_ASSIGN_OR_RETURN(const OwnedTensor weight, uploadFile(device, *inputs.weight, inputs.element));
  TW_ASSIGN_OR_RETURN(CommonTensors common, commonTensors(device, inputs));
  OwnedTensor dHidden, dWeight;
  if (inputs.variant != Variant::lossOnly) {
    const ElementType element = ElementType::f32; // as written, whatever the inputs
    TW_ASSIGN_OR_RETURN(dHidden, allocateTensor(device, element, {inputs.rows, inputs.hiddenSize}));
    TW_ASSIGN_OR_RETURN(dWeight, allocateTensor(device, element, {inputs.classes, inputs.hiddenSize}));
  }
  LinearCrossEntropyOptions options;
  options.reduction = inputs.reduction;
  options.ignoreIndex = inputs.ignoreIndex;
  options.variant = inputs.variant;
  options.workspaceLimit = inputs.workspaceLimit;
  RunResults run;
  TW_ASSIGN_OR_RETURN(run.report,
                      linearCrossEntropy(runtime,
                                         {hidden.ref, weight.ref, common.label.ref, common.gradOutput.ref,
                                          common.loss.ref, common.lse.ref, dHidden.ref, dWeight.ref},
                                         options));
  addCommon(inputs, common, run);
  if (inputs.variant != Variant::lossOnly) {
    run.results.push_back({"dx.npy", {inputs.rows, inputs.hiddenSize}, dHidden});
    run.results.push_back({"dw.npy", {inputs.classes, inputs.hiddenSize}, dWeight});
  }
  return run;
}

StatusOr<RunResults> runOverLogits(Runtime &runtime, const RunInputs &inputs) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const OwnedTensor logits, uploadFile(device, *inputs.logits, inputs.element));
  TW_ASSIGN_OR_RETURN(CommonTensors common, commonTensors(device, inputs));
  OwnedTensor dLogits;
  if (inputs.variant != Variant::lossOnly && inputs.element == ElementType::f32) {
    dLogits = logits; // replaced in place
  } else if (inputs.variant != Variant::lossOnly) {
    TW_ASSIGN_OR_RETURN(dLogits, allocateTensor(device, ElementType::f32, {inputs.rows, inputs.classes}));
  }
  RunResults run;
  TW_ASSIGN_OR_RETURN(run.report, crossEntropy(runtime,
                                               {logits.ref, common.label.ref, common.gradOutput.ref,
                                                common.loss.ref, common.lse.ref, dLogits.ref},
                                               {inputs.reduction, inputs.ignoreIndex}));
  if (inputs.workspaceLimit > 0 && run.report.workspaceBytes > inputs.workspaceLimit)
    return userError(fmt::format("expected --workspace-limit of at least {} bytes for these logits, found {}",
                                 run.report.workspaceBytes, inputs.workspaceLimit));
  addCommon(inputs, common, run);
  if (inputs.variant != Variant::lossOnly)
    run.results.push_back({"dlogits.npy", {inputs.rows, inputs.classes}, dLogits});
  return run;
}

std::string metricsText(Runtime &runtime, const RunInputs &inputs, const LossReport &report) {
  const RuntimeCounters counters = runtime.counters();
  nlohmann::ordered_json metrics = {
      {"variant", variantName(report.variant)},
      {"configuration", report.configuration},
      {"device", runtime.device().info().name},
      {"dtype", elementName(inputs.element)},
      {"reduction", reductionName(inputs.reduction)},
      {"rows", inputs.rows},
      {"classes", inputs.classes},
      {"workspace_bytes", report.workspaceBytes},
      {"compile_ms", report.compileMilliseconds},
      {"run_ms", report.runMilliseconds},
      {"kernels_compiled", counters.compiled},
      {"kernels_from_disk", counters.diskHits},
  };
  if (inputs.hidden) metrics["hidden"] = inputs.hiddenSize;
  return metrics.dump(2) + "\n";
}

std::vector<std::string> filesOf(const RunInputs &inputs) {
  std::vector<std::string> names = {"loss.npy", "lse.npy", "metrics.json"};
  if (inputs.variant == Variant::lossOnly) return names;
  if (inputs.logits)
    names.push_back("dlogits.npy");
  else
    names.insert(names.end(), {"dx.npy", "dw.npy"});
  return names;
}

Status run(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string out, arguments.required("--out"));
  TW_ASSIGN_OR_RETURN(const RunInputs inputs, readRunInputs(arguments));
  TW_ASSIGN_OR_RETURN(OutputFolder folder, OutputFolder::prepare(out, filesOf(inputs)));
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime,
                      Runtime::open(arguments.text("--device").value_or("")));
  TW_ASSIGN_OR_RETURN(const RunResults run,
                      inputs.hidden ? runLinear(*runtime, inputs) : runOverLogits(*runtime, inputs));
  std::string summary;
  for (const Result &result : run.results) {
    TW_ASSIGN_OR_RETURN(const std::vector<float> values, download(runtime->device(), result.tensor.ref));
    TW_RETURN_IF_ERROR(folder.addNpy(result.name, result.shape, values.data()));
    if (result.shape.empty()) summary = fmt::format("loss {:.7g}, ", values[0]);
  }
  TW_RETURN_IF_ERROR(folder.addText("metrics.json", metricsText(*runtime, inputs, run.report)));
  TW_RETURN_IF_ERROR(folder.commit());
  fmt::print("{}{} rows of {} classes, {}: compile {:.0f} ms, run {:.1f} ms, workspace {}; written to {}\n",
             summary, inputs.rows, inputs.classes, variantName(run.report.variant),
             run.report.compileMilliseconds, run.report.runMilliseconds,
             bytesText(static_cast<double>(run.report.workspaceBytes)), out);
  return {};
}

} // namespace

Command runCommand() {
  using Kind = OptionSpec::Kind;
  Command command;
  command.name = "run";
  command.summary = "a loss and its gradients from .npy files to .npy files";
  command.usage = "--hidden X.npy --weight W.npy --labels y.npy --out DIR [options]\n"
                  "--logits Z.npy --labels y.npy --out DIR [options]";
  command.options = {
      {"--hidden", "X.npy", "hidden states, N×H (floats or integers, rounded once to --dtype)"},
      {"--weight", "W.npy", "vocabulary weight, V×H"},
      {"--logits", "Z.npy", "logits, N×V, in place of the two"},
      {"--labels", "y.npy", "N integers: classes from 0 to V-1, or the ignore index"},
      {"--out", "DIR", "for loss.npy, lse.npy, dx.npy and dw.npy or dlogits.npy (float32), and metrics.json"},
      {"--grad-output", "g.npy",
       "what the gradients are multiplied with: one number, or N with --reduction none"},
      {"--dtype", "TYPE", "f32 (default), bf16 or f16: of the matrices as the loss sees them"},
      {"--reduction", "HOW", "mean (default), sum or none"},
      {"--ignore-index", "I", "rows with this label take no part (default -100)"},
      {"--variant", "NAME", "auto (default), chunked, whole, or loss_only (no gradients)"},
      {"--workspace-limit", "BYTES", "memory beside inputs and outputs, as 268435456 or 256MiB"},
      {"--device", "NAME", "cpu; default: what TILEWRIGHT_DEVICE says"},
  };
  for (const char *later : {"--bias", "--class-weight", "--label-smoothing", "--z-loss", "--logit-scale",
                            "--softcap", "--lmcl-margin", "--lmcl-scale", "--objective", "--metrics"})
    command.options.push_back({later, "", "", Kind::later});
  command.run = run;
  return command;
}

} // namespace tilewright
