#include "autotune/tuner.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "autotune/standings.h"
#include "compiler/base/parallel.h"
#include "compiler/base/version.h"

namespace tilewright {
namespace {

/// Shares `limit` among steps: nobody gets more than it can use, and what one leaves goes to the others.
std::vector<int> shares(const std::vector<int> &wanted, int limit) {
  std::vector<int> given(wanted.size(), 0);
  for (bool progress = true; limit > 0 && progress;) {
    progress = false;
    for (std::size_t i = 0; i < wanted.size() && limit > 0; ++i)
      if (given[i] < wanted[i]) {
        ++given[i], --limit;
        progress = true;
      }
  }
  return given;
}

// The last race, whose figures are kept, takes so many times as long as others: long work, as on a CPU, has
// more turns than one.
constexpr double kFinalRaces = 3;

bool contains(const std::vector<Configuration> &all, const Configuration &one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

class Search {
public:
  Search(Tunable &tunable, const TunerOptions &options)
      : tunable_(tunable), options_(options), heuristic_(tunable.heuristic()), base_(heuristic_) {}

  StatusOr<TuningOutcome> run() {
    const std::vector<PlannedStep> steps = plan();
    if (!stopped()) begin();
    for (const PlannedStep &step : steps)
      if (!stopped()) step.part ? sweepPart(step) : sweepWhole(step);
    finish();
    if (standings_.all().empty()) return noneWorks();
    return std::move(outcome_);
  }

private:
  struct PlannedStep : SearchStep {
    int count = 0; ///< configurations to try beside the best so far
  };

  bool stopped() const { return options_.stop && options_.stop(); }

  // ---- Choosing candidates ---------------------------------------------------------------------------

  std::vector<PlannedStep> plan() {
    std::vector<PlannedStep> steps;
    std::vector<int> wanted;
    for (SearchStep &step : tunable_.steps()) {
      steps.push_back({std::move(step), 0});
      wanted.push_back(static_cast<int>(others(select(steps.back())).size()));
    }
    const std::vector<int> given = shares(wanted, std::max(0, options_.limit - 1));
    planned_ = 1;
    for (std::size_t i = 0; i < steps.size(); ++i)
      planned_ += steps[i].count = given[i];
    return steps;
  }

  CostModel::Selection select(const SearchStep &step) const {
    CostModel::Selection selection =
        tunable_.costModel().select(tunable_.space().combinations(base_, step.parameters));
    if (options_.workspaceLimit == 0) return selection;
    const auto tooLarge = [&](const Configuration &c) {
      return tunable_.workspaceBytes(c) > options_.workspaceLimit;
    };
    auto &kept = selection.kept;
    const auto end = std::remove_if(kept.begin(), kept.end(), tooLarge);
    if (end != kept.end())
      selection.pruned["needs more memory than the workspace limit"] += static_cast<int>(kept.end() - end);
    kept.erase(end, kept.end());
    return selection;
  }

  std::vector<Configuration> others(const CostModel::Selection &selection) const {
    std::vector<Configuration> others = selection.kept;
    others.erase(std::remove(others.begin(), others.end(), base_), others.end());
    return others;
  }

  /// The best so far, and what the step tries beside it.
  std::vector<Configuration> candidatesOf(const PlannedStep &step) {
    const CostModel::Selection selection = select(step);
    for (const auto &[reason, number] : selection.pruned)
      outcome_.pruned[reason] += number;
    std::vector<Configuration> candidates = others(selection);
    candidates.resize(std::min<std::size_t>(candidates.size(), step.count));
    candidates.insert(candidates.begin(), base_);
    return candidates;
  }

  // ---- Trying them -----------------------------------------------------------------------------------

  /// Makes the kernels of a part's candidates on all cores, before the first of them runs: they would disturb
  /// measurements, and one after the other they would take longer than these. Those that fail go to
  /// `failures`.
  std::vector<Configuration> compiled(Workload &part, const std::vector<Configuration> &candidates) {
    std::vector<Status> made(candidates.size());
    parallelFor(static_cast<int64_t>(candidates.size()), [&](int64_t i) {
      if (!stopped()) made[i] = part.compile(candidates[i]);
    });
    std::vector<Configuration> usable;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (made[i].ok()) {
        usable.push_back(candidates[i]);
        continue;
      }
      if (!(candidates[i] == base_)) tried_.push_back(candidates[i]);
      outcome_.failures.push_back({candidates[i], made[i].message()});
    }
    return usable;
  }

  /// Whether it computes the right result; a failure is recorded.
  bool admit(Workload &workload, const Configuration &configuration) {
    const Status status = workload.check(configuration);
    if (!status.ok()) outcome_.failures.push_back({configuration, status.message()});
    return status.ok();
  }

  /// The same, for a configuration that counts as tried.
  bool attempt(Workload &workload, const Configuration &configuration) {
    if (!contains(tried_, configuration)) tried_.push_back(configuration);
    const bool right = admit(workload, configuration);
    reportTried();
    return right;
  }

  static TimedWork timedWork(Workload &workload, const Configuration &configuration) {
    return {[&workload, configuration] { return workload.run(configuration); },
            [&workload, configuration] { return workload.prepare(configuration); },
            workload.workingSetBytes()};
  }

  /// Those that could be timed, by rising time.
  std::vector<MeasuredConfiguration> timed(Workload &workload, const std::vector<Configuration> &all,
                                           const MeasureOptions &measure) {
    std::vector<TimedWork> works;
    for (const Configuration &configuration : all)
      works.push_back(timedWork(workload, configuration));
    const auto timings = race(tunable_.device(), tunable_.stream(), works, measure, options_.stop);
    std::vector<MeasuredConfiguration> results;
    for (std::size_t i = 0; i < timings.size(); ++i) {
      if (timings[i].ok())
        results.push_back({all[i], timings[i]->milliseconds, timings[i]->repetitions,
                           tunable_.workspaceBytes(all[i]), timings[i]->spread, ""});
      else if (!stopped())
        outcome_.failures.push_back({all[i], timings[i].status().message()});
    }
    std::stable_sort(results.begin(), results.end(),
                     [](const auto &a, const auto &b) { return a.milliseconds < b.milliseconds; });
    return results;
  }

  void timeWhole(const std::vector<Configuration> &all, const MeasureOptions &measure) {
    standings_.add(timed(tunable_.whole(), all, measure));
    if (const MeasuredConfiguration *best = standings_.best()) bestText_ = best->configuration.str();
    reportTried();
  }

  // ---- The steps -------------------------------------------------------------------------------------

  void begin() {
    step_ = "untuned";
    if (!attempt(tunable_.whole(), heuristic_)) return;
    const TimedWork first = timedWork(tunable_.whole(), heuristic_);
    if (Status warm = warmUp(tunable_.device(), tunable_.stream(), first, options_.measure, options_.stop);
        !warm.ok())
      outcome_.failures.push_back({heuristic_, warm.message()});
    MeasureOptions once = options_.measure; // later races will repeat it
    once.repetitions = 1;
    timeWhole({heuristic_}, once);
  }

  void sweepPart(const PlannedStep &step) {
    step_ = step.name;
    partBest_ = 0;
    bestText_.clear();
    timingPart_ = true;
    reportTried();
    std::vector<Configuration> right;
    for (const Configuration &candidate : compiled(*step.part, candidatesOf(step))) {
      if (stopped()) break;
      // The best so far has been tried as a whole.
      if (candidate == base_ ? admit(*step.part, candidate) : attempt(*step.part, candidate))
        right.push_back(candidate);
    }
    const std::vector<MeasuredConfiguration> results = timed(*step.part, right, options_.measure);
    for (const MeasuredConfiguration &result : results)
      outcome_.record.parts.push_back({step.name, result.configuration.only(step.parameters),
                                       result.milliseconds, result.repetitions, result.spread, ""});
    if (!results.empty()) {
      partBest_ = results.front().milliseconds;
      bestText_ = results.front().configuration.only(step.parameters).str();
    }
    reportTried();
    timingPart_ = false;
    if (!results.empty() && !stopped() && isClearlyBest(results)) adopt(results.front().configuration);
  }

  /// Whether the first of these is faster than the best so far ever was in their race. What is less is not
  /// worth a run of the whole.
  bool isClearlyBest(const std::vector<MeasuredConfiguration> &results) const {
    for (const MeasuredConfiguration &result : results)
      if (result.configuration == base_) return results.front().milliseconds < result.spread.least;
    return true;
  }

  /// What is best for a part becomes the base if the whole, too, is right with it and not slower, up to what
  /// a short race can tell.
  void adopt(const Configuration &better) {
    constexpr double noise = 1.01;
    if (better == base_ || !admit(tunable_.whole(), better)) return;
    MeasureOptions brief = options_.measure;
    brief.repetitions = std::min(brief.repetitions, 2);
    std::vector<Configuration> racers = {better};
    if (standings_.find(base_)) racers.push_back(base_);
    timeWhole(racers, brief);
    const MeasuredConfiguration *before = standings_.find(base_), *now = standings_.find(better);
    if (now && (!before || now->milliseconds <= noise * before->milliseconds)) base_ = better;
  }

  void sweepWhole(const PlannedStep &step) {
    step_ = step.name;
    std::vector<Configuration> racers;
    for (const Configuration &candidate : candidatesOf(step)) {
      if (stopped()) break;
      if (candidate == base_ ? standings_.find(base_) != nullptr : attempt(tunable_.whole(), candidate))
        racers.push_back(candidate);
    }
    timeWhole(racers, options_.measure);
    if (standings_.best()) base_ = standings_.best()->configuration;
  }

  /// The frontier of those that raced last. The untuned configuration counts by its best turn, else chance
  /// would tell which of them is used. What is not faster than that comes after it, if it takes less memory.
  std::vector<MeasuredConfiguration> winnersOf(const std::vector<Configuration> &finalists) const {
    std::vector<MeasuredConfiguration> counted;
    for (const Configuration &finalist : finalists) {
      counted.push_back(*standings_.find(finalist));
      if (finalist == heuristic_) counted.back().milliseconds = counted.back().spread.least;
    }
    std::vector<MeasuredConfiguration> winners = frontier(std::move(counted));
    for (MeasuredConfiguration &winner : winners)
      winner = *standings_.find(winner.configuration);
    return winners;
  }

  void finish() {
    std::vector<Configuration> finalists;
    for (const MeasuredConfiguration &winner : frontier(standings_.all()))
      finalists.push_back(winner.configuration);
    if (standings_.find(heuristic_) && !contains(finalists, heuristic_)) finalists.push_back(heuristic_);
    step_ = "final";
    MeasureOptions all = options_.measure; // the slower ones of the frontier matter as much
    all.hopelessBeyond = all.dropBeyond = std::numeric_limits<double>::infinity();
    all.survivors = finalists.size();
    all.raceMilliseconds *= kFinalRaces;
    if (!stopped()) timeWhole(finalists, all);

    TuningRecord &record = outcome_.record;
    record.winners = winnersOf(finalists);
    const auto isWinner = [&](const MeasuredConfiguration &measured) {
      return std::any_of(record.winners.begin(), record.winners.end(),
                         [&](const auto &w) { return w.configuration == measured.configuration; });
    };
    std::copy_if(standings_.all().begin(), standings_.all().end(), std::back_inserter(record.measured),
                 [&](const auto &measured) { return !isWinner(measured); });
    const MeasuredConfiguration *untuned = standings_.find(heuristic_);
    record.heuristic =
        untuned ? *untuned : MeasuredConfiguration{heuristic_, 0, 0, tunable_.workspaceBytes(heuristic_)};
    record.key = tunable_.key();
    record.deviceName = tunable_.device().info().name;
    record.compiler = compilerVersion();
    record.complete = !stopped();
    record.limit = options_.limit;
    record.tried = static_cast<int64_t>(tried_.size());
    record.workspaceLimit = options_.workspaceLimit;
  }

  // ---- Reports ---------------------------------------------------------------------------------------

  Status noneWorks() const {
    if (outcome_.failures.empty()) return runtimeError("stopped before a configuration was measured");
    const TuningOutcome::Failure &first = outcome_.failures.front();
    return runtimeError("expected a configuration that works, found none among " +
                        std::to_string(tried_.size()) + "; the first, " + first.configuration.str() +
                        ", failed: " + first.cause);
  }

  void reportTried() const {
    const MeasuredConfiguration *best = standings_.best();
    const double milliseconds = timingPart_ ? partBest_ : best ? best->milliseconds : 0;
    report(static_cast<int>(tried_.size()), planned_, milliseconds);
  }

  void report(int done, int planned, double milliseconds) const {
    if (options_.progress)
      options_.progress({step_, done, planned, milliseconds, milliseconds > 0 ? bestText_ : ""});
  }

  Tunable &tunable_;
  const TunerOptions &options_;
  const Configuration heuristic_;
  Configuration base_; ///< the best so far
  std::string step_, bestText_;
  bool timingPart_ = false;
  double partBest_ = 0;
  int planned_ = 0;
  std::vector<Configuration> tried_;
  Standings standings_;
  TuningOutcome outcome_;
};

} // namespace

StatusOr<TuningOutcome> tune(Tunable &tunable, const TunerOptions &options) {
  return Search(tunable, options).run();
}

} // namespace tilewright
