#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>

#include "compiler/base/byte_text.h"
#include "tools/bench/bench.h"

namespace tilewright {
namespace {

constexpr double kSeconds = 10; // of measuring one problem

Status badGrid(const std::string &path, const std::string &found) {
  return userError("--grid " + path +
                   ": expected a JSON array of objects with \"model\", \"rows\", \"hidden\" and \"classes\", "
                   "found " +
                   found);
}

/// The sizes by the rules of `--shape`.
StatusOr<HeadProblem> readProblem(const std::string &path, const nlohmann::json &entry) {
  const auto isSize = [&](const char *key) {
    return entry.is_object() && entry.contains(key) && entry[key].is_number_integer();
  };
  if (!isSize("rows") || !isSize("hidden") || !isSize("classes") || !entry.contains("model") ||
      !entry["model"].is_string())
    return badGrid(path, entry.dump());
  HeadProblem problem{entry["model"], {}};
  TW_ASSIGN_OR_RETURN(problem.shape,
                      parseShape(fmt::format("{},{},{}", entry["rows"].dump(), entry["hidden"].dump(),
                                             entry["classes"].dump())));
  return problem;
}

/// Of the expected time, relative to the measured one.
double errorOf(const nlohmann::ordered_json &result) {
  return result["expected_ms"].get<double>() / result["times"][0]["ms"].get<double>() - 1;
}

void printRow(const std::string &model, const nlohmann::ordered_json &result) {
  fmt::print("{:16} {:>6} {:>6} {:>7}  {:>8.2f} ms", model, result["rows"].get<int64_t>(),
             result["hidden"].get<int64_t>(), result["classes"].get<int64_t>(),
             result["times"][0]["ms"].get<double>());
  if (result.contains("ratio"))
    fmt::print("  {:>8.2f} ms  {:.3f}", result["baseline_ms"].get<double>(), result["ratio"].get<double>());
  if (result.contains("expected_ms"))
    fmt::print("  {:>8.2f} ms {:+5.1f} %", result["expected_ms"].get<double>(), 100 * errorOf(result));
  fmt::print("  {:>9}  {}\n", byteText(result["workspace_bytes"].get<double>()),
             result["configuration"].get<std::string>());
  std::fflush(stdout);
}

/// Of the ratios to the baseline.
nlohmann::ordered_json summaryOf(const nlohmann::ordered_json &results) {
  double logs = 0, worst = 0;
  for (const auto &result : results) {
    const double ratio = result["ratio"];
    logs += std::log(ratio);
    worst = std::max(worst, ratio);
  }
  return {{"geometric_mean", std::exp(logs / static_cast<double>(results.size()))}, {"worst", worst}};
}

} // namespace

StatusOr<std::vector<HeadProblem>> readGrid(const std::string &path) {
  std::ifstream file(path);
  if (!file) return userError("--grid: expected a file to read, found none at " + path);
  const nlohmann::json grid = nlohmann::json::parse(file, nullptr, false);
  if (!grid.is_array() || grid.empty()) return badGrid(path, "none");
  std::vector<HeadProblem> problems;
  for (const nlohmann::json &entry : grid) {
    TW_ASSIGN_OR_RETURN(HeadProblem problem, readProblem(path, entry));
    problems.push_back(std::move(problem));
  }
  return problems;
}

Status benchGrid(Runtime &runtime, const std::vector<HeadProblem> &problems, const NumberType &type,
                 LinearBench what, const std::function<Status(const nlohmann::ordered_json &)> &save) {
  what.seconds = kSeconds;
  fmt::print("model                 N      H       V   tilewright{}     expected\n",
             what.baseline == Baseline::none ? "" : "     baseline  ratio");
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  Status failure;
  for (const HeadProblem &problem : problems) {
    StatusOr<nlohmann::ordered_json> result = measureLinear(runtime, problem.shape, type, what);
    if (!result.ok()) { // the others are worth their time
      fmt::print("{}: {}\n", problem.model, result.status().message());
      failure = result.status();
      continue;
    }
    (*result)["model"] = problem.model;
    printRow(problem.model, *result);
    results.push_back(std::move(*result));
    TW_RETURN_IF_ERROR(save({{"problems", results}}));
  }
  if (results.empty()) return failure;
  nlohmann::ordered_json all = {{"problems", results}};
  if (what.baseline != Baseline::none) {
    all["summary"] = summaryOf(results);
    fmt::print("{} problems: geometric mean {:.3f}, worst {:.3f}\n", results.size(),
               all["summary"]["geometric_mean"].get<double>(), all["summary"]["worst"].get<double>());
  }
  TW_RETURN_IF_ERROR(save(all));
  return failure;
}

} // namespace tilewright
