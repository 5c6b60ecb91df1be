#include "runtime/kernel_cache.h"

#include <exception>
#include <new>

#include "compiler/base/hash.h"

namespace tilewright {
namespace {

/// Threads wait for the outcome, so there must be one whatever happens.
StatusOr<KernelHandle> outcomeOf(const KernelCache::Make &make) {
  try {
    return make();
  } catch (const std::bad_alloc &) {
    return memoryError("not enough memory on the host for making a kernel");
  } catch (const std::exception &error) {
    return internalError(std::string("making a kernel threw: ") + error.what());
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
  kernels_.emplace(name, promise.get_future().share());
  guard.unlock();

  StatusOr<KernelHandle> made = outcomeOf(make);
  if (!made.ok()) {
    guard.lock();
    kernels_.erase(name);
    guard.unlock();
  }
  promise.set_value(made);
  return made;
}

} // namespace tilewright
