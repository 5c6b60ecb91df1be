#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/cuda/context.h"
#include "runtime/device.h"

namespace tilewright::cuda {

/// Name of the kernel by whose launches the device is asked where clusters run.
constexpr const char *kPlacementProbe = "note_multiprocessor";

/// What `Artifact::ranksClusters` asks for: the rank of each cluster of a launch that fills the empty device
/// with clusters of `clusterCtas`, among all of them, where those of a GPC (a group of multiprocessors that
/// a cluster stays within) come one after the other. The hardware gives clusters to its GPCs in turn, which a
/// launch shows; larger clusters show which multiprocessors are a GPC's. The driver tells neither. With which
/// GPC it begins depends on the launches before: on an H200 46 to 54 of the 54 neighbours by rank that could
/// stand in one GPC then do, and none by number.
///
/// Launches probes of 50 µs on `stream` and waits for it. A runtime error where clusters did not find
/// multiprocessors of their own, as when other work is on the device; ranks that are returned are a
/// permutation, whatever was seen.
StatusOr<std::vector<int32_t>> rankClusters(const std::shared_ptr<const Context> &context,
                                            const DeviceInfo &device, int clusterCtas, CUstream stream);

/// The same in the device's memory. By a stream of its own, so that no other thread's capture is disturbed.
StatusOr<Buffer> placeRanks(const std::shared_ptr<const Context> &context, const DeviceInfo &device,
                            int clusterCtas);

} // namespace tilewright::cuda
