#include "autotune/tuner.h"

#include <algorithm>
#include <iterator>
#include <limits>

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

class Search {
public:
  Search(Tunable &tunable, const TunerOptions &options) : tunable_(tunable), options_(options) {}

  StatusOr<TuningOutcome> run() {
    const Configuration heuristic = tunable_.heuristic();
    const std::vector<SearchStep> steps = tunable_.steps();
    base_ = heuristic;
    std::vector<int> wanted;
    for (const SearchStep &step : steps) {
      const std::vector<Configuration> kept = select(step).kept;
      wanted.push_back(static_cast<int>(kept.size() - std::count(kept.begin(), kept.end(), heuristic)));
    }
    std::vector<Configuration> starts = allowed(tunable_.costModel().select(tunable_.starts())).kept;
    starts.erase(std::remove(starts.begin(), starts.end(), heuristic), starts.end());
    starts.resize(std::min<std::size_t>(starts.size(), std::max(0, (options_.limit - 1) / 2)));
    planned_ = 1 + static_cast<int>(starts.size());
    const std::vector<int> given = shares(wanted, std::max(0, options_.limit - planned_));
    for (int count : given)
      planned_ += count;

    step_ = "heuristic";
    if (admit(heuristic)) {
      if (Status warm =
              warmUp(tunable_.device(), tunable_.stream(), work(heuristic), options_.measure, options_.stop);
          !warm.ok())
        outcome_.failures.push_back({heuristic, warm.message()});
      MeasureOptions once = options_.measure; // the first step's race will repeat it
      once.repetitions = 1;
      timeAll({heuristic}, once);
    }
    step_ = "start";
    if (!stopped()) tryAll(starts, static_cast<int>(starts.size()));
    for (std::size_t i = 0; i < steps.size() && !stopped(); ++i)
      sweep(steps[i], given[i]);
    finish(heuristic);
    if (measured_.empty()) return noneWorks();
    return std::move(outcome_);
  }

private:
  bool stopped() const { return options_.stop && options_.stop(); }
  Contestant work(const Configuration &configuration) {
    return [this, configuration] { return tunable_.run(configuration); };
  }

  CostModel::Selection select(const SearchStep &step) const {
    return allowed(tunable_.costModel().select(tunable_.space().combinations(base_, step.parameters)));
  }

