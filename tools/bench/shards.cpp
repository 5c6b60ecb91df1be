#include <algorithm>

#include <fmt/format.h>

#include "compiler/base/byte_text.h"
#include "compiler/base/integers.h"
#include "kernels/sharded_linear_cross_entropy.h"
#include "tools/bench/accuracy.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr double kSeconds = 16; // of measuring one shape
constexpr int64_t kSamples = 8;

/// All ranks of a group, one after the other on one device. What they tell each other is written to where it
/// is gathered, so that nothing but their computation takes time.
class Group {
public:
  static StatusOr<Group> make(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options, int64_t ranks) {
    Group group(runtime.device(), tensors);
    const int64_t all = tensors.weight.sizes[0];
    for (int64_t r = 0; r < ranks; ++r) {
      const int64_t first = all * r / ranks, classes = all * (r + 1) / ranks - first;
      TW_RETURN_IF_ERROR(group.add(runtime, options, {all, first, r, ranks, ceilDiv(all, ranks)}, classes));
    }
    const auto &call = group.ranks_[0].call;
    group.told_ = call.facts() * call.chunkRows();
    const int64_t bytes = 2 * ranks * group.told_ * static_cast<int64_t>(sizeof(float));
    TW_ASSIGN_OR_RETURN(group.gathered_, runtime.device().allocate(bytes, nullptr));
    return group;
  }

  int64_t ranks() const { return static_cast<int64_t>(ranks_.size()); }
  int64_t chunks() const { return ranks_[0].call.chunks(); }
  int64_t facts() const { return ranks_[0].call.facts(); }
  int64_t workspaceBytes() const { return ranks_[0].call.workspaceBytes(); } ///< of the first rank
  const std::string &description() const { return ranks_[0].call.description(); }

  Status run() const {
    for (const Rank &rank : ranks_)
      TW_RETURN_IF_ERROR(rank.call.begin(rank.tensors, rank.memory(), nullptr));
    const bool ahead = ranks_[0].call.chunkBuffers() > 1;
    if (ahead) TW_RETURN_IF_ERROR(stats(0));
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
      if (const int64_t next = chunk + (ahead ? 1 : 0); next < chunks()) TW_RETURN_IF_ERROR(stats(next));
      TW_RETURN_IF_ERROR(gradients(chunk));
    }
    for (const Rank &rank : ranks_)
      TW_RETURN_IF_ERROR(rank.call.finish(rank.tensors, rank.memory(), nullptr));
    return {};
  }

  /// What all ranks computed together: dX is the sum of their parts.
  StatusOr<SampledOutputs> outputs() const {
    TW_ASSIGN_OR_RETURN(SampledOutputs outputs, downloadSamples(device_, all_, kSamples));
    std::fill(outputs.dHidden.begin(), outputs.dHidden.end(), 0.0f);
    for (const Rank &rank : ranks_) {
      TW_ASSIGN_OR_RETURN(const std::vector<float> part,
                          downloadSamples(device_, rank.tensors.dHidden, kSamples));
      std::transform(part.begin(), part.end(), outputs.dHidden.begin(), outputs.dHidden.begin(),
                     std::plus<float>());
    }
    return outputs;
  }

