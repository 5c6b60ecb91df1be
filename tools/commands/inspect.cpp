#include <fmt/format.h>

#include <filesystem>

#include "compiler/amx_permission.h"
#include "compiler/base/byte_text.h"
#include "compiler/base/env.h"
#include "compiler/base/version.h"
#include "compiler/cpu/machine.h"
#include "kernels/catalog.h"
#include "runtime/runtime.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/planned_call.h"
#include "tools/io/npy.h"

namespace tilewright {
namespace {

/// What the processor has of what makes kernels fast, and what their code uses.
void printProcessor(const Target &target) {
  constexpr const char *kTelling[] = {"avx2",     "fma",        "f16c",       "avx512f",  "avx512bw",
                                      "avx512vl", "avx512bf16", "avx512fp16", "amx-tile", "amx-bf16"};
  const std::string features = "," + hostTarget().features + ",";
  std::string found;
  for (const char *name : kTelling)
    if (features.find(",+" + std::string(name) + ",") != std::string::npos)
      found += (found.empty() ? "" : ", ") + std::string(name);
  const bool isRefused = amxPermission() == AmxPermission::refused;
  fmt::print("  {:<8}  found: {}{}\n", "", found.empty() ? "no vectors beyond SSE" : found,
             isRefused ? "; AMX, which the system does not allow" : "");
  fmt::print("  {:<8}  used: {}\n", "", describe(cpu::machineFor(target, 0)));
}

void printDevices() {
  fmt::print("Devices\n");
  for (const std::string &name : availableDevices()) {
    const StatusOr<std::unique_ptr<Device>> device = openDevice(name);
    if (!device.ok()) {
      fmt::print("  {:<8}  not used: {}\n", name, printable(device.status().message()));
      continue;
    }
    const DeviceInfo &info = (*device)->info();
    fmt::print("  {:<8}  {}, {}, code for {}\n", name, printable(info.name),
               byteText(static_cast<double>(info.memoryBytes)), (*device)->target().arch);
    if ((*device)->target().kind == TargetKind::cpu) printProcessor((*device)->target());
  }
  fmt::print("  compiler  {}\n\n", compilerVersion());
}

void printKernels() {
  std::size_t width = 0;
  for (const CatalogEntry &entry : kernelCatalog())
    width = std::max(width, entry.name.size());
  fmt::print("Kernels (tilewright emit --kernel NAME shows one)\n");
  for (const CatalogEntry &entry : kernelCatalog())
    fmt::print("  {:<{}}  {}\n", entry.name, width, entry.summary);
}

/// What a call uses for some problems where nothing limits the workspace.
Status printConfigurations(const Device &device) {
  constexpr std::pair<ProblemShape, ElementType> problems[] = {
      {{1024, 768, 32768}, ElementType::f32},
      {{1024, 768, 32768}, ElementType::bf16},
      {{8192, 2304, 256000}, ElementType::bf16},
      {{16384, 4096, 128256}, ElementType::bf16},
  };
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  const bool usesRecords = environment.autotune != AutotuneMode::off;
  Table table({"N,H,V", "type", "variant", "workspace", "", "tiles; scheme"});
  for (const auto &[shape, element] : problems) {
    TW_ASSIGN_OR_RETURN(const PlannedCall call,
                        plannedCall(device.info(), shape, element, usesRecords ? environment.cacheDir : ""));
    table.add({fmt::format("{},{},{}", shape.rows, shape.hidden, shape.classes), elementName(element),
               variantName(call.config.variant), byteText(static_cast<double>(call.workspaceBytes)),
               call.tuned ? "tuned" : "planned", call.config.str() + "; " + call.scheme});
  }
  fmt::print("\nConfigurations of linear + cross entropy, forward and backward, on {}\n{}",
             printable(device.info().name), table.str());
  return {};
}

void printLimits() {
  fmt::print("\nLimits\n"
             "  N           from 0 to 2^31 - 2^16; N·V may exceed 2^32\n"
             "  H, V        from 1 to 2^31 - 2^16\n"
             "  matrices    f32, bf16, f16, adjacent elements in a row\n"
             "  labels      i32 or i64\n"
             "  .npy files  float16/32/64 and integers of either byte order, at most 2 dimensions,\n"
             "              a header of at most {}\n",
             byteText(kNpyHeaderLimit));
}

void printEnvironment() {
  fmt::print("\nEnvironment\n");
  std::size_t width = 0;
  for (const EnvVariable &variable : envVariables())
    width = std::max(width, std::string(variable.name).size());
  for (const EnvVariable &variable : envVariables()) {
    const std::string value = currentValue(variable);
    fmt::print("  {:<{}}  {}\n", variable.name, width, value.empty() ? "(not set)" : printable(value));
    fmt::print("  {:<{}}    {}\n  {:<{}}    {}\n", "", width, variable.meaning, "", width, variable.choices);
  }
}

Status printCache() {
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  const std::string &dir = environment.cacheDir;
  fmt::print("\nCache\n  {}: ", dir.empty() ? "off" : printable(dir));
  if (dir.empty()) {
    fmt::print("kernels are not kept on disk\n");
    return {};
  }
  if (!std::filesystem::exists(dir)) {
    fmt::print("not made yet\n");
    return {};
  }
  const StatusOr<std::unique_ptr<ArtifactCache>> cache = ArtifactCache::open(dir);
  if (!cache.ok()) {
    fmt::print("not used: {}\n", printable(cache.status().message()));
    return {};
  }
  TW_ASSIGN_OR_RETURN(const std::vector<CacheEntry> entries, (*cache)->entries());
  int64_t bytes = 0;
  for (const CacheEntry &entry : entries)
    bytes += entry.bytes;
  fmt::print("{} kernels, {}\n", entries.size(), byteText(static_cast<double>(bytes)));
  return {};
}

Status inspect(const Arguments &) {
  printDevices();
  printKernels();
  for (const std::string &name : availableDevices())
    if (const StatusOr<std::unique_ptr<Device>> device = openDevice(name); device.ok())
      TW_RETURN_IF_ERROR(printConfigurations(**device));
  printLimits();
  printEnvironment();
  return printCache();
}

} // namespace

Command inspectCommand() {
  Command command;
  command.name = "inspect";
  command.summary = "devices, kernels, limits, environment and cache of this machine";
  command.run = inspect;
  return command;
}

} // namespace tilewright
