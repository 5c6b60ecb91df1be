#pragma once

#include <cstddef>
#include <memory>

namespace tilewright {

struct FreeMemory {
  void operator()(void *memory) const;
};
using AlignedMemory = std::unique_ptr<void, FreeMemory>;

/// Memory at a multiple of 256 bytes, as a GPU allocates it, of at least one byte; from 2 MiB on at a
/// multiple of 2 MiB and in huge pages where the system has them. Null when there is not enough.
AlignedMemory allocateAligned(std::size_t bytes);

/// Memory for one running program, contents undefined. It comes from a stock that each thread keeps, so that
/// launches after the first find it mapped and in the thread's caches; uses nest.
class Scratch {
public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  /// 64-byte aligned. Null when no bytes were asked for, or there is not enough memory.
  void *data() const { return block_.memory.get(); }

  struct Block {
    AlignedMemory memory;
    std::size_t bytes = 0;
  };

private:
  Block block_;
};

} // namespace tilewright
