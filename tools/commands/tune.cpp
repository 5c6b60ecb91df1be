#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "autotune/tuning_cache.h"
#include "compiler/base/byte_text.h"
#include "compiler/base/version.h"
#include "kernels/tune_linear_cross_entropy.h"
#include "runtime/runtime.h"
#include "tools/bench/bench.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/number_type.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/planned_call.h"
#include "tools/commands/tuning_progress.h"
#include "tools/io/output_folder.h"

namespace tilewright {
namespace {

constexpr int64_t kDefaultLimit = 60;

std::string titleOf(const ProblemShape &shape, const NumberType &type) {
  return fmt::format("{}x{}x{} {}", shape.rows, shape.hidden, shape.classes, type.name());
}

class Tuning {
public:
  Tuning(Runtime &runtime, TuningCache &cache, const NumberType &type, int limit)
      : runtime_(runtime), cache_(cache), type_(type), limit_(limit) {}

  StatusOr<TuningCache::Record> tune(const ProblemShape &shape) {
    TW_ASSIGN_OR_RETURN(const TuningKey key,
                        tuningKey(runtime_, tensorsWithoutData(shape, type_.element), options()));
    bool searched = false;
    TW_ASSIGN_OR_RETURN(TuningCache::Record record,
                        cache_.obtain(
                            key, 0, [&](const TuningRecord &known) { return suffices(known); },
                            [&] {
                              searched = true;
                              return search(shape, cache_.find(key));
                            }));
    print(shape, *record, searched);
    return record;
  }

private:
  LinearCrossEntropyOptions options() const {
    LinearCrossEntropyOptions options;
    options.tf32 = type_.tf32;
    return options;
  }

  /// Asking again is free as long as nothing better can come of it.
  bool suffices(const TuningRecord &record) const {
    return record.complete && record.compiler == compilerVersion() && record.limit >= limit_;
  }

  StatusOr<TuningRecord> search(const ProblemShape &shape, const TuningCache::Record &before) {
    const double matrices = static_cast<double>((shape.rows + shape.classes) * shape.hidden);
    TW_RETURN_IF_ERROR(checkFits(
        matrices * static_cast<double>(2 * elementBytes(type_.element) + sizeof(float)), runtime_.device()));
    LinearProblemTensors tensors;
    {
      const LinearProblem problem = randomProblem(shape, type_.element, 1);
      TW_ASSIGN_OR_RETURN(tensors, uploadProblem(runtime_.device(), problem));
    }
    TuningProgressBar bar(titleOf(shape, type_));
    TunerOptions tuner;
    tuner.limit = limit_;
    tuner.stop = InterruptRequest::arrived;
    tuner.progress = [&](const TuningProgress &progress) { bar.show(progress); };
    TW_ASSIGN_OR_RETURN(TuningOutcome outcome,
                        tuneLinearCrossEntropy(runtime_, tensors.refs(), options(), tuner, nullptr));
    failures_ = std::move(outcome.failures);
    pruned_ = std::move(outcome.pruned);
    const bool known = before && before->compiler == compilerVersion();
    if (!outcome.record.complete && known && before->tried > outcome.record.tried)
      return *before; // it knows more than an interrupted search
    return std::move(outcome.record);
  }

  void print(const ProblemShape &shape, const TuningRecord &record, bool searched) {
    fmt::print("{} ({}): {} configurations tried{}{}\n", titleOf(shape, type_), record.deviceName,
               record.tried, record.complete ? "" : ", search interrupted",
               searched ? "" : ", known already");
    const auto show = [&](const char *name, const MeasuredConfiguration &m) {
      fmt::print("  {:<8}{:>10} ms  {:>8}  {}\n", name,
                 m.repetitions > 0 ? fmt::format("{:.2f}", m.milliseconds) : "failed",
                 byteText(static_cast<double>(m.workspaceBytes)), m.configuration.str());
    };
    show("untuned", record.heuristic);
    for (const MeasuredConfiguration &winner : record.winners)
      show(&winner == &record.winners.front() ? "fastest" : "smaller", winner);
    if (record.heuristic.repetitions > 0 && !record.winners.empty())
      fmt::print("  tuned / untuned: {:.3f}\n",
                 record.winners.front().milliseconds / record.heuristic.milliseconds);
    if (!searched) return;
    for (const auto &[reason, count] : pruned_)
      fmt::print("  {} not tried: {}\n", count, reason);
    for (const TuningOutcome::Failure &failure : failures_)
      fmt::print("  failed: {}: {}\n", failure.configuration.str(), printable(failure.cause));
  }

