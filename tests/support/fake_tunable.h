#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "autotune/tunable.h"
#include "tests/support/fake_device.h"

namespace tilewright::test {

/// An operation with two blocks and a chunk to choose. Its time is known: it is least at a=64, b=3, and falls
/// as the chunk grows, while its workspace rises.
class FakeTunable : public Tunable {
public:
  explicit FakeTunable(FakeDevice &device) : device_(device) {
    space_.add("a", {int64_t(16), int64_t(32), int64_t(64), int64_t(128)});
    space_.add("b", {int64_t(1), int64_t(2), int64_t(3)});
    space_.add("chunk", {int64_t(100), int64_t(200), int64_t(400)});
    model_.prune("a is too large", [](const Configuration &c) { return *c.integer("a") > 64; });
  }

  TuningKey key() const override {
    return {device_.info().fingerprint, "fake", {{"rows", sizeBucket(rows)}, {"type", "f32"}}};
  }
  Device &device() const override { return device_; }
  Stream stream() const override { return nullptr; }
  const SearchSpace &space() const override { return space_; }
  const CostModel &costModel() const override { return model_; }
  std::vector<SearchStep> steps() const override { return {{"blocks", {"a", "b"}}, {"chunk", {"chunk"}}}; }
  Configuration heuristic() const override {
    return {{"a", int64_t(32)}, {"b", int64_t(2)}, {"chunk", int64_t(200)}};
  }
  std::vector<Configuration> starts() const override { return begin; }
  int64_t workspaceBytes(const Configuration &c) const override { return 1000 * *c.integer("chunk"); }

  Status check(const Configuration &c) override {
    ++checks;
    const auto found = wrong.find(c.str());
    return found == wrong.end() ? Status() : internalError(found->second);
  }
  Status run(const Configuration &c) override {
    ++runs;
    if (whileRunning) whileRunning();
    device_.clock = device_.clock + slowness * milliseconds(c);
    return {};
  }

  static double milliseconds(const Configuration &c) {
    const double a = static_cast<double>(*c.integer("a")), b = static_cast<double>(*c.integer("b"));
    return 10 + std::fabs(std::log2(a / 64)) + std::fabs(b - 3) +
           200.0 / static_cast<double>(*c.integer("chunk"));
  }

  int64_t rows = 1000;
  std::vector<Configuration> begin; ///< what `starts` returns
  int checks = 0, runs = 0;
  double slowness = 1;
  std::map<std::string, std::string> wrong; ///< configurations that fail their check, and why
  std::function<void()> whileRunning;

private:
  FakeDevice &device_;
  SearchSpace space_;
  CostModel model_;
};

} // namespace tilewright::test
