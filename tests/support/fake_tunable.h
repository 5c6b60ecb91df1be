#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "autotune/tunable.h"
#include "tests/support/fake_device.h"

namespace tilewright::test {

/// An operation with two blocks and a chunk to choose. Its time is known: it is least at a=64, b=3, and falls
/// as the chunk grows, while its workspace rises.
class FakeTunable : public Tunable, public Workload {
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
  std::vector<SearchStep> steps() override {
    return {{"blocks", {"a", "b"}, parted ? &part : nullptr}, {"chunk", {"chunk"}}};
  }
  Workload &whole() override { return *this; }
  Configuration heuristic() const override {
    return {{"a", int64_t(32)}, {"b", int64_t(2)}, {"chunk", int64_t(200)}};
  }
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

  Status compile(const Configuration &c) override {
    ++compiles[c.str()];
    return {};
  }

  static double blockMilliseconds(const Configuration &c) {
    const double a = static_cast<double>(*c.integer("a")), b = static_cast<double>(*c.integer("b"));
    return 2 + std::fabs(std::log2(a / 64)) + std::fabs(b - 3);
  }
  static double milliseconds(const Configuration &c) {
    return 8 + blockMilliseconds(c) + 200.0 / static_cast<double>(*c.integer("chunk"));
  }

  /// The blocks alone.
  struct Part final : Workload {
    explicit Part(FakeTunable &of) : tunable(of) {}
    Status compile(const Configuration &c) override {
      std::lock_guard<std::mutex> guard(mutex);
      ++compiles[c.str()];
      return broken == c.str() ? compileError("the fake compiler breaks") : Status();
    }
    Status check(const Configuration &c) override {
      if (checks++ == 0) compiledFirst = compiles.size();
      const auto found = wrong.find(c.str());
      return found == wrong.end() ? Status() : internalError(found->second);
    }
    Status prepare(const Configuration &) override {
      tunable.device_.clock = tunable.device_.clock + 1000; // must not be timed
      return {};
    }
    Status run(const Configuration &c) override {
      ++runs;
      tunable.device_.clock =
          tunable.device_.clock +
          tunable.slowness * (deceiving ? 20 - blockMilliseconds(c) : blockMilliseconds(c));
      return {};
    }

    FakeTunable &tunable;
    std::mutex mutex;
    std::map<std::string, int> compiles;
    std::map<std::string, std::string> wrong;
    std::string broken;            ///< the configuration that cannot be compiled
    std::size_t compiledFirst = 0; ///< before the first check
    int checks = 0, runs = 0;
    bool deceiving = false; ///< the best alone is the worst as a whole
  };

  int64_t rows = 1000;
  bool parted = false; ///< whether blocks are checked and timed alone
  Part part{*this};
  std::map<std::string, int> compiles;
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
