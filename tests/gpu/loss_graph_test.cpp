// Losses as CUDA graphs: fused calls, a training step in prepared calls, and a backward call. Each is
// captured, replayed, and compared bit by bit with the direct call.

#include <cstring>

#include <gmock/gmock.h>

#include "runtime/runtime.h"
#include "tests/support/gpu.h"
#include "tests/support/loss_on_stream.h"

namespace tilewright::test {
namespace {

class LossGraphTest : public GpuTest {
protected:
  /// With an empty cache in memory and none on disk, so that the first call compiles.
  static std::unique_ptr<Runtime> coldRuntime() {
    return std::make_unique<Runtime>(*openDevice("cuda"), Environment());
  }

  template <typename Loss> void checkReplay(Runtime &runtime, Loss &loss) {
    const GpuStream stream;
    const auto graph = CapturedGraph::capture(stream.get(), [&] { return loss.run(runtime, stream.get()); });
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    expectOk(loss.run(runtime, stream.get()));
    expectOk(runtime.device().synchronize(stream.get()));
    const std::vector<uint8_t> direct = loss.bits();
    for (int replay = 0; replay < 3; ++replay) {
      loss.poison();
      EXPECT_NE(loss.bits(), direct);
      expectOk(runtime.device().synchronize(nullptr));
      expectOk((*graph)->launch(stream.get()));
      expectOk(runtime.device().synchronize(stream.get()));
      EXPECT_EQ(loss.bits(), direct) << "replay " << replay;
    }
  }
  static void expectOk(const Status &status) { EXPECT_TRUE(status.ok()) << status.message(); }
};

TEST_F(LossGraphTest, LinearCrossEntropy) {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    const auto runtime = coldRuntime();
    const LossCase data = makeCase(DataKind::peaked, 500, 72, 1100, element, IgnorePattern::some);
    LinearOnStream whole(runtime->device(), data), chunks(runtime->device(), data, 2 << 20);
    checkReplay(*runtime, whole);
    checkReplay(*runtime, chunks);
  }
}

TEST_F(LossGraphTest, ForwardCallAndScaledGradients) {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    const auto runtime = coldRuntime();
    ScaledOnStream step(*runtime, makeCase(DataKind::peaked, 500, 72, 1100, element, IgnorePattern::some));
    checkReplay(*runtime, step);
  }
}

TEST_F(LossGraphTest, BackwardCall) {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    const auto runtime = coldRuntime();
    BackwardOnStream backward(*runtime,
                              makeCase(DataKind::peaked, 500, 72, 1100, element, IgnorePattern::some));
    checkReplay(*runtime, backward);
  }
}

TEST_F(LossGraphTest, CrossEntropyOverLogits) {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    const auto runtime = coldRuntime();
    LossCase data = makeCase(DataKind::random, 60, 3001, 3001, element);
    LogitsOnStream loss(runtime->device(), data);
    checkReplay(*runtime, loss);
  }
}

TEST_F(LossGraphTest, EveryReplayReportsBadLabels) {
  const auto runtime = coldRuntime();
  LossCase data = makeCase(DataKind::random, 200, 16, 100, ElementType::bf16);
  data.label[77] = 100;
  const LinearOnStream loss(runtime->device(), data);
  const auto call = PreparedLinearCrossEntropy::prepare(*runtime, loss.tensors(), loss.options());
  ASSERT_TRUE(call.ok()) << call.status().message();
  const auto workspace = runtime->device().allocate(call->workspaceBytes(), nullptr);
  const auto status = CallStatus::allocate(runtime->device());
  ASSERT_TRUE(workspace.ok() && status.ok());
  expectOk(runtime->device().synchronize(nullptr));

  const GpuStream stream;
  const CallMemory memory = {workspace->data(), call->workspaceBytes(), *status};
  const auto graph =
      CapturedGraph::capture(stream.get(), [&] { return call->run(loss.tensors(), memory, stream.get()); });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (int replay = 0; replay < 2; ++replay) {
    std::memset(status->words(), 0, kCallStatusBytes);
    expectOk(status->error());
    expectOk((*graph)->launch(stream.get()));
    expectOk(runtime->device().synchronize(stream.get()));
    EXPECT_TRUE(status->isDone());
    EXPECT_THAT(status->error().message(), ::testing::HasSubstr("label 100 in row 77 is no class"));
  }
}

} // namespace
} // namespace tilewright::test