private:
  struct Rank {
    LinearCrossEntropyTensors tensors;
    PreparedShardedLinearCrossEntropy call;
    Buffer workspace;
    OwnedTensor dHidden;
    CallMemory memory() const { return {workspace.data(), call.workspaceBytes(), {}}; }
  };

  Group(Device &device, const LinearCrossEntropyTensors &tensors) : device_(device), all_(tensors) {}

  Status add(Runtime &runtime, const LinearCrossEntropyOptions &options, const VocabularyShard &shard,
             int64_t classes) {
    LinearCrossEntropyTensors t = all_;
    t.weight = t.weight.rows(shard.first, classes), t.dWeight = t.dWeight.rows(shard.first, classes);
    OwnedTensor part;
    TW_ASSIGN_OR_RETURN(part,
                        allocateTensor(device_, t.dHidden.element, {t.dHidden.sizes[0], t.dHidden.sizes[1]}));
    t.dHidden = part.ref;
    TW_ASSIGN_OR_RETURN(const auto call,
                        PreparedShardedLinearCrossEntropy::prepare(runtime, t, options, shard));
    TW_ASSIGN_OR_RETURN(Buffer workspace, device_.allocate(call.workspaceBytes(), nullptr));
    ranks_.push_back({t, call, std::move(workspace), std::move(part)});
    return {};
  }

  ShardExchange exchangeOf(int64_t rank, int64_t chunk) const {
    float *all = static_cast<float *>(gathered_.data()) + chunk % 2 * ranks() * told_;
    return {all + rank * told_, all};
  }

  Status stats(int64_t chunk) const {
    for (int64_t r = 0; r < ranks(); ++r)
      TW_RETURN_IF_ERROR(
          ranks_[r].call.stats(ranks_[r].tensors, chunk, exchangeOf(r, chunk), ranks_[r].memory(), nullptr));
    return {};
  }

  Status gradients(int64_t chunk) const {
    for (int64_t r = 0; r < ranks(); ++r) {
      const Rank &rank = ranks_[r];
      TW_RETURN_IF_ERROR(rank.call.merge(rank.tensors, chunk, exchangeOf(r, chunk), rank.memory(), nullptr));
      TW_RETURN_IF_ERROR(rank.call.dHidden(rank.tensors, chunk, rank.memory(), nullptr));
      TW_RETURN_IF_ERROR(rank.call.dWeight(rank.tensors, chunk, rank.memory(), nullptr));
    }
    return {};
  }

  Device &device_;
  LinearCrossEntropyTensors all_;
  std::vector<Rank> ranks_;
  int64_t told_ = 0;
  Buffer gathered_;
};

void print(const nlohmann::ordered_json &result) {
  fmt::print("linear + cross entropy, classes in shards, one after the other: N {}, H {}, V {}, {}\n",
             result["rows"].get<int64_t>(), result["hidden"].get<int64_t>(), result["classes"].get<int64_t>(),
             result["dtype"].get<std::string>());
  Table table({"", "ms", "ratio", "workspace of one"});
  for (const auto &time : result["times"])
    table.add({time["name"], fmt::format("{:.4g}", time["ms"].get<double>()),
               fmt::format("{:.3f}", time["ratio"].get<double>()),
               byteText(time["workspace_bytes"].get<double>())});
  fmt::print("{}  {}\n", table.str(), result["method"].get<std::string>());
  for (const auto &time : result["times"])
    fmt::print("  {}: {}; errors against float64: {}\n", time["name"].get<std::string>(),
               time["configuration"].get<std::string>(), time["errors"].get<std::string>());
}

} // namespace

namespace {

/// What is measured, once its result was found right.
class ShardBench {
public:
  ShardBench(Runtime &runtime, const LinearProblem &problem, const NumberType &type,
             const LinearProblemTensors &tensors, const LinearBench &what)
      : runtime_(runtime), problem_(problem), type_(type), tensors_(tensors) {
    options_.tf32 = type.tf32;
    options_.workspaceLimit = what.workspaceLimit;
  }

  Status addWhole() {
    const auto run = [this]() -> Status {
      TW_ASSIGN_OR_RETURN(report_, linearCrossEntropy(runtime_, tensors_.refs(), options_, nullptr));
      return {};
    };
    TW_RETURN_IF_ERROR(run());
    TW_ASSIGN_OR_RETURN(const SampledOutputs outputs,
                        downloadSamples(runtime_.device(), tensors_.refs(), kSamples));
    return add("all classes", run, outputs,
               {{"shards", 0},
                {"workspace_bytes", report_.workspaceBytes},
                {"configuration", report_.configuration}});
  }

