#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "bindings/c/handles.h"
#include "compiler/base/elapsed.h"
#include "kernels/linear_cross_entropy.h"
#include "tools/bench/stub_device.h"

namespace {

using namespace tilewright;

constexpr int64_t kRows = 64, kHidden = 64, kClasses = 512;
constexpr int kTurns = 101, kCallsOfATurn = 500;

/// The tensors of a training call as C programs describe them, and the same in C++.
class Call {
public:
  Call() {
    c_.hidden = matrix(x_, kRows), c_.weight = matrix(w_, kClasses);
    c_.label = vector(y_, kDLInt, 64, kRows);
    c_.loss = vector(loss_, kDLFloat, 32, 1), c_.lse = vector(lse_, kDLFloat, 32, kRows);
    c_.d_hidden = matrix(dx_, kRows), c_.d_weight = matrix(dw_, kClasses);
    cpp_.hidden = TensorRef::matrix(x_.data(), ElementType::f32, kRows, kHidden);
    cpp_.weight = TensorRef::matrix(w_.data(), ElementType::f32, kClasses, kHidden);
    cpp_.label = TensorRef::vector(y_.data(), ElementType::i64, kRows);
    cpp_.loss = TensorRef::vector(loss_.data(), ElementType::f32, 1);
    cpp_.lse = TensorRef::vector(lse_.data(), ElementType::f32, kRows);
    cpp_.dHidden = TensorRef::matrix(dx_.data(), ElementType::f32, kRows, kHidden);
    cpp_.dWeight = TensorRef::matrix(dw_.data(), ElementType::f32, kClasses, kHidden);
  }
  const tw_linear_cross_entropy_tensors &c() const { return c_; }
  const LinearCrossEntropyTensors &cpp() const { return cpp_; }

private:
  struct Described {
    DLTensor dl;
    int64_t shape[2];
  };
  template <typename T>
  const DLTensor *describe(std::vector<T> &data, uint8_t code, uint8_t bits, int rank, int64_t rows) {
    Described &made = described_[count_++];
    made.shape[0] = rows, made.shape[1] = kHidden;
    made.dl = {data.data(), {kDLCPU, 0}, rank, {code, bits, 1}, made.shape, nullptr, 0};
    return &made.dl;
  }
  const DLTensor *matrix(std::vector<float> &data, int64_t rows) {
    return describe(data, kDLFloat, 32, 2, rows);
  }
  template <typename T>
  const DLTensor *vector(std::vector<T> &data, uint8_t code, uint8_t bits, int64_t rows) {
    return describe(data, code, bits, 1, rows);
  }

  std::vector<float> x_ = std::vector<float>(kRows * kHidden), dx_ = x_, lse_ = std::vector<float>(kRows),
                     w_ = std::vector<float>(kClasses * kHidden), dw_ = w_, loss_ = std::vector<float>(1);
  std::vector<int64_t> y_ = std::vector<int64_t>(kRows);
  Described described_[7];
  int count_ = 0;
  tw_linear_cross_entropy_tensors c_ = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  LinearCrossEntropyTensors cpp_;
};

double microsecondsOfACall(const std::function<bool()> &call) {
  const auto begin = std::chrono::steady_clock::now();
  bool isRight = true;
  for (int i = 0; i < kCallsOfATurn; ++i)
    isRight = call() && isRight;
  EXPECT_TRUE(isRight);
  return 1000 * millisecondsSince(begin) / kCallsOfATurn;
}

// Launches do nothing; what is left is the host's own time. What is compared takes turns, and the fastest
// turn of each counts, as other work on the machine only adds to one.
class CallOverhead : public ::testing::Test {
protected:
  static constexpr int64_t kWorkspaceBytes = 1 << 22;

