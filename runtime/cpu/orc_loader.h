#pragma once

#include <memory>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

/// Machine code of a relocatable object, linked into this process; gone with its owner. Functions that it
/// calls (libm's, memcpy) are those of the process.
class LoadedObject {
public:
  /// A runtime error when the object is damaged, is for another machine, lacks `symbol` or calls a function
  /// that is not there.
  static StatusOr<std::unique_ptr<LoadedObject>> load(const std::string &object, const std::string &symbol);
  ~LoadedObject();

  void *entry() const { return entry_; }

private:
  struct Session;
  explicit LoadedObject(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
  void *entry_ = nullptr;
};

} // namespace tilewright
