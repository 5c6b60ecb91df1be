// The parts of the C++ library that no example uses: the loss of a vocabulary in two shards is that of the
// logits, and a call is tuned.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/linear_logits.h"
#include "kernels/sharded_linear_cross_entropy.h"
#include "kernels/tune_linear_cross_entropy.h"

using namespace tilewright;

constexpr int64_t kRows = 6, kHidden = 16, kClasses = 50, kRanks = 2;

struct Data {
  std::vector<float> x = std::vector<float>(kRows * kHidden), w = std::vector<float>(kClasses * kHidden);
  std::vector<int32_t> y = std::vector<int32_t>(kRows);
  float loss = 0;

  Data() {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = float(i * 37 % 101) / 50 - 1;
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = float(i * 53 % 97) / 48 - 1;
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = int32_t(i * 11 % kClasses);
  }
  /// Of a call with these classes.
  LinearCrossEntropyTensors tensors(int64_t first, int64_t classes) {
    LinearCrossEntropyTensors t;
    t.hidden = TensorRef::matrix(x.data(), ElementType::f32, kRows, kHidden);
    t.weight = TensorRef::matrix(&w[first * kHidden], ElementType::f32, classes, kHidden);
    t.label = TensorRef::vector(y.data(), ElementType::i32, kRows);
    t.loss = TensorRef::vector(&loss, ElementType::f32, 1);
    return t;
  }
};

Status lossOfLogits(Runtime &runtime, Data &data, double &loss) {
  std::vector<float> z(kRows * kClasses);
  const LinearCrossEntropyTensors t = data.tensors(0, kClasses);
  TW_ASSIGN_OR_RETURN(
      const LossReport report,
      linearLogits(runtime,
                   {t.hidden, t.weight, {}, TensorRef::matrix(z.data(), ElementType::f32, kRows, kClasses)},
                   {}, nullptr));
  loss = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < kClasses; ++c)
      sum += std::exp(double(z[i * kClasses + c]));
    loss += (std::log(sum) - double(z[i * kClasses + data.y[i]])) / kRows;
  }
  return report.status.error();
}

/// Both ranks in this process; their rows fit into one chunk.
Status lossOfShards(Runtime &runtime, Data &data) {
  constexpr int64_t kOfOne = kClasses / kRanks;
  std::vector<PreparedShardedLinearCrossEntropy> calls;
  std::vector<LinearCrossEntropyTensors> tensors;
  std::vector<Buffer> workspaces;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    tensors.push_back(data.tensors(rank * kOfOne, kOfOne));
    TW_ASSIGN_OR_RETURN(auto call,
                        PreparedShardedLinearCrossEntropy::prepare(
                            runtime, tensors[rank], {}, {kClasses, rank * kOfOne, rank, kRanks, kOfOne}));
    TW_ASSIGN_OR_RETURN(Buffer workspace, runtime.device().allocate(call.workspaceBytes(), nullptr));
    calls.push_back(std::move(call));
    workspaces.push_back(std::move(workspace));
  }
  const int64_t told = calls[0].facts() * calls[0].chunkRows();
  std::vector<float> gathered(kRanks * told);
  const auto onEach = [&](const auto &part) -> Status {
    for (int64_t r = 0; r < kRanks; ++r)
      TW_RETURN_IF_ERROR(part(calls[r], tensors[r], r,
                              CallMemory{workspaces[r].data(), calls[r].workspaceBytes(), CallStatus()}));
    return {};
  };
  TW_RETURN_IF_ERROR(onEach([](auto &call, auto &t, int64_t, auto m) { return call.begin(t, m, nullptr); }));
  TW_RETURN_IF_ERROR(onEach([&](auto &call, auto &t, int64_t rank, auto m) {
    return call.stats(t, 0, {&gathered[rank * told], nullptr}, m, nullptr);
  }));
  TW_RETURN_IF_ERROR(onEach([&](auto &call, auto &t, int64_t, auto m) {
    return call.merge(t, 0, {nullptr, gathered.data()}, m, nullptr);
  }));
  return onEach([](auto &call, auto &t, int64_t, auto m) { return call.finish(t, m, nullptr); });
}

Status compare(double &off) {
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::open("cpu"));
  Data data;
  double expected = 0;
  TW_RETURN_IF_ERROR(lossOfLogits(*runtime, data, expected));
  TW_RETURN_IF_ERROR(lossOfShards(*runtime, data));
  off = std::fabs(data.loss - expected);
  TunerOptions tuner;
  tuner.limit = 2;
  TW_ASSIGN_OR_RETURN(const TuningOutcome outcome,
                      tuneLinearCrossEntropy(*runtime, data.tensors(0, kClasses), {}, tuner, nullptr));
  return {};
}

int main() {
  double off = 0;
  const Status done = compare(off);
  if (!done.ok()) {
    std::fprintf(stderr, "%s\n", done.message().c_str());
    return 1;
  }
  std::printf("loss of two shards: off by %.1e from that of the logits\n", off);
  return off < 1e-5 ? 0 : 1;
}
