#include "tools/bench/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tilewright {
namespace {

template <typename Function> Function find(void *library, const char *name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

} // namespace

StatusOr<Blas> Blas::load(int threads) {
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return runtimeError(fmt::format("--against blas: expected OpenBLAS (libopenblas.so.0), found: {}; "
                                    "install it: apt-get install libopenblas0",
                                    dlerror()));
  Blas blas;
  blas.sgemm_ = find<Sgemm>(library, "cblas_sgemm");
  const auto setThreads = find<void (*)(int)>(library, "openblas_set_num_threads");
  const auto config = find<const char *(*)()>(library, "openblas_get_config");
  const auto core = find<const char *(*)()>(library, "openblas_get_corename");
  if (!blas.sgemm_ || !setThreads || !config || !core)
    return runtimeError(
        "--against blas: expected cblas_sgemm and openblas_set_num_threads in libopenblas.so.0, found "
        "a library without them; install it anew: apt-get install libopenblas0");
  setThreads(threads);
  const std::string version(config());
  blas.description_ =
      fmt::format("{}, {} kernels, {} threads", version.substr(0, version.find(' ', 10)), core(), threads);
  return blas;
}

void Blas::product(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float *a,
                   const float *b, float *c) const {
  constexpr int rowMajor = 101, plain = 111, transposed = 112; // CBLAS_ORDER, CBLAS_TRANSPOSE
  sgemm_(rowMajor, transposeA ? transposed : plain, transposeB ? transposed : plain, static_cast<int>(m),
         static_cast<int>(n), static_cast<int>(k), 1.0f, a, static_cast<int>(transposeA ? m : k), b,
         static_cast<int>(transposeB ? k : n), 0.0f, c, static_cast<int>(n));
}

} // namespace tilewright
