#include "runtime/kernel_cache.h"

#include <exception>
#include <new>

#include "compiler/base/hash.h"

namespace tilewright {
namespace {

/// So short that it needs no memory itself.
Status outOfMemory() { return memoryError("out of memory"); }

/// Threads wait for the outcome, so there must be one whatever happens.
StatusOr<KernelHandle> outcomeOf(const KernelCache::Make &make) noexcept {
  try {
    try {
      return make();
    } catch (const std::bad_alloc &) {
      return outOfMemory();
    } catch (const std::exception &error) {
      return internalError(std::string("making a kernel threw: ") + error.what());
    }
  } catch (...) {
    return outOfMemory(); // for the message
  }
}

} // namespace

std::string KernelKey::str() const { return joinFields({name, specialisation, options}); }

StatusOr<KernelHandle> KernelCache::get(const KernelKey &key, const Make &make) {
  const std::string name = key.str();
  std::unique_lock<std::mutex> guard(mutex_);
  if (auto found = kernels_.find(name); found != kernels_.end()) {
    Result result = found->second;
    guard.unlock();
    ++hits_;
    return result.get();
  }
  std::promise<StatusOr<KernelHandle>> promise;
  const Result result = promise.get_future().share();
  kernels_.emplace(name, result);
  guard.unlock();

  StatusOr<KernelHandle> made = outcomeOf(make);
  if (!made.ok()) {
    guard.lock();
    kernels_.erase(name);
    guard.unlock();
  }
  promise.set_value(std::move(made)); // a copy might want memory
  return result.get();
}

} // namespace tilewright
