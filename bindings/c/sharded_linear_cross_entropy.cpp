#include "kernels/sharded_linear_cross_entropy.h"

#include "bindings/c/linear_cross_entropy.h"
#include "bindings/c/prepared_handle.h"

struct tw_sharded_linear_cross_entropy
    : tilewright::c::PreparedHandle<tilewright::PreparedShardedLinearCrossEntropy,
                                    tilewright::LinearCrossEntropyTensors> {};

using namespace tilewright;
using namespace tilewright::c;

namespace {

Status readShard(const tw_vocabulary_shard *given, VocabularyShard &shard) {
  TW_RETURN_IF_ERROR(checkStruct(given, "shard"));
  shard.all = given->all_classes, shard.first = given->first_class, shard.widest = given->widest;
  shard.rank = given->rank, shard.ranks = given->ranks;
  return {};
}

Status runPart(const PreparedShardedLinearCrossEntropy &call, int32_t part, int64_t chunk,
               const LinearCrossEntropyTensors &t, const ShardExchange &exchange, const CallMemory &memory,
               void *stream) {
  switch (part) {
  case TW_SHARD_BEGIN:
    return call.begin(t, memory, stream);
  case TW_SHARD_STATS:
    return call.stats(t, chunk, exchange, memory, stream);
  case TW_SHARD_MERGE:
    return call.merge(t, chunk, exchange, memory, stream);
  case TW_SHARD_D_HIDDEN:
    return call.dHidden(t, chunk, memory, stream);
  case TW_SHARD_D_WEIGHT:
    return call.dWeight(t, chunk, memory, stream);
  case TW_SHARD_FINISH:
    return call.finish(t, memory, stream);
  }
  return userError("part: expected a tw_shard_part, found " + std::to_string(part));
}

} // namespace

tw_code tw_sharded_linear_cross_entropy_prepare(tw_runtime *runtime,
                                                const tw_linear_cross_entropy_tensors *tensors,
                                                const tw_linear_cross_entropy_options *options,
                                                const tw_vocabulary_shard *shard, int32_t pass,
                                                tw_sharded_linear_cross_entropy **call, tw_error **error) {
  using Prepared = PreparedShardedLinearCrossEntropy;
  const auto make = [&](Runtime &in, const LinearCrossEntropyTensors &given) -> StatusOr<Prepared> {
    LinearCrossEntropyOptions o;
    VocabularyShard s;
    TW_RETURN_IF_ERROR(readOptions(options, o));
    TW_RETURN_IF_ERROR(readShard(shard, s));
    TW_ASSIGN_OR_RETURN(const CallPass which, readPass(pass));
    return Prepared::prepare(in, given, o, s, which);
  };
  return prepare(runtime, tensors, call, error, make);
}

void tw_sharded_linear_cross_entropy_free(tw_sharded_linear_cross_entropy *call) { release(call); }

int64_t tw_sharded_linear_cross_entropy_workspace_bytes(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.workspaceBytes() : 0;
}

int64_t tw_sharded_linear_cross_entropy_chunks(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.chunks() : 0;
}

int64_t tw_sharded_linear_cross_entropy_chunk_rows(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.chunkRows() : 0;
}

int64_t tw_sharded_linear_cross_entropy_facts(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.facts() : 0;
}

int tw_sharded_linear_cross_entropy_chunk_buffers(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.chunkBuffers() : 0;
}

const char *tw_sharded_linear_cross_entropy_schedule(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.schedule().c_str() : "";
}

const char *tw_sharded_linear_cross_entropy_configuration(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.configuration().c_str() : "";
}

const char *tw_sharded_linear_cross_entropy_description(const tw_sharded_linear_cross_entropy *call) {
  return call ? call->call.description().c_str() : "";
}

int tw_sharded_linear_cross_entropy_fits(const tw_sharded_linear_cross_entropy *call,
                                         const tw_linear_cross_entropy_tensors *tensors) {
  return fits(call, tensors);
}

tw_code tw_sharded_linear_cross_entropy_run(const tw_sharded_linear_cross_entropy *call, int32_t part,
                                            int64_t chunk, const tw_linear_cross_entropy_tensors *tensors,
                                            float *stats, float *gathered, void *workspace,
                                            int64_t workspace_bytes, tw_call_status *status, void *stream,
                                            tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!call) return expected("call");
    LinearCrossEntropyTensors t;
    TW_RETURN_IF_ERROR(readTensors(tensors, call->place, Use::run, t));
    return runPart(call->call, part, chunk, t, {stats, gathered},
                   memoryFor(workspace, workspace_bytes, status), stream);
  });
}
