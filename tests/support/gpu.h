#pragma once

#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright::test {

/// A function of libcuda.so.1 that the project itself does not call; aborts the test program when it is not
/// there.
void *cudaFunction(const char *symbol);

/// A stream of its own, in the device's primary context.
class GpuStream {
public:
  GpuStream();
  ~GpuStream();
  GpuStream(const GpuStream &) = delete;
  GpuStream &operator=(const GpuStream &) = delete;
  Stream get() const { return stream_; }

private:
  Stream stream_ = nullptr;
};

/// What was enqueued on a stream while it was captured, ready to be enqueued again.
class CapturedGraph {
public:
  /// Runs `work`, which enqueues on `stream`. In the mode that allows least, as frameworks capture.
  static StatusOr<std::unique_ptr<CapturedGraph>> capture(Stream stream, const std::function<Status()> &work);
  ~CapturedGraph();
  Status launch(Stream stream) const;

private:
  explicit CapturedGraph(void *executable) : executable_(executable) {}
  void *executable_;
};

/// Tests on the first GPU; skipped, with the reason, where there is none.
class GpuTest : public ::testing::Test {
protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite() { device_.reset(); }
  void SetUp() override {
    if (!device_) GTEST_SKIP() << whyNot_;
  }
  static Device &device() { return *device_; }

private:
  static std::unique_ptr<Device> device_;
  static std::string whyNot_;
};

} // namespace tilewright::test
