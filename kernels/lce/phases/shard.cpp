#include "kernels/lce/phases/phases.h"
#include "kernels/lce/shard_kernels.h"

namespace tilewright::lce {
namespace {

/// Numbers between two facts of `stats`.
int64_t strideOf(const Emitter &m) { return std::min(m.c.chunkRows, m.s.rows); }

} // namespace

void emitShardLabels(Emitter &m) {
  const float share = static_cast<float>(m.s.classes) / static_cast<float>(m.s.shard.all);
  m.launch(m.kernel(shardLabels()),
           m.arguments()
               .tensor(tensor::globalLabel)
               .index(m.s.shard.first)
               .index(m.s.classes)
               .number(share)
               .tensors({tensor::compactLabel, tensor::ownLabel, tensor::shiftLabel}));
}

void emitShardStats(Emitter &m) {
  StepArguments arguments = m.arguments();
  arguments.tensors(
      {m.s.hasTotals ? tensor::total : tensor::sums, tensor::target, tensor::shift, tensor::ownLabel});
  if (m.s.outputs.best) arguments.tensors({tensor::tops, tensor::best});
  for (int sum = 0; sum < kRowSums; ++sum)
    arguments.tensor(tensor::rowSums + sum);
  arguments.index(m.s.shard.first).index(strideOf(m)).tensors({tensor::stats, tensor::mend});
  m.launch(m.kernel(shardStats({m.s.rowSums, m.s.outputs.best, m.s.hasTotals}), shardStatsOptions()),
           arguments);
}

void emitMerge(Emitter &m) {
  const CombineSpec spec = combineSpec(m);
  StepArguments arguments = m.arguments();
  arguments.tensor(tensor::gathered).index(m.s.shard.ranks).index(m.s.shard.rank).index(strideOf(m));
  arguments.tensors({tensor::shift, tensor::ownLabel, tensor::row, tensor::globalLabel, tensor::mend});
  if (m.s.wantsGradients()) arguments.tensor(tensor::rowNorm);
  addCombineArguments(m, arguments);
  m.launch(m.kernel(mergeShards(spec), mergeOptions(spec)), arguments);
}

} // namespace tilewright::lce
