#include <algorithm>

#include <fmt/format.h>

#include "compiler/base/byte_text.h"
#include "compiler/base/env.h"
#include "kernels/bundle_writer.h"
#include "kernels/catalog.h"
#include "runtime/runtime.h"
#include "tools/cli/number_type.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/loss_arguments.h"

namespace tilewright {
namespace {

StatusOr<ElementType> readGradientType(const Arguments &arguments, const char *option, ElementType same) {
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.choice(option, {"same", "f32"}));
  return name == "f32" ? ElementType::f32 : same;
}

StatusOr<CoveredCalls> readCalls(const Arguments &arguments) {
  CoveredCalls calls;
  TW_ASSIGN_OR_RETURN(const NumberType type, readNumberType(arguments));
  calls.element = type.element;
  calls.options.tf32 = type.tf32;
  TW_ASSIGN_OR_RETURN(calls.dHidden, readGradientType(arguments, "--grad-hidden", type.element));
  TW_ASSIGN_OR_RETURN(calls.dWeight, readGradientType(arguments, "--grad-weight", type.element));
  TW_ASSIGN_OR_RETURN(const std::string reduction, arguments.choice("--reduction", {"mean", "sum", "none"}));
  TW_ASSIGN_OR_RETURN(calls.options.reduction, parseReduction(reduction));
  TW_RETURN_IF_ERROR(readLossOptions(arguments, calls.options, calls.options.lmcl));
  TW_ASSIGN_OR_RETURN(const std::string variant,
                      arguments.choice("--variant", {"auto", "chunked", "whole", "recompute", "loss_only"}));
  TW_ASSIGN_OR_RETURN(calls.options.variant, parseVariant(variant));
  TW_ASSIGN_OR_RETURN(calls.options.workspaceLimit, arguments.bytes("--workspace-limit", 0));
  calls.options.configuration = arguments.text("--configuration").value_or("");
  calls.options.flushSmallProbabilities = !arguments.has("--no-flush");
  calls.options.accumulate = arguments.has("--accumulate");
  calls.bias = arguments.has("--bias");
  calls.classWeight = arguments.has("--class-weight");
  calls.monitored = arguments.has("--metrics");
  calls.entropy = calls.monitored || arguments.has("--entropy");
  calls.argmax = calls.monitored || arguments.has("--argmax");
  calls.correct = calls.monitored || arguments.has("--correct");
  calls.gradLse = arguments.has("--grad-lse");
  calls.gradEntropy = arguments.has("--grad-entropy");
  calls.unaligned = arguments.has("--unaligned");
  calls.overLogits = arguments.has("--over-logits");
  return calls;
}

/// The GPU that TILEWRIGHT_DEVICE names, or what stands for one; a CPU with as many threads as asked for.
StatusOr<DeviceInfo> readDevice(const Arguments &arguments, const Target &target,
                                const Environment &environment) {
  DeviceInfo info = exportDevice(target);
  if (target.kind == TargetKind::nvptx && environment.device != "cpu") {
    TW_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, openDevice("", target.arch));
    info = device->info();
  }
  TW_ASSIGN_OR_RETURN(const int64_t units, arguments.integer("--units", info.units));
  if (units < 1 || units > 4096)
    return userError(fmt::format("--units: expected 1 to 4096, found {}", units));
  info.units = static_cast<int>(units);
  TW_ASSIGN_OR_RETURN(info.memoryBytes, arguments.bytes("--memory", info.memoryBytes));
  return info;
}

Status exportBundle(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string path, arguments.required("--bundle"));
  TW_ASSIGN_OR_RETURN(const std::string targetName, arguments.required("--target"));
  TW_ASSIGN_OR_RETURN(const Target target, parseTarget(targetName));
  if (target.isAarch64())
    return userError("--target: expected one of this library's own devices, found '" + targetName +
                     "'; tilewright emit writes code for it");
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  TW_ASSIGN_OR_RETURN(const DeviceInfo device, readDevice(arguments, target, environment));
  TW_ASSIGN_OR_RETURN(CoveredCalls calls, readCalls(arguments));
  const std::vector<std::string> shapes = arguments.list("--shape"), names = arguments.list("--kernel");
  if (shapes.empty() && names.empty())
    return userError("expected --shape N,H,V or --kernel NAME, found neither: nothing would be exported");
  TW_ASSIGN_OR_RETURN(std::vector<int64_t> shards, readShards(arguments));
  if (shards.empty()) shards = {0};
  BundleWriter writer(target, device);
  for (const std::string &text : shapes) {
    TW_ASSIGN_OR_RETURN(const ProblemShape shape, parseShape(text));
    calls.mostRows = shape.rows, calls.hidden = shape.hidden, calls.classes = shape.classes;
    for (const int64_t ranks : shards) {
      calls.shards = ranks;
      TW_RETURN_IF_ERROR(writer.add(calls));
      fmt::print("{}\n", calls.str());
    }
  }
  for (const std::string &name : names) {
    TW_ASSIGN_OR_RETURN(const CatalogEntry entry, findKernel(name));
    writer.add(entry.make(calls.element), entry.options(target.kind));
  }
  TW_ASSIGN_OR_RETURN(const int64_t bytes, writer.write(path, environment));
  fmt::print("{} kernels for {}, planned for {} with {} {}: {}, written to {}\n", writer.kernels(),
             targetName, device.name, device.units,
             target.kind == TargetKind::cpu ? "threads" : "multiprocessors",
             byteText(static_cast<double>(bytes)), path);
  return {};
}

