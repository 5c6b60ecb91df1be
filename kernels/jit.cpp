#include "kernels/jit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>

#include "compiler/base/parallel.h"
#include "compiler/compile.h"
#include "runtime/argument_memory.h"

namespace tilewright {

StatusOr<KernelHandle> jit(Runtime &runtime, const Kernel &kernel, const CompileOptions &options) {
  KernelSource source;
  if (hasCompiler()) {
    source.fingerprint = [&] { return fingerprint(kernel); };
    source.compile = [&] {
      return compile(kernel, runtime.device().target(), options, runtime.environment());
    };
  }
  return runtime.kernel({kernel.name, kernel.specialisation, options.str()}, source);
}

StatusOr<std::vector<KernelHandle>> jitAll(Runtime &runtime, const std::vector<JitRequest> &requests) {
  std::vector<std::optional<StatusOr<KernelHandle>>> results(requests.size());
  std::vector<std::exception_ptr> thrown(requests.size()); // for want of memory: no thread may end by that
  std::atomic<std::size_t> next{0};
  auto makeNext = [&] {
    const std::size_t i = next++;
    if (i >= requests.size()) return false;
    try {
      results[i] = jit(runtime, requests[i].kernel, requests[i].options);
    } catch (...) {
      thrown[i] = std::current_exception();
    }
    return true;
  };
  auto makeAll = [&] {
    while (makeNext()) {
    }
  };

  // With every kernel in memory this takes microseconds; the first one that does not calls for help.
  constexpr auto lookup = std::chrono::milliseconds(1);
  auto start = std::chrono::steady_clock::now();
  while (makeNext() && std::chrono::steady_clock::now() - start < lookup)
    start = std::chrono::steady_clock::now();
  const std::size_t left = requests.size() - std::min<std::size_t>(next, requests.size());
  const std::size_t threads = std::min<std::size_t>(left, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> helpers = startThreads(static_cast<int64_t>(threads) - 1, makeAll);
  makeAll();
  for (std::thread &helper : helpers)
    helper.join();

  for (const std::exception_ptr &exception : thrown)
    if (exception) std::rethrow_exception(exception);
  std::vector<KernelHandle> kernels;
  for (auto &result : results) {
    if (!result->ok()) return result->status();
    kernels.push_back(**result);
  }
  return kernels;
}

Status launch(Runtime &runtime, const Kernel &kernel, ArgumentSpan arguments, Stream stream) {
  TW_ASSIGN_OR_RETURN(const KernelHandle loaded, jit(runtime, kernel));
  TW_RETURN_IF_ERROR(checkAddresses(runtime.device(), loaded->artifact(), arguments, stream));
  return runtime.device().launch(*loaded, arguments, stream);
}

} // namespace tilewright
