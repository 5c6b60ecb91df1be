#include "compiler/nvptx/threads/chip_memory.h"

#include <algorithm>

#include "llvm/Support/MathExtras.h"

namespace tilewright::nvptx {

int64_t ChipMemory::take(int64_t bytes) {
  constexpr int64_t kAlignment = 16;
  const int64_t offset = taken;
  taken += llvm::alignTo(bytes, kAlignment);
  return offset;
}

void ChipMemory::align(int64_t bytes) { taken = llvm::alignTo(taken, bytes); }

Num ChipMemory::exchange(int64_t bytes) {
  order.barrier();
  exchanged = std::max(exchanged, bytes);
  return at(taken);
}

} // namespace tilewright::nvptx
