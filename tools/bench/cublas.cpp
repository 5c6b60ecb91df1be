#include "tools/bench/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tilewright {
namespace {

template <typename Function> Function find(void *library, const char *name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

void *openLibrary() {
  for (const char *name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"})
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

// cudaDataType and the like, as cuBLAS's ABI numbers them.
int dataType(ElementType element) {
  return element == ElementType::bf16 ? 14 : element == ElementType::f16 ? 2 : 0;
}
constexpr int kComputeFloat32 = 68, kComputeTf32 = 77, kDefaultAlgorithm = -1;

} // namespace

StatusOr<Cublas> Cublas::load(bool tf32) {
  void *library = openLibrary();
  if (!library)
    return runtimeError(
        fmt::format("--against cublas: expected libcublas.so, found: {}; install cuBLAS or name "
                    "its folder in LD_LIBRARY_PATH",
                    dlerror()));
  const auto create = find<int (*)(Handle *)>(library, "cublasCreate_v2");
  const auto destroy = find<int (*)(Handle)>(library, "cublasDestroy_v2");
  const auto version = find<int (*)(Handle, int *)>(library, "cublasGetVersion_v2");
  Cublas cublas;
  cublas.compute_ = tf32 ? kComputeTf32 : kComputeFloat32;
  cublas.gemm_ = find<Gemm>(library, "cublasGemmEx");
  if (!create || !destroy || !version || !cublas.gemm_)
    return runtimeError(
        "--against cublas: expected cublasCreate_v2 and cublasGemmEx in libcublas.so, found a "
        "library without them; install another");
  Handle handle = nullptr;
  if (const int code = create(&handle))
    return runtimeError(
        fmt::format("--against cublas: cublasCreate failed with status {}; is its CUDA version "
                    "newer than the driver's?",
                    code));
  cublas.handle_ = std::shared_ptr<void>(handle, destroy);
  int number = 0;
  version(handle, &number);
  cublas.description_ = fmt::format("cuBLAS {}", number);
  return StatusOr<Cublas>(std::move(cublas));
}

Status Cublas::product(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const TensorRef &a,
                       const TensorRef &b, const TensorRef &c, bool accumulate) const {
  // cuBLAS counts columns first: it is given Cᵀ = op(B)ᵀ · op(A)ᵀ.
  const float one = 1, beta = accumulate ? 1 : 0;
  const int code =
      gemm_(handle_.get(), transposeB, transposeA, static_cast<int>(n), static_cast<int>(m),
            static_cast<int>(k), &one, b.data, dataType(b.element), static_cast<int>(b.rowStride), a.data,
            dataType(a.element), static_cast<int>(a.rowStride), &beta, c.data, dataType(c.element),
            static_cast<int>(c.rowStride), compute_, kDefaultAlgorithm);
  if (code) return runtimeError(fmt::format("--against cublas: cublasGemmEx failed with status {}", code));
  return {};
}

} // namespace tilewright
