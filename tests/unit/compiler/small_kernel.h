#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/ptx_interpreter.h"

namespace tilewright::test {

/// Small kernels by what each target's code computes: the CPU's by running it, GPUs' in an interpreter.

constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16, i32 = ElementType::i32;

/// What `compile` and a launch say of a kernel on the target of this name.
inline Status run(const std::string &name, const Kernel &kernel, ArgumentSpan arguments,
                  const CompileOptions &options = {}) {
  const Target target = *parseTarget(name);
  TW_ASSIGN_OR_RETURN(const Artifact artifact, compile(kernel, target, options));
  if (target.kind == TargetKind::nvptx) return interpretPtx(artifact, arguments);
  CpuDevice device;
  TW_ASSIGN_OR_RETURN(const auto loaded, device.load(artifact));
  return device.launch(*loaded, arguments, nullptr);
}

class SmallKernel : public testing::TestWithParam<const char *> {
protected:
  void expectRuns(const Kernel &kernel, ArgumentSpan arguments, const CompileOptions &options = {}) {
    const Status status = run(GetParam(), kernel, arguments, options);
    ASSERT_TRUE(status.ok()) << status.message();
  }
};

inline TensorRef vectorOf(std::vector<int32_t> &values) {
  return TensorRef::vector(values.data(), i32, int64_t(values.size()));
}
inline TensorRef matrixOf(std::vector<float> &values, int64_t rows) {
  return TensorRef::matrix(values.data(), f32, rows, int64_t(values.size()) / rows);
}

} // namespace tilewright::test