  /// What remains of a selection under the workspace limit.
  CostModel::Selection allowed(CostModel::Selection selection) const {
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

  bool wasTried(const Configuration &configuration) const {
    return std::find(tried_.begin(), tried_.end(), configuration) != tried_.end();
  }

  /// Whether it computes the right result; a failure is recorded.
  bool admit(const Configuration &configuration) {
    tried_.push_back(configuration);
    const Status status = tunable_.check(configuration);
    if (!status.ok()) outcome_.failures.push_back({configuration, status.message()});
    report();
    return status.ok();
  }

  void sweep(const SearchStep &step, int count) {
    step_ = step.name;
    CostModel::Selection selection = select(step);
    for (const auto &[reason, number] : selection.pruned)
      outcome_.pruned[reason] += number;
    tryAll(selection.kept, count);
  }

  /// Checks at most `count` candidates that are new, and lets them race with the best so far.
  void tryAll(const std::vector<Configuration> &candidates, int count) {
    std::vector<Configuration> contestants;
    if (best()) contestants.push_back(best()->configuration);
    for (const Configuration &candidate : candidates) {
      if (count == 0 || stopped()) break;
      if (wasTried(candidate)) continue;
      --count;
      if (admit(candidate)) contestants.push_back(candidate);
    }
    timeAll(contestants, options_.measure);
    if (best()) base_ = best()->configuration;
  }

  void timeAll(const std::vector<Configuration> &configurations, const MeasureOptions &measure) {
    std::vector<Contestant> contestants;
    for (const Configuration &configuration : configurations)
      contestants.push_back(work(configuration));
    const auto timings = race(tunable_.device(), tunable_.stream(), contestants, measure, options_.stop);
    followClock(configurations, timings);
    for (std::size_t i = 0; i < timings.size(); ++i) {
      if (timings[i].ok())
        remember({configurations[i], timings[i]->milliseconds, timings[i]->repetitions,
                  tunable_.workspaceBytes(configurations[i])});
      else if (!stopped())
        outcome_.failures.push_back({configurations[i], timings[i].status().message()});
    }
    report();
  }

  /// A device may be slower now than it was in an earlier race. Who ran in both says by how much; all earlier
  /// times are scaled by that, so that they compare with the latest ones.
  void followClock(const std::vector<Configuration> &configurations,
                   const std::vector<StatusOr<Timing>> &timings) {
    std::vector<double> drifts;
    for (std::size_t i = 0; i < timings.size(); ++i)
      if (const MeasuredConfiguration *before = known(configurations[i]);
          before && timings[i].ok() && before->milliseconds > 0)
        drifts.push_back(timings[i]->milliseconds / before->milliseconds);
    if (drifts.empty()) return;
    for (MeasuredConfiguration &earlier : measured_)
      earlier.milliseconds *= median(drifts);
  }

  const MeasuredConfiguration *known(const Configuration &configuration) const {
    for (const MeasuredConfiguration &measured : measured_)
      if (measured.configuration == configuration) return &measured;
    return nullptr;
  }

  void remember(MeasuredConfiguration measured) {
    if (const MeasuredConfiguration *before = known(measured.configuration))
      measured_[before - measured_.data()] = std::move(measured);
    else
      measured_.push_back(std::move(measured));
  }

  const MeasuredConfiguration *best() const {
    const auto fastest =
        std::min_element(measured_.begin(), measured_.end(),
                         [](const auto &a, const auto &b) { return a.milliseconds < b.milliseconds; });
    return fastest == measured_.end() ? nullptr : &*fastest;
  }

  void finish(const Configuration &heuristic) {
    std::vector<Configuration> finalists;
    for (const MeasuredConfiguration &winner : frontier(measured_))
      finalists.push_back(winner.configuration);
    if (known(heuristic) && std::find(finalists.begin(), finalists.end(), heuristic) == finalists.end())
      finalists.push_back(heuristic);
    step_ = "final";
    MeasureOptions all = options_.measure; // the slower ones of the frontier matter as much
    all.dropBeyond = std::numeric_limits<double>::infinity();
    all.survivors = finalists.size();
    if (!stopped()) timeAll(finalists, all);

    std::vector<MeasuredConfiguration> timedInTurn;
    for (const Configuration &finalist : finalists)
      timedInTurn.push_back(*known(finalist));
    TuningRecord &record = outcome_.record;
    record.winners = frontier(timedInTurn);
    const auto isWinner = [&](const MeasuredConfiguration &measured) {
      return std::any_of(record.winners.begin(), record.winners.end(),
                         [&](const auto &w) { return w.configuration == measured.configuration; });
    };
    std::copy_if(measured_.begin(), measured_.end(), std::back_inserter(record.measured),
                 [&](const auto &measured) { return !isWinner(measured); });
    record.heuristic = known(heuristic)
                           ? *known(heuristic)
                           : MeasuredConfiguration{heuristic, 0, 0, tunable_.workspaceBytes(heuristic)};
    record.key = tunable_.key();
    record.deviceName = tunable_.device().info().name;
    record.compiler = compilerVersion();
    record.complete = !stopped();
    record.limit = options_.limit;
    record.workspaceLimit = options_.workspaceLimit;
  }

  Status noneWorks() const {
    if (outcome_.failures.empty()) return runtimeError("stopped before a configuration was measured");
    const TuningOutcome::Failure &first = outcome_.failures.front();
    return runtimeError("expected a configuration that works, found none among " +
                        std::to_string(tried_.size()) + "; the first, " + first.configuration.str() +
                        ", failed: " + first.cause);
  }

  void report() const {
    if (!options_.progress) return;
    TuningProgress progress{step_, static_cast<int>(tried_.size()), planned_, {}};
    if (best()) progress.best = *best();
    options_.progress(progress);
  }

  Tunable &tunable_;
  const TunerOptions &options_;
  Configuration base_;
  std::string step_;
  int planned_ = 0;
  std::vector<Configuration> tried_;
  std::vector<MeasuredConfiguration> measured_;
  TuningOutcome outcome_;
};

} // namespace

StatusOr<TuningOutcome> tune(Tunable &tunable, const TunerOptions &options) {
  return Search(tunable, options).run();
}

} // namespace tilewright
