// A whole program with a kernel of its own: y = 2 x + 1 on whatever device there is.

#include <cstdio>
#include <vector>

#include "kernels/jit.h"

using namespace tilewright;

Kernel scaleAndShift() {
  return defineKernel("scale_and_shift", "", [](KernelBuilder &k) {
    const View x = k.input("x", ElementType::f32, 1);
    const Tile scale = k.scalar("scale");
    const View y = k.output("y", ElementType::f32, 1);

    const Range block = k.blockColumns(x.dim(0), 1024); // this program's 1024 elements
    k.store(y, block, scale * x[block] + 1.0);          // what lies past the end is dropped
  });
}

Status run(Runtime &runtime, std::vector<float> &numbers) {
  Device &device = runtime.device();
  const int64_t size = numbers.size(), bytes = size * sizeof(float);
  TW_ASSIGN_OR_RETURN(const Buffer buffer, device.allocate(2 * bytes, nullptr));
  float *data = static_cast<float *>(buffer.data());
  const TensorRef x = TensorRef::vector(data, ElementType::f32, size);
  const TensorRef y = TensorRef::vector(data + size, ElementType::f32, size);
  TW_RETURN_IF_ERROR(device.copyToDevice(x.data, numbers.data(), bytes, nullptr));
  TW_RETURN_IF_ERROR(launch(runtime, scaleAndShift(), {x, 2.0f, y}, nullptr)); // compiles at the first call
  return device.copyToHost(numbers.data(), y.data, bytes, nullptr);
}

int main() {
  std::vector<float> numbers = {1, 2, 3};
  const StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::open();
  const Status status = runtime.ok() ? run(**runtime, numbers) : runtime.status();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  std::printf("%g %g %g\n", numbers[0], numbers[1], numbers[2]);
  return numbers == std::vector<float>{3, 5, 7} ? 0 : 1;
}