  Status addShards(int64_t count) {
    TW_ASSIGN_OR_RETURN(Group made, Group::make(runtime_, tensors_.refs(), options_, count));
    groups_.push_back(std::make_unique<Group>(std::move(made)));
    const Group &group = *groups_.back();
    for (const OwnedTensor *output : {&tensors_.lse, &tensors_.dWeight}) {
      const TensorRef &t = output->ref;
      TW_RETURN_IF_ERROR(
          runtime_.device().fill(t.data, 0xFF, t.elements() * elementBytes(t.element), nullptr));
    }
    TW_RETURN_IF_ERROR(group.run());
    TW_ASSIGN_OR_RETURN(const SampledOutputs outputs, group.outputs());
    return add(fmt::format("{} shards", count), [&group] { return group.run(); }, outputs,
               {{"shards", count},
                {"chunks", group.chunks()},
                {"facts", group.facts()},
                {"workspace_bytes", group.workspaceBytes()},
                {"configuration", group.description()}});
  }

  /// Adds times to the result, and how they were taken.
  Status measure(nlohmann::ordered_json &result) const {
    TW_ASSIGN_OR_RETURN(const BenchmarkResult times, benchmark(runtime_.device(), cases_, kSeconds));
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      nlohmann::ordered_json row = rows_[i];
      row["ms"] = times.median[i];
      row["ratio"] = times.median[i] / times.median[0];
      result["times"].push_back(std::move(row));
    }
    result["method"] = times.method();
    return {};
  }

private:
  Status add(const std::string &name, std::function<Status()> run, const SampledOutputs &outputs,
             nlohmann::ordered_json row) {
    TW_ASSIGN_OR_RETURN(const LossErrors errors, sampledErrors(problem_, outputs));
    TW_RETURN_IF_ERROR(checkErrors(errors, type_, problem_.shape.hidden));
    row["name"] = name;
    row["errors"] = errors.str();
    rows_.push_back(std::move(row));
    cases_.push_back({name, std::move(run)});
    return {};
  }

  Runtime &runtime_;
  const LinearProblem &problem_;
  const NumberType &type_;
  const LinearProblemTensors &tensors_;
  LinearCrossEntropyOptions options_;
  LossReport report_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<BenchmarkCase> cases_;
  std::vector<nlohmann::ordered_json> rows_;
};

} // namespace

StatusOr<nlohmann::ordered_json> benchShards(Runtime &runtime, const ProblemShape &shape,
                                             const NumberType &type, const LinearBench &what,
                                             const std::vector<int64_t> &ranks) {
  Device &device = runtime.device();
  const int64_t most = *std::max_element(ranks.begin(), ranks.end());
  if (most > shape.classes)
    return userError(fmt::format("expected --shards of at least one class each, found {} of {} classes", most,
                                 shape.classes));
  const double parts = static_cast<double>(most) * static_cast<double>(shape.rows) *
                       static_cast<double>(shape.hidden * elementBytes(type.element));
  TW_RETURN_IF_ERROR(checkFits(linearBytes(shape, type.element) + parts, device));
  const LinearProblem problem =
      what.peaked ? peakedProblem(shape, type.element, 1) : randomProblem(shape, type.element, 1);
  TW_ASSIGN_OR_RETURN(const LinearProblemTensors tensors,
                      uploadProblem(device, problem, what.wideWeightGradient));
  ShardBench bench(runtime, problem, type, tensors, what);
  TW_RETURN_IF_ERROR(bench.addWhole());
  for (const int64_t count : ranks)
    TW_RETURN_IF_ERROR(bench.addShards(count));
  nlohmann::ordered_json result = {
      {"loss", "linear_cross_entropy"}, {"device", device.info().name}, {"rows", shape.rows},
      {"hidden", shape.hidden},         {"classes", shape.classes},     {"dtype", type.name()}};
  TW_RETURN_IF_ERROR(bench.measure(result));
  print(result);
  return result;
}

} // namespace tilewright