/// Of a bundle it matters which tensors there are, not what is in them.
std::vector<OptionSpec> optionsWithoutFiles() {
  std::vector<OptionSpec> options = lossOptionSpecs();
  for (OptionSpec &option : options)
    if (option.value.find(".npy") != std::string::npos)
      option = {option.name, "", "calls have this tensor", OptionSpec::Kind::flag};
    else if (option.name == "--metrics")
      option.help = "calls have all of the outputs entropy, argmax, correct and monitored";
  return options;
}

} // namespace

Command exportCommand() {
  Command command;
  command.name = "export";
  command.summary = "compiled kernels as one file, for machines without a compiler";
  command.usage =
      "--bundle FILE --target cpu|sm_80|sm_90a --shape N,H,V [--shape …] [--dtype TYPE] [options]\n"
      "--bundle FILE --target cpu|sm_80|sm_90a --kernel NAME [--kernel …] [--dtype TYPE]";
  command.options = {
      {"--bundle", "FILE", "what is written; TILEWRIGHT_BUNDLES or tw_runtime_options.bundles opens it"},
      {"--target", "NAME",
       "cpu: processors with what this one has; x86-64-v3, znver4, …: with what that one has; sm_80, …: "
       "GPUs"},
      {"--shape", "N,H,V",
       "all kernels for N or fewer rows: the loss, any of its gradients, and the backward pass apart",
       OptionSpec::Kind::list},
      numberTypeSpec(": of the matrices"),
      {"--kernel", "NAME", "one of those that `tilewright inspect` lists", OptionSpec::Kind::list},
      {"--over-logits", "", "cross entropy over logits N×V in place of linear cross entropy; H is not used",
       OptionSpec::Kind::flag},
      {"--shards", "R",
       "calls of one of R ranks that share the V classes, in place of calls with all of them; may be given "
       "more than once",
       OptionSpec::Kind::list},
      {"--grad-hidden", "TYPE", "of dX, or of the logits' gradient: that of --dtype (same, default), or f32"},
      {"--grad-weight", "TYPE", "of dW: that of --dtype (same, default), or f32"},
      {"--reduction", "HOW", "mean (default), sum or none"},
      {"--variant", "NAME", "auto (default), chunked, whole, recompute or loss_only"},
      {"--workspace-limit", "BYTES", "that calls will give, as 268435456 or 256MiB (default: no limit)"},
      {"--configuration", "TEXT", "that calls with gradients will pin, as `tilewright tune` finds it"},
      {"--accumulate", "", "dW and db are added to what their buffers hold", OptionSpec::Kind::flag},
      {"--entropy", "", "calls have the rows' entropy as an output", OptionSpec::Kind::flag},
      {"--argmax", "", "and argmax", OptionSpec::Kind::flag},
      {"--correct", "", "and correct", OptionSpec::Kind::flag},
      {"--grad-lse", "", "calls may have a gradient that arrives for lse, too", OptionSpec::Kind::flag},
      {"--grad-entropy", "", "and one for entropy", OptionSpec::Kind::flag},
      {"--unaligned", "", "sm_90a: matrices that do not begin at multiples of 16 bytes, too",
       OptionSpec::Kind::flag},
      {"--units", "COUNT",
       "what calls are planned for: threads, or multiprocessors; default: this machine's, else an H200's or "
       "A100's"},
      {"--memory", "BYTES", "and the device's memory"},
  };
  for (const OptionSpec &option : optionsWithoutFiles())
    command.options.push_back(option);
  command.run = exportBundle;
  return command;
}

} // namespace tilewright
