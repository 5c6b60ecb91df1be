#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "compiler/base/status.h"

namespace tilewright {

/// Memory for machine code and its constants: whole pages that are written first and then given their
/// protection. No page can be written and run.
class CodeMemory {
public:
  /// Parts of an object, by what is done with their bytes.
  enum Part { code, constants, data, kParts };

  CodeMemory() = default;
  CodeMemory(CodeMemory &&other) noexcept { swap(other); }
  CodeMemory &operator=(CodeMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~CodeMemory();

  /// Zeros, which may be written; each part begins with a page of its own. A runtime error where the system
  /// has none.
  static StatusOr<CodeMemory> allocate(const std::size_t (&bytes)[kParts]);
  char *part(Part which) const { return base_ + begin_[which]; }
  /// From now on code may be run, and neither it nor the constants written. A runtime error where the system
  /// forbids it.
  Status protect();

private:
  void swap(CodeMemory &other) noexcept;
  char *base_ = nullptr;
  std::size_t begin_[kParts + 1] = {}; ///< the last one: the end of all
};

} // namespace tilewright
