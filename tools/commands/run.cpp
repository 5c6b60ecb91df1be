#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/base/byte_text.h"
#include "runtime/runtime.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/loss_arguments.h"
#include "tools/commands/run_inputs.h"
#include "tools/commands/run_loss.h"
#include "tools/io/output_folder.h"
#include "tools/io/tensors.h"

namespace tilewright {
namespace {

std::string metricsText(Runtime &runtime, const RunInputs &inputs, const RunResults &run) {
  const LossReport &report = run.report;
  const RuntimeCounters counters = runtime.counters();
  nlohmann::ordered_json metrics;
  if (!inputs.eval) metrics["variant"] = variantName(report.variant);
  metrics.update({
      {"configuration", report.configuration},
      {"device", runtime.device().info().name},
      {"dtype", inputs.type.name()},
  });
  if (!inputs.eval) metrics["reduction"] = reductionName(inputs.reduction);
  metrics.update({
      {"rows", inputs.rows},
      {"classes", inputs.classes},
      {"workspace_bytes", report.workspaceBytes},
      {"compile_ms", report.compileMilliseconds},
      {"run_ms", report.runMilliseconds},
      {"kernels_compiled", counters.compiled},
      {"kernels_from_disk", counters.diskHits},
  });
  if (inputs.hidden) metrics["hidden"] = inputs.hiddenSize;
  for (std::size_t k = 0; k < run.monitored.size(); ++k)
    metrics["monitored"][monitoredName(static_cast<Monitored>(k))] = run.monitored[k];
  return metrics.dump(2) + "\n";
}

std::vector<std::string> filesOf(const RunInputs &inputs) {
  if (inputs.eval) return {"logits.npy", "metrics.json"};
  std::vector<std::string> names = {"loss.npy", "lse.npy", "metrics.json"};
  if (inputs.metrics) names.insert(names.end(), {"entropy.npy", "argmax.npy", "correct.npy"});
  if (inputs.variant == Variant::lossOnly) return names;
  if (inputs.logits)
    names.push_back("dlogits.npy");
  else
    names.insert(names.end(), {"dx.npy", "dw.npy"});
  if (!inputs.bias.empty()) names.push_back("db.npy");
  return names;
}

/// One result to its file; its first value as a number.
StatusOr<double> write(OutputFolder &folder, Device &device, const RunResult &result) {
  const TensorRef &tensor = result.tensor.ref;
  if (tensor.element == ElementType::i32) {
    std::vector<int32_t> values(tensor.elements());
    TW_RETURN_IF_ERROR(
        device.copyToHost(values.data(), tensor.data, values.size() * sizeof(int32_t), nullptr));
    TW_RETURN_IF_ERROR(folder.addNpy(result.name, result.shape, values.data()));
    return values[0];
  }
  TW_ASSIGN_OR_RETURN(const std::vector<float> values, download(device, tensor));
  TW_RETURN_IF_ERROR(folder.addNpy(result.name, result.shape, values.data()));
  return values[0];
}

Status run(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string out, arguments.required("--out"));
  TW_ASSIGN_OR_RETURN(const RunInputs inputs, readRunInputs(arguments));
  TW_ASSIGN_OR_RETURN(OutputFolder folder, OutputFolder::prepare(out, filesOf(inputs)));
  TW_ASSIGN_OR_RETURN(
      const std::unique_ptr<Runtime> runtime,
      Runtime::open(arguments.text("--device").value_or(""), arguments.text("--target").value_or("")));
  TW_ASSIGN_OR_RETURN(const RunResults run, inputs.eval     ? runEval(*runtime, inputs)
                                            : inputs.hidden ? runLinear(*runtime, inputs)
                                                            : runOverLogits(*runtime, inputs));
  std::string summary;
  for (const RunResult &result : run.results) {
    TW_ASSIGN_OR_RETURN(const double first, write(folder, runtime->device(), result));
    if (result.shape.empty()) summary = fmt::format("loss {:.7g}, ", first);
  }
  TW_RETURN_IF_ERROR(folder.addText("metrics.json", metricsText(*runtime, inputs, run)));
  TW_RETURN_IF_ERROR(folder.commit());
  fmt::print("{}{} rows of {} classes, {}: compile {:.0f} ms, run {:.1f} ms, workspace {}; written to {}\n",
             summary, inputs.rows, inputs.classes, inputs.eval ? "logits" : variantName(run.report.variant),
             run.report.compileMilliseconds, run.report.runMilliseconds,
             byteText(static_cast<double>(run.report.workspaceBytes)), out);
  return {};
}

} // namespace

Command runCommand() {
  Command command;
  command.name = "run";
  command.summary = "a loss and its gradients from .npy files to .npy files";
  command.usage = "--hidden X.npy --weight W.npy --labels y.npy --out DIR [options]\n"
                  "--logits Z.npy --labels y.npy --out DIR [options]\n"
                  "--hidden X.npy --weight W.npy --eval --out DIR [options of the logits]";
  command.options = {
      {"--hidden", "X.npy", "hidden states, N×H (floats or integers, rounded once to --dtype)"},
      {"--weight", "W.npy", "vocabulary weight, V×H"},
      {"--logits", "Z.npy", "logits, N×V, in place of the two"},
      {"--labels", "y.npy", "N integers: classes from 0 to V-1, or the ignore index"},
      {"--out", "DIR",
       "for loss.npy, lse.npy, dx.npy, dw.npy and db.npy or dlogits.npy (float32), and metrics.json"},
      {"--grad-output", "g.npy",
       "upstream gradient of the loss: one number, or N with --reduction none (default 1)"},
      {"--grad-lse", "g.npy", "upstream gradients of the rows' lse, N numbers (default 0)"},
      {"--grad-entropy", "g.npy", "upstream gradients of the rows' entropy, N numbers (default 0)"},
      {"--eval", "", "the logits alone, to logits.npy (float32): no labels, no loss", OptionSpec::Kind::flag},
      numberTypeSpec(": of the matrices as the loss sees them"),
      {"--reduction", "HOW", "mean (default), sum or none"},
      {"--ignore-index", "I", "rows with this label take no part (default -100)"},
      {"--variant", "NAME",
       "auto (default), chunked (over rows), whole (one chunk), recompute (logits twice, least memory), or "
       "loss_only"},
      {"--workspace-limit", "BYTES",
       "device memory beside inputs and outputs, as 268435456 or 256MiB (default: no limit)"},
      {"--device", "NAME", "cpu, cuda, cuda:INDEX; default: what TILEWRIGHT_DEVICE says"},
      {"--target", "NAME",
       "what code is for: sm_80, sm_90, …; x86-64-v3, znver4, …; default: all that the device has"},
  };
  const std::vector<OptionSpec> options = lossOptionSpecs();
  command.options.insert(command.options.end(), options.begin(), options.end());
  command.run = run;
  return command;
}

} // namespace tilewright
