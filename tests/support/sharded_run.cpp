#include "tests/support/sharded_run.h"

#include <algorithm>
#include <numeric>
#include <regex>

#include <gtest/gtest.h>

#include "kernels/sharded_linear_cross_entropy.h"
#include "tests/support/loss_tensors.h"

namespace tilewright::test {
namespace {

template <typename T>
std::vector<T> cut(const std::vector<T> &values, int64_t first, int64_t count, int64_t width) {
  if (values.empty()) return {};
  return {values.begin() + first * width, values.begin() + (first + count) * width};
}

/// A rank's part of a case. Class weights are those of all classes.
LossCase shardOf(const LossCase &data, int64_t first, int64_t count) {
  LossCase shard = data;
  shard.classes = count;
  shard.w = cut(data.w, first, count, data.hidden);
  shard.bias = cut(data.bias, first, count, 1);
  shard.dWeightBefore = cut(data.dWeightBefore, first, count, data.hidden);
  shard.dBiasBefore = cut(data.dBiasBefore, first, count, 1);
  return shard;
}

/// A rank's tensors, of fused and of separate calls.
struct Rank {
  VocabularyShard shard;
  LossCase data;
  CommonTensors common;
  GradientTensors gradients;
  DeviceTensor x, w, bias, savedLse;

  Rank(Device &device, const LossCase &all, const LossCall &call, const VocabularyShard &place,
       int64_t classes)
      : shard(place), data(shardOf(all, place.first, classes)), common(device, data, call),
        gradients(device, data, call),
        x(DeviceTensor::matrix(device, data.element, data.rows, data.hidden, data.x, call.gap)),
        w(DeviceTensor::matrix(device, data.element, data.classes, data.hidden, data.w, call.gap)),
        bias(givenVector(device, data.element, data.bias)),
        savedLse(poisonedVector(device, ElementType::f32, data.rows)) {}

  LinearCrossEntropyTensors fused() const {
    LinearCrossEntropyTensors t = tensorsOf(common, gradients);
    t.hidden = x, t.weight = w, t.bias = bias;
    return t;
  }
  LinearCrossEntropyTensors forward() const {
    LinearCrossEntropyTensors t = fused();
    t.dHidden = t.dWeight = t.dBias = t.gradOutput = t.gradLse = t.gradEntropy = {};
    if (!t.lse.data) t.lse = savedLse;
    return t;
  }
  LinearCrossEntropyTensors backward() const {
    LinearCrossEntropyTensors t = fused();
    t.loss = t.lse = t.entropy = t.argmax = t.correct = t.monitored = {};
    t.savedLse = forward().lse;
    return t;
  }
};

/// One rank's run.
struct Run {
  LinearCrossEntropyTensors tensors;
  PreparedShardedLinearCrossEntropy call;
  Buffer workspace;
  CallStatus status;
  DeviceTensor stats[2], gathered[2];