  void SetUp() override {
    StatusOr<std::unique_ptr<Device>> cpu = openDevice("cpu");
    ASSERT_TRUE(cpu.ok()) << cpu.status().message();
    auto device = std::make_unique<StubDevice>(*std::move(cpu), workspace.get());
    stub = device.get();
    runtime.runtime = std::make_shared<Runtime>(std::move(device), Environment());
  }
  PreparedLinearCrossEntropy prepare(const LinearCrossEntropyOptions &options) {
    return *PreparedLinearCrossEntropy::prepare(*runtime.runtime, tensors.cpp(), options);
  }

  const std::unique_ptr<void, void (*)(void *)> workspace{std::aligned_alloc(256, kWorkspaceBytes),
                                                          std::free};
  StubDevice *stub = nullptr;
  tw_runtime runtime{nullptr, {}, "cpu"};
  Call tensors;
};

// A slow processor may take a quarter of the C++ call.
TEST_F(CallOverhead, TheCFunctionsAddLittle) {
  const PreparedLinearCrossEntropy inCpp = prepare({});
  tw_linear_cross_entropy *inC = nullptr;
  tw_call_status *status = nullptr;
  ASSERT_EQ(tw_linear_cross_entropy_prepare(&runtime, &tensors.c(), nullptr, TW_PASS_FUSED, &inC, nullptr),
            TW_OK);
  ASSERT_EQ(tw_call_status_create(&runtime, nullptr, &status, nullptr), TW_OK);
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(inC);
  ASSERT_LE(bytes, kWorkspaceBytes);
  const CallMemory memory = {workspace.get(), bytes, status->status};

  double cpp = 1e9, c = 1e9;
  for (int i = 0; i < kTurns; ++i) {
    cpp = std::min(cpp, microsecondsOfACall([&] { return inCpp.run(tensors.cpp(), memory, nullptr).ok(); }));
    c = std::min(c, microsecondsOfACall([&] {
                   tw_error *error = nullptr;
                   return tw_linear_cross_entropy_run(inC, &tensors.c(), workspace.get(), bytes, status,
                                                      nullptr, &error) == TW_OK;
                 }));
  }
  tw_call_status_free(status);
  tw_linear_cross_entropy_free(inC);
  std::printf("host us a call, launches stubbed: C++ %.2f, C %.2f, %.2f more\n", cpp, c, c - cpp);
  EXPECT_LE(c - cpp, std::max(0.5, 0.25 * cpp));
}

// What a prepared run may take of the host, and what one call may take beside it. A slow processor may take
// twice as long.
TEST_F(CallOverhead, APreparedRunAndOneCallKeepTheirBounds) {
  constexpr double kOfARun = 3, kOfALaunch = 0.3, kOfOneCall = 3, kSlow = 2; // the first three in µs
  for (const int64_t limit : {int64_t(0), int64_t(150) << 10}) {
    LinearCrossEntropyOptions options;
    options.workspaceLimit = limit;
    const PreparedLinearCrossEntropy prepared = prepare(options);
    ASSERT_LE(prepared.workspaceBytes(), kWorkspaceBytes);
    const CallMemory memory = {workspace.get(), prepared.workspaceBytes(),
                               *CallStatus::allocate(runtime.runtime->device())};
    const int64_t before = stub->launches();
    ASSERT_TRUE(prepared.run(tensors.cpp(), memory, nullptr).ok());
    const int64_t launches = stub->launches() - before;

    double run = 1e9, call = 1e9;
    for (int i = 0; i < kTurns; ++i) {
      run = std::min(run,
                     microsecondsOfACall([&] { return prepared.run(tensors.cpp(), memory, nullptr).ok(); }));
      call = std::min(call, microsecondsOfACall([&] {
                        return linearCrossEntropy(*runtime.runtime, tensors.cpp(), options, nullptr).ok();
                      }));
    }
    std::printf("host us, %d launches stubbed: prepared %.2f, one call %.2f\n", static_cast<int>(launches),
                run, call);
    EXPECT_LE(run, kSlow * (kOfARun + kOfALaunch * static_cast<double>(launches)));
    EXPECT_LE(call - run, kSlow * kOfOneCall);
  }
}

} // namespace
