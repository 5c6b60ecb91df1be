#include "tests/support/direct_launches.h"

#include <map>

#include <gtest/gtest.h>

#include "kernels/jit.h"
#include "tests/support/device_tensor.h"
#include "tests/support/fake_device.h"
#include "tests/support/ptx_interpreter.h"

namespace tilewright::test {

std::unique_ptr<Runtime> openInterpreter(const std::string &target) {
  DeviceInfo info;
  info.name = info.fingerprint = "interpreter";
  info.memoryBytes = int64_t(1) << 30;
  info.units = 4;
  info.warpgroups = target == "sm_90a";
  info.sharedBytes = info.warpgroups ? 232448 : 166912;
  info.cacheBytes = int64_t(40) << 20;
  auto device = std::make_unique<FakeDevice>(info, *parseTarget(target));
  device->onLaunch = interpretPtx;
  Environment environment;
  environment.autotune = AutotuneMode::off;
  return std::make_unique<Runtime>(std::move(device), environment);
}

std::vector<std::string> directDevices() {
  std::vector<std::string> devices = testDevices();
  devices.push_back("sm_80");
  return devices;
}

Runtime &sharedRuntime(const std::string &device) {
  static std::map<std::string, std::unique_ptr<Runtime>> runtimes;
  auto &runtime = runtimes[device];
  if (!runtime)
    runtime = parseTarget(device).ok() && device != "cpu" ? openInterpreter(device) : openRuntime(device);
  return *runtime;
}

void DirectLaunches::launch(const Kernel &kernel, const std::vector<KernelArgument> &arguments,
                            const CompileOptions &options) const {
  const StatusOr<KernelHandle> loaded = jit(runtime_, kernel, options);
  ASSERT_TRUE(loaded.ok()) << kernel.name << ": " << loaded.status().message();
  const Status status = device().launch(**loaded, arguments, nullptr);
  ASSERT_TRUE(status.ok()) << kernel.name << ": " << status.message();
}

} // namespace tilewright::test
