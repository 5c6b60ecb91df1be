#include "kernels/lce/shard_tensors.h"

#include <algorithm>
#include <utility>

#include "kernels/lce/shard_kernels.h"
#include "kernels/lce/tensors.h"

namespace tilewright::lce {
namespace {

constexpr ElementType f32 = ElementType::f32, i32 = ElementType::i32;
constexpr Lifetime kAlways = {phase::begin, phase::end};

void addLabels(const Scheme &s, TensorTable &table) {
  for (const auto &[id, name] :
       {std::pair{tensor::globalLabel, "globalLabel"}, std::pair{tensor::ownLabel, "ownLabel"},
        std::pair{tensor::shiftLabel, "shiftLabel"}})
    table.addVector(id, name, i32, s.rows, kAlways).extent = Extent::rows;
}

/// What ranks tell each other of a chunk; the caller's memory.
void addStatistics(const Scheme &s, int64_t chunk, TensorTable &table) {
  const int64_t numbers = saturatingProduct(shardFacts(s.rowSums, s.outputs.best).count, chunk);
  table.addVector(tensor::stats, "stats", f32, numbers, kAlways).arena = Arena::caller;
  table.addVector(tensor::gathered, "gathered", f32, saturatingProduct(numbers, s.shard.ranks), kAlways)
      .arena = Arena::caller;
  if (s.rowSums[static_cast<int>(RowSum::stored)])
    table.addVector(tensor::mend, "mend", f32, chunk, {phase::stats, phase::combine}).extent = Extent::chunk;
}

/// What of a chunk is still needed when the next chunk's statistics are made.
void keepChunks(int copies, TensorTable &table) {
  for (TensorId id = 0; id < tensor::count; ++id) {
    TensorEntry &entry = table.entry(id);
    const bool isKept = entry.life.first <= phase::stats && entry.life.last >= phase::combine;
    if (!entry.name || entry.extent != Extent::chunk || entry.aliasOf != kNoTensor || !isKept) continue;
    entry.copies = copies;
    if (entry.copies > 1) entry.life = {phase::gather, phase::hiddenParts};
  }
  for (TensorId id = 0; id < tensor::count; ++id)
    if (TensorEntry &entry = table.entry(id); entry.aliasOf != kNoTensor && entry.extent == Extent::chunk)
      entry.copies = table[entry.aliasOf].copies;
}

} // namespace

void addShardTensors(const Scheme &scheme, const Config &config, TensorTable &table) {
  addLabels(scheme, table);
  addStatistics(scheme, std::min(config.chunkRows, scheme.rows), table);
  keepChunks(config.chunkBuffers(scheme), table);
}

} // namespace tilewright::lce