  CallMemory memory() const { return {workspace.data(), call.workspaceBytes(), status}; }
  ShardExchange exchange(int64_t chunk) const {
    return {static_cast<float *>(stats[chunk % 2].ref().data),
            static_cast<float *>(gathered[chunk % 2].ref().data)};
  }
};

StatusOr<Run> prepareRun(Runtime &runtime, const Rank &rank, const LinearCrossEntropyTensors &tensors,
                         LinearCrossEntropyOptions options, CallPass pass, int64_t chunkRows) {
  const auto prepare = [&] {
    return PreparedShardedLinearCrossEntropy::prepare(runtime, tensors, options, rank.shard, pass);
  };
  auto call = prepare();
  if (call.ok() && chunkRows > 0) {
    options.configuration = std::regex_replace(call->configuration(), std::regex("chunk_rows=\\d+"),
                                               "chunk_rows=" + std::to_string(chunkRows));
    options.configuration =
        std::regex_replace(options.configuration, std::regex("variant=whole"), "variant=chunked");
    call = prepare();
  }
  TW_RETURN_IF_ERROR(call.status());
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(Buffer workspace, device.allocate(call->workspaceBytes(), nullptr));
  TW_RETURN_IF_ERROR(device.fill(workspace.data(), 0xFF, call->workspaceBytes(), nullptr));
  TW_ASSIGN_OR_RETURN(CallStatus status, CallStatus::allocate(device));
  Run run{tensors, *call, std::move(workspace), status, {}, {}};
  const int64_t numbers = call->facts() * call->chunkRows();
  for (int i = 0; i < 2; ++i) {
    run.stats[i] = poisonedVector(device, ElementType::f32, numbers);
    run.gathered[i] = poisonedVector(device, ElementType::f32, numbers * rank.shard.ranks);
  }
  return run;
}

void gather(std::vector<Run> &runs, int64_t chunk) {
  std::vector<double> all;
  for (const Run &run : runs) {
    const std::vector<double> mine = run.stats[chunk % 2].get();
    all.insert(all.end(), mine.begin(), mine.end());
  }
  for (Run &run : runs)
    run.gathered[chunk % 2].set(all);
}

/// The chunks of all ranks, one rank after the other as far as they need not wait.
Status runChunks(std::vector<Run> &runs) {
  const int64_t chunks = runs[0].call.chunks();
  const bool ahead = runs[0].call.chunkBuffers() > 1;
  const auto stats = [&](int64_t chunk) -> Status {
    for (const Run &run : runs)
      TW_RETURN_IF_ERROR(run.call.stats(run.tensors, chunk, run.exchange(chunk), run.memory(), nullptr));
    gather(runs, chunk);
    return {};
  };
  if (ahead) TW_RETURN_IF_ERROR(stats(0));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (!ahead) TW_RETURN_IF_ERROR(stats(chunk));
    if (ahead && chunk + 1 < chunks) TW_RETURN_IF_ERROR(stats(chunk + 1));
    for (const Run &run : runs) {
      TW_RETURN_IF_ERROR(run.call.merge(run.tensors, chunk, run.exchange(chunk), run.memory(), nullptr));
      TW_RETURN_IF_ERROR(run.call.dHidden(run.tensors, chunk, run.memory(), nullptr));
      TW_RETURN_IF_ERROR(run.call.dWeight(run.tensors, chunk, run.memory(), nullptr));
    }
  }
  return {};
}

Status runAll(Runtime &runtime, std::vector<Run> &runs) {
  for (const Run &run : runs)
    TW_RETURN_IF_ERROR(run.call.begin(run.tensors, run.memory(), nullptr));
  TW_RETURN_IF_ERROR(runChunks(runs));
  for (const Run &run : runs)
    TW_RETURN_IF_ERROR(run.call.finish(run.tensors, run.memory(), nullptr));
  TW_RETURN_IF_ERROR(runtime.device().synchronize(nullptr));
  for (const Run &run : runs)
    TW_RETURN_IF_ERROR(run.status.error());
  return {};
}

Status runPass(Runtime &runtime, const std::vector<Rank> &ranks, const LossCall &call, CallPass pass,
               LinearCrossEntropyTensors (Rank::*tensors)() const, const Sharding &sharding,
               ShardedResult &result) {
  std::vector<Run> runs;
  for (const Rank &rank : ranks) {
    TW_ASSIGN_OR_RETURN(Run run, prepareRun(runtime, rank, (rank.*tensors)(), optionsOf(rank.data, call),
                                            pass, sharding.chunkRows));
    runs.push_back(std::move(run));
  }
  result.schedules.clear();
  for (const Run &run : runs)
    result.schedules.push_back(run.call.schedule());
  result.chunks = runs[0].call.chunks(), result.chunkBuffers = runs[0].call.chunkBuffers();
  return runAll(runtime, runs);
}

void append(std::vector<double> &all, const std::vector<double> &part) {
  all.insert(all.end(), part.begin(), part.end());
}

void collectResults(const std::vector<Rank> &ranks, ShardedResult &result) {
  for (const Rank &rank : ranks) {
    LossResult mine;
    collectCommon(mine, rank.common); // whose bits are to be the same on all ranks
    const std::vector<uint8_t> bits = mine.bits;
    collect(mine, mine.dHidden, rank.gradients.hidden);
    collect(mine, mine.dWeight, rank.gradients.weight);
    collect(mine, mine.dBias, rank.gradients.bias);
    mine.bits = bits;
    result.ranks.push_back(mine);
  }
  result.whole = result.ranks[0];
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const LossResult &mine = result.ranks[r];
    std::transform(mine.dHidden.begin(), mine.dHidden.end(), result.whole.dHidden.begin(),
                   result.whole.dHidden.begin(), std::plus<double>());
    append(result.whole.dWeight, mine.dWeight);
    append(result.whole.dBias, mine.dBias);
    result.whole.gapsUntouched = result.whole.gapsUntouched && mine.gapsUntouched;
  }
}

} // namespace

std::string Sharding::str() const {
  std::string text = "classes";
  for (const int64_t size : sizes)
    text += " " + std::to_string(size);
  return text + (chunkRows ? ", chunks of " + std::to_string(chunkRows) : "");
}

std::vector<int64_t> evenSizes(int64_t classes, int64_t ranks) {
  std::vector<int64_t> sizes;
  for (int64_t r = 0; r < ranks; ++r)
    sizes.push_back(classes * (r + 1) / ranks - classes * r / ranks);
  return sizes;
}

ShardedResult runSharded(Runtime &runtime, const LossCase &data, const LossCall &call,
                         const Sharding &sharding) {
  std::vector<Rank> ranks;
  VocabularyShard shard;
  shard.all = data.classes, shard.ranks = static_cast<int64_t>(sharding.sizes.size());
  shard.widest = *std::max_element(sharding.sizes.begin(), sharding.sizes.end());
  for (const int64_t classes : sharding.sizes) {
    ranks.emplace_back(runtime.device(), data, call, shard, classes);
    shard.first += classes, ++shard.rank;
  }
  EXPECT_EQ(shard.first, data.classes);
  ShardedResult result;
  const bool gradients = call.wantsDHidden || call.wantsDWeight || (call.wantsDBias && !data.bias.empty());
  Status status;
  if (!call.apart) {
    status = runPass(runtime, ranks, call, CallPass::fused, &Rank::fused, sharding, result);
  } else {
    LossCall forward = call;
    forward.accumulate = false;
    status = runPass(runtime, ranks, forward, CallPass::fused, &Rank::forward, sharding, result);
    if (status.ok() && gradients)
      status = runPass(runtime, ranks, call, CallPass::backward, &Rank::backward, sharding, result);
  }
  collectResults(ranks, result);
  result.whole.status = status;
  return result;
}

} // namespace tilewright::test
