#include "tests/support/gpu.h"

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

#include "runtime/cuda/cuda_device.h"

namespace tilewright::test {

std::unique_ptr<Device> GpuTest::device_;
std::string GpuTest::whyNot_;

namespace {

template <typename... Arguments> int call(const char *symbol, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(cudaFunction(symbol))(arguments...);
}

/// The objects below belong to the context that is current where they are made.
void makePrimaryContextCurrent() {
  void *context = nullptr;
  call("cuDevicePrimaryCtxRetain", &context, 0);
  call("cuCtxSetCurrent", context);
}

Status outcome(int result, const char *what) {
  if (result == 0) return {};
  return runtimeError(std::string(what) + " gave CUDA error " + std::to_string(result));
}

} // namespace

void *cudaFunction(const char *symbol) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void *function = library ? dlsym(library, symbol) : nullptr;
  if (function) return function;
  std::fprintf(stderr, "libcuda.so.1 has no %s\n", symbol);
  std::abort();
}

GpuStream::GpuStream() {
  constexpr unsigned kNonBlocking = 1;
  makePrimaryContextCurrent();
  call("cuStreamCreate", &stream_, kNonBlocking);
}

GpuStream::~GpuStream() { call("cuStreamDestroy_v2", stream_); }

StatusOr<std::unique_ptr<CapturedGraph>> CapturedGraph::capture(Stream stream,
                                                                const std::function<Status()> &work) {
  constexpr int kGlobalMode = 0;
  void *graph = nullptr, *executable = nullptr;
  TW_RETURN_IF_ERROR(outcome(call("cuStreamBeginCapture_v2", stream, kGlobalMode), "beginning a capture"));
  Status done = work();
  const int ended = call("cuStreamEndCapture", stream, &graph);
  TW_RETURN_IF_ERROR(done);
  TW_RETURN_IF_ERROR(outcome(ended, "ending a capture"));
  const int made = call("cuGraphInstantiateWithFlags", &executable, graph, 0ULL);
  call("cuGraphDestroy", graph);
  TW_RETURN_IF_ERROR(outcome(made, "instantiating a graph"));
  return std::unique_ptr<CapturedGraph>(new CapturedGraph(executable));
}

CapturedGraph::~CapturedGraph() { call("cuGraphExecDestroy", executable_); }

Status CapturedGraph::launch(Stream stream) const {
  return outcome(call("cuGraphLaunch", executable_, stream), "launching a graph");
}

void GpuTest::SetUpTestSuite() {
  StatusOr<std::unique_ptr<Device>> opened = openCudaDevice(0);
  if (opened.ok())
    device_ = *std::move(opened);
  else
    whyNot_ = opened.status().message();
}

} // namespace tilewright::test
