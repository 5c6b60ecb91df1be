#pragma once

#include <string>
#include <vector>

#include "compiler/dsl/builder.h"
#include "compiler/options.h"
#include "runtime/runtime.h"

namespace tilewright::test {

/// A GPU of four multiprocessors with tensors in the host's memory, which runs code for `target` in the
/// interpreter of PTX.
std::unique_ptr<Runtime> openInterpreter(const std::string &target);

/// The devices of `testDevices`, and the interpreter of code for sm_80.
std::vector<std::string> directDevices();

/// The runtime of a device of these, or of the interpreter of code for another GPU. One for all tests:
/// kernels are compiled once.
Runtime &sharedRuntime(const std::string &device);

/// Launches kernels one after the other; a test fails where one cannot be launched.
class DirectLaunches {
public:
  explicit DirectLaunches(const std::string &device) : runtime_(sharedRuntime(device)) {}
  Device &device() const { return runtime_.device(); }
  TargetKind target() const { return runtime_.device().target().kind; }
  void launch(const Kernel &kernel, const std::vector<KernelArgument> &arguments,
              const CompileOptions &options = {}) const;

private:
  Runtime &runtime_;
};

} // namespace tilewright::test
