#include "kernels/sharded_linear_cross_entropy.h"

#include <algorithm>

#include "kernels/lce/configuration_text.h"
#include "kernels/lce/plan.h"
#include "kernels/lce/shard_kernels.h"
#include "kernels/lce/tensors.h"

namespace tilewright {
namespace {

using namespace lce;

/// As the rank with the most classes would ask that wants all gradients: what all ranks plan for, whichever
/// of them they want. The types of those that this rank does not want are as those that it does.
Request widestOf(Request request) {
  request.classes = request.shard.widest;
  request.shard.first = request.shard.rank = 0;
  if (!request.wantsGradients()) return request;
  const std::optional<ElementType> wanted = request.dHidden ? request.dHidden : request.dWeight;
  const ElementType type = wanted.value_or(request.element);
  if (!request.dHidden) request.dHidden = type;
  if (!request.dWeight) request.dWeight = type;
  if (!request.dBias && request.terms.bias)
    request.dBias = type == ElementType::f32 ? type : request.terms.bias;
  return request;
}

/// A shard's call, in the configuration that all ranks have.
struct ShardPlan {
  Request request;
  Config config;
};

/// For two chunks at work at the same time or, where the limit leaves no room for those, for one.
StatusOr<Config> planFor(Request &request, const LinearCrossEntropyOptions &options,
                         const DeviceInfo &device) {
  request.shardBuffers = 2;
  StatusOr<Config> config = pinnedOrPlanned(widestOf(request), options, device);
  if (config.ok() || options.workspaceLimit == 0) return config;
  request.shardBuffers = 1;
  return pinnedOrPlanned(widestOf(request), options, device);
}

StatusOr<ShardPlan> planShard(const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options, const VocabularyShard &shard,
                              CallPass pass, const DeviceInfo &device) {
  if (shard.all < 1)
    return userError("a shard needs the number of all ranks' classes, found " + std::to_string(shard.all));
  ShardPlan plan;
  TW_ASSIGN_OR_RETURN(plan.request, requestFor(tensors, options, device, pass, shard));
  TW_ASSIGN_OR_RETURN(plan.config, planFor(plan.request, options, device));
  if (plan.config.variant == Variant::recompute)
    return userError("the configuration of the variant recompute is not one of a shard");
  return plan;
}

/// The same for the rank itself: without dW there is none to add up in.
Config configOfRank(const ShardPlan &plan) {
  Config config = plan.config;
  if (!plan.request.dWeight) config.inPlace = false;
  return config;
}

} // namespace

StatusOr<Program> lce::plannedShardProgram(const LinearCrossEntropyTensors &tensors,
                                           const LinearCrossEntropyOptions &options,
                                           const VocabularyShard &shard, CallPass pass,
                                           const DeviceInfo &device, TargetKind target) {
  TW_ASSIGN_OR_RETURN(const ShardPlan plan, planShard(tensors, options, shard, pass, device));
  const Config config = configOfRank(plan);
  const OptionValues values = {options, options.lmcl.value_or(Margin())};
  return programFor(schemeFor(plan.request, config.variant), config, values, target);
}

StatusOr<PreparedShardedLinearCrossEntropy>
PreparedShardedLinearCrossEntropy::prepare(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                           const LinearCrossEntropyOptions &options,
                                           const VocabularyShard &shard, CallPass pass) {
  TW_ASSIGN_OR_RETURN(const ShardPlan plan, planShard(tensors, options, shard, pass, runtime.planningInfo()));
  const auto &[request, config] = plan;
  PreparedShardedLinearCrossEntropy prepared;
  prepared.configuration_ = configurationOf(config, widestOf(request)).str();
  prepared.description_ = config.str() + ", " + std::to_string(config.chunkBuffers(request)) + " at a time";
  TW_ASSIGN_OR_RETURN(prepared.call_, prepareCall(runtime, request, configOfRank(plan), options));
  const Scheme scheme = schemeFor(request, config.variant);
  prepared.chunkRows_ = std::min(config.chunkRows, request.rows);
  prepared.facts_ = shardFacts(scheme.rowSums, scheme.outputs.best).count;
  prepared.ranks_ = shard.ranks;
  prepared.chunkBuffers_ = config.chunkBuffers(request);
  prepared.isAligned_ = request.aligned;
  prepared.schedule_ = widestOf(request).str() + "; " + prepared.description_ + ", " +
                       std::to_string(prepared.facts_) + " facts";
  return prepared;
}

ExchangedTensors PreparedShardedLinearCrossEntropy::exchangedOf(const ShardExchange &exchange) const {
  const int64_t numbers = facts_ * chunkRows_;
  return {TensorRef::vector(exchange.stats, ElementType::f32, numbers),
          TensorRef::vector(exchange.gathered, ElementType::f32, ranks_ * numbers)};
}

Status PreparedShardedLinearCrossEntropy::run(const LinearCrossEntropyTensors &tensors, CallPart part,
                                              int64_t chunk, const ShardExchange &exchange,
                                              const CallMemory &memory, Stream stream) const {
  const ExchangedTensors exchanged = exchangedOf(exchange);
  return call_->runPart(TensorsById(tensors, exchanged), memory, stream, static_cast<int>(part), chunk);
}

Status PreparedShardedLinearCrossEntropy::begin(const LinearCrossEntropyTensors &tensors,
                                                const CallMemory &memory, Stream stream) const {
  return run(tensors, CallPart::begin, 0, {}, memory, stream);
}

Status PreparedShardedLinearCrossEntropy::stats(const LinearCrossEntropyTensors &tensors, int64_t chunk,
                                                const ShardExchange &exchange, const CallMemory &memory,
                                                Stream stream) const {
  if (!exchange.stats && chunkRows_ > 0) return userError("stats has no memory: its pointer is null");
  return run(tensors, CallPart::stats, chunk, {exchange.stats, nullptr}, memory, stream);
}

Status PreparedShardedLinearCrossEntropy::merge(const LinearCrossEntropyTensors &tensors, int64_t chunk,
                                                const ShardExchange &exchange, const CallMemory &memory,
                                                Stream stream) const {
  if (!exchange.gathered && chunkRows_ > 0) return userError("gathered has no data: its pointer is null");
  return run(tensors, CallPart::merge, chunk, {nullptr, exchange.gathered}, memory, stream);
}

Status PreparedShardedLinearCrossEntropy::dHidden(const LinearCrossEntropyTensors &tensors, int64_t chunk,
                                                  const CallMemory &memory, Stream stream) const {
  return run(tensors, CallPart::dHidden, chunk, {}, memory, stream);
}

Status PreparedShardedLinearCrossEntropy::dWeight(const LinearCrossEntropyTensors &tensors, int64_t chunk,
                                                  const CallMemory &memory, Stream stream) const {
  return run(tensors, CallPart::dWeight, chunk, {}, memory, stream);
}

Status PreparedShardedLinearCrossEntropy::finish(const LinearCrossEntropyTensors &tensors,
                                                 const CallMemory &memory, Stream stream) const {
  return run(tensors, CallPart::finish, 0, {}, memory, stream);
}

bool PreparedShardedLinearCrossEntropy::fits(const LinearCrossEntropyTensors &tensors) const {
  return call_->fits(TensorsById(tensors, exchangedOf({}))) && (isAligned_ || !lce::areAligned(tensors));
}

} // namespace tilewright
