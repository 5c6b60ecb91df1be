#include <fmt/format.h>

#include "compiler/base/byte_text.h"
#include "kernels/bundle_writer.h"
#include "kernels/lce/estimate.h"
#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"
#include "kernels/lce_call.h"
#include "runtime/open_runtime.h"
#include "tools/cli/number_type.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/planned_call.h"

namespace tilewright {
namespace {

/// What a planner has to know of chips that this machine may not have.
StatusOr<DeviceInfo> chip(const std::string &name) {
  TW_ASSIGN_OR_RETURN(const Target hopper, parseTarget("sm_90a"));
  DeviceInfo info = exportDevice(hopper); // an H200
  if (name == "h200") return info;
  info.name = "NVIDIA H100";
  info.memoryBytes = 85017493504;
  info.cacheBytes = 52428800;
  return info;
}

StatusOr<DeviceInfo> deviceNamed(const Arguments &arguments) {
  if (arguments.has("--for")) {
    TW_ASSIGN_OR_RETURN(const std::string name, arguments.choice("--for", {"h200", "h100"}, {}));
    return chip(name);
  }
  TW_ASSIGN_OR_RETURN(const auto runtime, Runtime::open());
  return runtime->device().info();
}

std::string secondsText(double seconds) { return fmt::format("{:.3g} ms", 1000 * seconds); }

/// The tiles that the planner compared, with the time that it expects of each.
std::string candidatesText(const lce::Scheme &scheme, lce::ProductKind kind, const lce::Config &config,
                           const DeviceInfo &device) {
  std::string text;
  for (const lce::Product &product : lce::candidatesFor(scheme, kind, device, config)) {
    lce::Config other = config;
    other[kind] = product;
    lce::chooseTail(scheme, device, other);
    for (const lce::ProductEstimate &p : lce::estimateCall(scheme, other, device).products)
      if (p.kind == kind)
        text += fmt::format("{}{} {}, clusters of {}: {}", text.empty() ? "" : "; ", product.block.str(),
                            warpRolesName(product.roles), product.clusterCtas, secondsText(p.seconds));
  }
  return text;
}

void printEstimate(const lce::Scheme &scheme, const lce::Config &config, const lce::CallEstimate &estimate,
                   const DeviceInfo &device) {
  Table table({"product", "tile and schedule", "rounds", "filled", "bytes", "expected"});
  for (const lce::ProductEstimate &p : estimate.products)
    table.add({p.name, p.product.str(), fmt::format("{:.2f}", p.cost.rounds), fmt::format("{:.3f}", p.filled),
               byteText(p.cost.bytes), secondsText(p.seconds)});
  table.add({"others", "", "", "", "", secondsText(estimate.othersSeconds)});
  table.add({"all", "", "", "", "", secondsText(estimate.seconds())});
  fmt::print("{}\n  rounds: tiles that the busiest multiprocessor computes of a chunk, one after the other; "
             "filled: their share that the result needs\n  bytes: what a chunk reads of both operands, and "
             "writes; expected: of all chunks\n\n  compared\n",
             table.str());
  for (const lce::ProductEstimate &p : estimate.products)
    fmt::print("    {}: {}\n", p.name, candidatesText(scheme, p.kind, config, device));
}

Status plan(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string text, arguments.required("--shape"));
  TW_ASSIGN_OR_RETURN(const ProblemShape shape, parseShape(text));
  TW_ASSIGN_OR_RETURN(const NumberType type, readNumberType(arguments));
  TW_ASSIGN_OR_RETURN(const DeviceInfo device, deviceNamed(arguments));
  LinearCrossEntropyTensors tensors = tensorsWithoutData(shape, type.element);
  if (arguments.has("--loss-only")) tensors.dHidden = tensors.dWeight = {};
  LinearCrossEntropyOptions options;
  options.tf32 = type.tf32;
  TW_ASSIGN_OR_RETURN(options.workspaceLimit, arguments.bytes("--workspace-limit", 0));
  TW_ASSIGN_OR_RETURN(const lce::CallPlan call, lce::planCall(tensors, options, device));
  const auto &[request, config, scheme] = call;
  fmt::print("{}, {} on {}\n  {}: {}\n  {} in the workspace, {} of {} rows\n  {}\n\n", text, type.name(),
             printable(device.name), variantName(config.variant), config.str(),
             byteText(static_cast<double>(lce::workspaceBytes(scheme, config))),
             config.chunks(request) == 1 ? "one chunk" : fmt::format("{} chunks", config.chunks(request)),
             config.chunkRows, scheme.str());
  if (lce::isEstimated(scheme, config))
    printEstimate(scheme, config, lce::estimateCall(scheme, config, device), device);
  else
    fmt::print("  no times are expected of CPUs, of portable code and of the variant recompute\n");
  return {};
}

} // namespace

Command planCommand() {
  Command command;
  command.name = "plan";
  command.summary = "how a call would be computed, and why: tiles, rounds, bytes, expected times";
  command.usage = "--shape N,H,V [--dtype TYPE] [--loss-only] [--workspace-limit BYTES] [--for h200|h100]";
  command.options = {
      {"--shape", "N,H,V", "rows, hidden size, classes"},
      numberTypeSpec(),
      {"--loss-only", "", "no gradient", OptionSpec::Kind::flag},
      {"--workspace-limit", "BYTES", "device memory beside inputs and gradients (default: no limit)"},
      {"--for", "CHIP", "h200 or h100, which need not be in this machine (default: this machine's device)"},
  };
  command.run = plan;
  return command;
}

} // namespace tilewright
