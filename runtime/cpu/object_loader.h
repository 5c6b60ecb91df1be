#pragma once

#include <memory>
#include <string>

#include "compiler/base/status.h"
#include "runtime/cpu/code_memory.h"

namespace tilewright {

/// Machine code of a relocatable object, linked into this process; gone with its owner. Functions that it
/// calls (libm's, memcpy) are those of the process. Needs no LLVM.
class LoadedObject {
public:
  /// A runtime error when the object is damaged, is for another machine, lacks `symbol` or calls a function
  /// that is not there.
  static StatusOr<std::unique_ptr<LoadedObject>> load(const std::string &object, const std::string &symbol);

  void *entry() const { return entry_; }

private:
  LoadedObject(CodeMemory memory, void *entry) : memory_(std::move(memory)), entry_(entry) {}
  CodeMemory memory_;
  void *entry_;
};

} // namespace tilewright