  Runtime &runtime_;
  TuningCache &cache_;
  NumberType type_;
  int limit_;
  std::vector<TuningOutcome::Failure> failures_; ///< of the last search
  std::map<std::string, int> pruned_;
};

/// A search as the JSON file shows it: what was asked, then the record.
nlohmann::ordered_json searchJson(const ProblemShape &shape, const NumberType &type,
                                  const TuningRecord &record) {
  nlohmann::ordered_json search = {
      {"rows", shape.rows}, {"hidden", shape.hidden}, {"classes", shape.classes}, {"dtype", type.name()}};
  TuningFile file;
  file.records.push_back(record);
  search.update(nlohmann::ordered_json::parse(encodeTuningFile(file))["records"][0]);
  return search;
}

Status tuneAction(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const NumberType type, readNumberType(arguments));
  TW_ASSIGN_OR_RETURN(const int64_t limit, arguments.integer("--limit", kDefaultLimit));
  if (limit < 1 || limit > 1000)
    return userError(fmt::format("expected --limit from 1 to 1000, found {}", limit));
  std::vector<ProblemShape> shapes;
  for (const std::string &text : arguments.list("--shape")) {
    TW_ASSIGN_OR_RETURN(const ProblemShape shape, parseShape(text));
    shapes.push_back(shape);
  }
  if (shapes.empty()) return userError("expected --shape N,H,V, found none");
  const std::optional<std::string> file = arguments.text("--json");
  if (file) TW_RETURN_IF_ERROR(checkFile(*file));

  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::open());
  const std::string &dir = runtime->environment().cacheDir;
  if (dir.empty())
    return userError("expected a cache folder to keep the result in, found none; set TILEWRIGHT_CACHE_DIR or "
                     "HOME to a folder");
  const std::shared_ptr<TuningCache> cache = TuningCache::shared(dir);
  Tuning tuning(*runtime, *cache, type, static_cast<int>(limit));
  InterruptRequest interrupt;
  nlohmann::ordered_json searches = nlohmann::ordered_json::array();
  Status stopped;
  for (std::size_t i = 0; i < shapes.size() && stopped.ok(); ++i) {
    const StatusOr<TuningCache::Record> record = tuning.tune(shapes[i]);
    if (record.ok()) searches.push_back(searchJson(shapes[i], type, **record));
    if (InterruptRequest::arrived())
      stopped = runtimeError(fmt::format("interrupted at shape {} of {}; what was measured is kept in {}",
                                         i + 1, shapes.size(), dir));
    else if (!record.ok())
      stopped = record.status();
  }
  if (file && !searches.empty()) TW_RETURN_IF_ERROR(writeFile(*file, searches.dump(2) + "\n"));
  return stopped;
}

} // namespace

Command tuneCommand() {
  Command command;
  command.name = "tune";
  command.summary = "measures configurations and keeps the best for later runs";
  command.usage = "--shape N,H,V [--shape …] [--dtype TYPE] [--limit CONFIGS] [--json FILE]";
  command.options = {
      {"--shape", "N,H,V", "rows, hidden size, classes; may be given more than once", OptionSpec::Kind::list},
      numberTypeSpec(),
      {"--limit", "CONFIGS", "configurations to try for each shape (default 60)"},
      {"--json", "FILE", "the measurements for programs; tools/plot_tuning draws them"},
  };
  command.run = tuneAction;
  return command;
}

} // namespace tilewright
