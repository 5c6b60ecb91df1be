#include <fmt/format.h>

#include "compiler/base/byte_text.h"
#include "compiler/base/scratch_folder.h"
#include "compiler/compile.h"
#include "kernels/bundle_writer.h"
#include "kernels/catalog.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/first_call.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr int kRepetitions = 3;

/// What the compiler makes of a kernel: an object, or PTX.
const std::string &codeOf(const Artifact &artifact) {
  return artifact.binary.empty() ? artifact.assembly : artifact.binary;
}

/// A kernel of the catalog, how it is compiled, and how long that took each time.
struct Subject {
  const CatalogEntry *entry;
  CompileOptions options;
  std::vector<double> milliseconds;
  std::size_t bytes = 0;
};

/// Every kernel; where warps may have roles, those that then have them a second time.
StatusOr<std::vector<Subject>> subjectsOn(const Device &device, ElementType element) {
  std::vector<Subject> subjects;
  for (const CatalogEntry &entry : kernelCatalog())
    for (bool aligned : {false, true}) {
      if (aligned && !device.info().warpgroups) continue;
      CompileOptions options = entry.options(device.target().kind);
      options.alignedMatrices = aligned;
      TW_ASSIGN_OR_RETURN(const Artifact artifact, compile(entry.make(element), device.target(), options));
      if (!aligned || artifact.persistent) subjects.push_back({&entry, options, {}, codeOf(artifact).size()});
    }
  return subjects;
}

/// All of them in turn, several times: what else a machine does for a while then meets each kernel once.
StatusOr<nlohmann::ordered_json> compileEach(const Device &device, ElementType element) {
  TW_ASSIGN_OR_RETURN(std::vector<Subject> subjects, subjectsOn(device, element));
  for (int i = 0; i < kRepetitions; ++i)
    for (Subject &subject : subjects) {
      TW_ASSIGN_OR_RETURN(
          const double milliseconds, wallMilliseconds([&] {
            return compile(subject.entry->make(element), device.target(), subject.options).status();
          }));
      subject.milliseconds.push_back(milliseconds);
    }
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const Subject &subject : subjects)
    kernels.push_back({{"kernel", subject.entry->name + (subject.options.alignedMatrices ? ", aligned" : "")},
                       {"compile_ms", medianOf(subject.milliseconds)},
                       {"object_bytes", subject.bytes}});
  return kernels;
}

/// The first call of a runtime that has nothing in memory.
StatusOr<nlohmann::ordered_json> firstCall(const LinearProblem &problem, const Environment &environment,
                                           const std::string &target) {
  TW_ASSIGN_OR_RETURN(const FirstCalls calls,
                      firstCalls(problem, {problem.element, false}, environment, target));
  const RuntimeCounters &counters = calls.counters;
  const double perLoad =
      counters.diskHits ? counters.diskMilliseconds / static_cast<double>(counters.diskHits) : 0;
  return nlohmann::ordered_json{{"ms", calls.first.done},
                                {"compiled", counters.compiled},
                                {"from_disk", counters.diskHits},
                                {"disk_ms_per_kernel", perLoad},
                                {"from_bundle", counters.bundleHits}};
}

/// All kernels for such calls, and for those with fewer rows.
Status exportTo(const std::string &bundle, const ProblemShape &shape, ElementType element,
                const Environment &environment, const std::string &target) {
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, openDevice("", target));
  BundleWriter writer(device->target(), device->info());
  CoveredCalls calls;
  calls.mostRows = shape.rows, calls.hidden = shape.hidden, calls.classes = shape.classes;
  calls.element = calls.dHidden = calls.dWeight = element;
  TW_RETURN_IF_ERROR(writer.add(calls));
  return writer.write(bundle, environment).status();
}

void print(const nlohmann::ordered_json &result) {
  fmt::print("DSL to object or PTX, {}, median of {}\n", result["dtype"].get<std::string>(), kRepetitions);
  Table kernels({"kernel", "ms", "code"});
  std::vector<double> times;
  for (const auto &kernel : result["kernels"]) {
    times.push_back(kernel["compile_ms"]);
    kernels.add({kernel["kernel"], fmt::format("{:.0f}", times.back()), byteText(kernel["object_bytes"])});
  }
  if (!times.empty()) kernels.add({"median of all", fmt::format("{:.0f}", medianOf(times))});
  fmt::print("{}\nFirst call of linear + cross entropy in a process\n", kernels.str());
  Table calls({"", "ms", "compiled", "from disk", "ms a load", "from a bundle"});
  const std::pair<const char *, const char *> ways[] = {
      {"cold", "nothing cached"}, {"warm", "kernels on disk"}, {"bundle", "kernels in a bundle"}};
  for (const auto &[key, name] : ways) {
    const auto &call = result[key];
    const int64_t loads = call["from_disk"];
    calls.add({name, fmt::format("{:.1f}", call["ms"].get<double>()),
               std::to_string(call["compiled"].get<int64_t>()), std::to_string(loads),
               loads ? fmt::format("{:.1f}", call["disk_ms_per_kernel"].get<double>()) : "-",
               std::to_string(call["from_bundle"].get<int64_t>())});
  }
  fmt::print("{}", calls.str());
}

} // namespace

StatusOr<nlohmann::ordered_json> benchCompile(const ProblemShape &shape, ElementType element,
                                              const std::string &target) {
  nlohmann::ordered_json result = {{"dtype", elementName(element)}};
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, openDevice("", target));
  TW_ASSIGN_OR_RETURN(result["kernels"], compileEach(*device, element));
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> folder, ScratchFolder::make());
  TW_ASSIGN_OR_RETURN(Environment environment, readEnvironment());
  environment.cacheDir = *folder / "cache";
  environment.bundles.clear();
  const LinearProblem problem = randomProblem(shape, element, 1);
  TW_ASSIGN_OR_RETURN(result["cold"], firstCall(problem, environment, target));
  TW_ASSIGN_OR_RETURN(result["warm"], firstCall(problem, environment, target));
  environment.cacheDir.clear();
  environment.bundles = {*folder / "bundle"};
  TW_RETURN_IF_ERROR(exportTo(environment.bundles[0], shape, element, environment, target));
  TW_ASSIGN_OR_RETURN(result["bundle"], firstCall(problem, environment, target));
  print(result);
  return result;
}

} // namespace tilewright
