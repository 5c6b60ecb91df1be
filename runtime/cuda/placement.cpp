#include "runtime/cuda/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runtime/cuda/handles.h"

namespace tilewright::cuda {
namespace {

/// Each CTA notes its multiprocessor, and stays for 50 µs, so that all of a launch are there at once.
constexpr const char *kProbe = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry note_multiprocessor(.param .u64 notes)
{
  .reg .pred early;
  .reg .b32 cta, multiprocessor;
  .reg .b64 place, begin, now;
  ld.param.u64 place, [notes];
  mov.u32 cta, %ctaid.x;
  mov.u32 multiprocessor, %smid;
  mad.wide.u32 place, cta, 4, place;
  st.global.u32 [place], multiprocessor;
  mov.u64 begin, %globaltimer;
wait:
  mov.u64 now, %globaltimer;
  sub.u64 now, now, begin;
  setp.lt.u64 early, now, 50000;
  @early bra wait;
  ret;
}
)";
constexpr unsigned kThreads = 384; ///< as kernels have that ask for ranks

using Multiprocessors = std::vector<int32_t>;

/// The probe, loaded; a CTA has a multiprocessor of its own, for it takes all of its shared memory.
class Probe {
public:
  static StatusOr<Probe> load(const std::shared_ptr<const Context> &context, const DeviceInfo &device,
                              CUstream stream) {
    const Driver &driver = context->driver();
    CUmodule loaded = nullptr;
    TW_RETURN_IF_ERROR(TW_CUDA(driver, cuModuleLoadData, &loaded, kProbe));
    Module module(context, loaded);
    CUfunction function = nullptr;
    TW_RETURN_IF_ERROR(TW_CUDA(driver, cuModuleGetFunction, &function, module.get(), kPlacementProbe));
    const auto shared = static_cast<int>(device.sharedBytes);
    TW_RETURN_IF_ERROR(TW_CUDA(driver, cuFuncSetAttribute, function,
                               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
    return Probe(context, std::move(module), function, static_cast<unsigned>(shared), stream);
  }

  /// Of each CTA.
  StatusOr<Multiprocessors> launch(unsigned ctas, unsigned clusterCtas) const {
    const Driver &driver = context_->driver();
    TW_ASSIGN_OR_RETURN(const HostMemory notes, allocateMapped(context_, ctas * sizeof(int32_t)));
    CUlaunchAttribute cluster = {};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {clusterCtas, 1, 1};
    const CUlaunchConfig config = {ctas, 1, 1, kThreads, 1, 1, sharedBytes_, stream_, &cluster, 1};
    void *memory = notes.get(), *parameters[] = {&memory};
    TW_RETURN_IF_ERROR(TW_CUDA(driver, cuLaunchKernelEx, &config, function_, parameters, nullptr));
    TW_RETURN_IF_ERROR(TW_CUDA(driver, cuStreamSynchronize, stream_));
    const auto *first = static_cast<const int32_t *>(memory);
    return Multiprocessors(first, first + ctas);
  }

private:
  Probe(std::shared_ptr<const Context> context, Module module, CUfunction function, unsigned sharedBytes,
        CUstream stream)
      : context_(std::move(context)), module_(std::move(module)), function_(function),
        sharedBytes_(sharedBytes), stream_(stream) {}

  std::shared_ptr<const Context> context_;
  Module module_;
  CUfunction function_;
  unsigned sharedBytes_;
  CUstream stream_;
};

/// Multiprocessors that were seen in one cluster, or in clusters that overlap, are a GPC's.
class Gpcs {
public:
  /// `cluster`: its first CTA's.
  void join(const int32_t *cluster, unsigned ctas) {
    const int32_t into = of(*cluster);
    for (unsigned i = 1; i < ctas; ++i)
      if (const int32_t from = of(cluster[i]); from != into)
        for (auto &[multiprocessor, gpc] : gpcs_)
          if (gpc == from) gpc = into;
  }
  /// The number of one of its GPC's.
  int32_t of(int32_t multiprocessor) { return gpcs_.emplace(multiprocessor, multiprocessor).first->second; }

private:
  std::map<int32_t, int32_t> gpcs_;
};

StatusOr<Gpcs> findGpcs(const Probe &probe, unsigned multiprocessors) {
  constexpr unsigned kRounds = 4; // whoever is done makes room for clusters that overlap with those before
  Gpcs gpcs;
  for (const unsigned ctas : {8u, 6u, 4u}) {
    const unsigned clusters = kRounds * multiprocessors / ctas;
    TW_ASSIGN_OR_RETURN(const Multiprocessors seen, probe.launch(clusters * ctas, ctas));
    for (unsigned i = 0; i < clusters; ++i)
      gpcs.join(&seen[i * ctas], ctas);
  }
  return gpcs;
}

} // namespace

StatusOr<std::vector<int32_t>> rankClusters(const std::shared_ptr<const Context> &context,
                                            const DeviceInfo &device, int clusterCtas, CUstream stream) {
  TW_ASSIGN_OR_RETURN(const Probe probe, Probe::load(context, device, stream));
  const auto size = static_cast<unsigned>(clusterCtas);
  const unsigned clusters = static_cast<unsigned>(device.units) / size, ctas = clusters * size;
  TW_ASSIGN_OR_RETURN(const Multiprocessors seen, probe.launch(ctas, size));
  if (std::set<int32_t>(seen.begin(), seen.end()).size() != ctas)
    return deviceError("expected " + std::to_string(ctas) +
                       " CTAs on as many multiprocessors, found others' work on some of them");
  TW_ASSIGN_OR_RETURN(Gpcs gpcs, findGpcs(probe, static_cast<unsigned>(device.units)));

  std::vector<std::tuple<int32_t, int32_t, unsigned>> order; // GPC, multiprocessor, cluster
  for (unsigned i = 0; i < clusters; ++i)
    order.emplace_back(gpcs.of(seen[i * size]), seen[i * size], i);
  std::sort(order.begin(), order.end());
  std::vector<int32_t> ranks(clusters);
  for (unsigned rank = 0; rank < clusters; ++rank)
    ranks[std::get<2>(order[rank])] = static_cast<int32_t>(rank);
  return ranks;
}

StatusOr<Buffer> placeRanks(const std::shared_ptr<const Context> &context, const DeviceInfo &device,
                            int clusterCtas) {
  const Driver &driver = context->driver();
  CurrentContext current(*context);
  TW_RETURN_IF_ERROR(current.status());
  OutsideCapture outside(driver);
  TW_ASSIGN_OR_RETURN(const OwnStream stream, makeStream(context));
  TW_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks,
                      rankClusters(context, device, clusterCtas, stream.get()));
  const std::size_t bytes = ranks.size() * sizeof ranks[0];
  CUdeviceptr address = 0;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuMemAlloc, &address, bytes));
  auto memory = std::make_shared<DeviceMemory>(context, address);
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuMemcpyHtoDAsync, address, ranks.data(), bytes, stream.get()));
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuStreamSynchronize, stream.get()));
  return Buffer(reinterpret_cast<void *>(address), bytes, std::move(memory));
}

} // namespace tilewright::cuda
