#include "kernels/program/tensor_table.h"

#include <algorithm>

namespace tilewright {
namespace {

const char *arenaName(Arena arena) {
  if (arena == Arena::caller) return "caller";
  return arena == Arena::workspace ? "workspace" : "borrowed";
}

} // namespace

int64_t saturatingProduct(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kMostBytes : std::min(result, kMostBytes);
}

int64_t saturatingSum(int64_t a, int64_t b) { return std::min(a + b, kMostBytes); }

int64_t alignedBytes(int64_t bytes) {
  return saturatingSum(bytes, kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

int64_t TensorEntry::bytesOfCopy() const {
  const int64_t elements = rank == 1 ? rows : saturatingProduct(rows, rowStride);
  const int64_t bytes = saturatingProduct(elements, static_cast<int64_t>(elementBytes(element)));
  return copies > 1 ? alignedBytes(bytes) : bytes;
}

int64_t TensorEntry::bytes() const { return saturatingProduct(bytesOfCopy(), copies); }

TensorEntry &TensorTable::addVector(TensorId id, const char *name, ElementType element, int64_t size,
                                    Lifetime life) {
  TensorEntry &entry = entries_[id];
  entry = {};
  entry.name = name, entry.element = element, entry.life = life;
  entry.rank = 1, entry.rows = size;
  return entry;
}

TensorEntry &TensorTable::addMatrix(TensorId id, const char *name, ElementType element, int64_t rows,
                                    int64_t columns, int64_t rowStride, Lifetime life) {
  TensorEntry &entry = addVector(id, name, element, rows, life);
  entry.rank = 2, entry.columns = columns, entry.rowStride = rowStride;
  return entry;
}

TensorEntry &TensorTable::addCallers(TensorId id, const char *name, const TensorRef &tensor) {
  TensorEntry &entry =
      addMatrix(id, name, tensor.element, tensor.sizes[0], tensor.sizes[1], tensor.rowStride, {});
  entry.rank = tensor.rank;
  entry.arena = Arena::caller;
  return entry;
}

TensorEntry &TensorTable::addAlias(TensorId id, const char *name, TensorId of) {
  TensorEntry &entry = entries_[id];
  entry = entries_[of];
  entry.name = name, entry.aliasOf = of, entry.offset = 0;
  return entry;
}

void TensorTable::reserveBorrowed(int64_t bytes, Lifetime life) {
  reservations_[reserved_++] = {bytes, life};
}

/// The lowest offset at which the entry meets none of those that are placed; of `Place::highest`, the highest
/// one below `end`, negative where there is none.
int64_t TensorTable::freeOffset(const TensorEntry &entry, const TensorId *placed, int count,
                                int64_t end) const {
  struct Span {
    int64_t begin, end;
  };
  Span taken[kCapacity + 2];
  int spans = 0;
  for (int i = 0; i < count; ++i) {
    const TensorEntry &other = entries_[placed[i]];
    if (other.arena == entry.arena && other.life.meets(entry.life))
      taken[spans++] = {other.offset, other.offset + alignedBytes(other.bytes())};
  }
  if (entry.arena == Arena::borrowed)
    for (int i = 0; i < reserved_; ++i)
      if (reservations_[i].life.meets(entry.life)) taken[spans++] = {0, reservations_[i].bytes};
  const int64_t bytes = alignedBytes(entry.bytes());
  if (entry.place == Place::highest) {
    std::sort(taken, taken + spans, [](const Span &a, const Span &b) { return a.end > b.end; });
    int64_t top = end / kTensorAlignment * kTensorAlignment;
    for (int i = 0; i < spans && taken[i].end > top - bytes; ++i)
      top = std::min(top, taken[i].begin);
    return top - bytes;
  }
  std::sort(taken, taken + spans, [](const Span &a, const Span &b) { return a.begin < b.begin; });
  int64_t offset = 0;
  for (int i = 0; i < spans && taken[i].begin < offset + bytes; ++i)
    offset = std::max(offset, alignedBytes(taken[i].end));
  return offset;
}

void TensorTable::place(int64_t borrowedBytes) {
  TensorId order[kCapacity];
  int count = 0;
  for (TensorId id = 0; id < kCapacity; ++id)
    if (has(id) && entries_[id].arena != Arena::caller && entries_[id].aliasOf == kNoTensor)
      order[count++] = id;
  std::stable_sort(order, order + count,
                   [&](TensorId a, TensorId b) { return entries_[a].bytes() > entries_[b].bytes(); });
  workspaceBytes_ = borrowedBytes_ = 0;
  fitsBorrowed_ = true;
  for (int i = 0; i < count; ++i) {
    TensorEntry &entry = entries_[order[i]];
    entry.offset = freeOffset(entry, order, i, borrowedBytes);
    const int64_t end = saturatingSum(entry.offset, alignedBytes(entry.bytes()));
    int64_t &most = entry.arena == Arena::workspace ? workspaceBytes_ : borrowedBytes_;
    most = std::max(most, end);
    if (entry.arena == Arena::borrowed)
      fitsBorrowed_ = fitsBorrowed_ && entry.offset >= 0 && entry.offset + entry.bytes() <= borrowedBytes;
  }
}

std::string TensorTable::str() const {
  std::string text;
  for (const TensorEntry &entry : entries_) {
    if (!entry.name) continue;
    text += std::string(entry.name) + ": " + elementName(entry.element) + " " + std::to_string(entry.rows);
    if (entry.rank == 2)
      text += "x" + std::to_string(entry.columns) + " stride " + std::to_string(entry.rowStride);
    if (entry.aliasOf != kNoTensor) {
      text += std::string(", in the place of ") + entries_[entry.aliasOf].name +
              (entry.offset ? " at " + std::to_string(entry.offset) : "") + "\n";
      continue;
    }
    if (entry.copies > 1) text += ", " + std::to_string(entry.copies) + " times";
    text += std::string(", ") + arenaName(entry.arena);
    if (entry.arena != Arena::caller)
      text += " at " + std::to_string(entry.offset) + ", phases " + std::to_string(entry.life.first) +
              " to " + std::to_string(entry.life.last);
    text += "\n";
  }
  return text;
}

} // namespace tilewright
