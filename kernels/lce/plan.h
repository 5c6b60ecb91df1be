#pragma once

#include "compiler/base/status.h"
#include "kernels/lce/config.h"
#include "runtime/device.h"

namespace tilewright::lce {

/// Chooses the variant and the largest chunk that is worth its memory and fits `workspaceLimit` bytes (0: no
/// limit). A user error says how much the variant needs at least.
StatusOr<Config> plan(const Request &request, Variant variant, int64_t workspaceLimit,
                      const DeviceInfo &device);

/// The slices of a second pass after `chunks` under the limit, and what dW's memory holds of them.
Config withSlices(const Scheme &scheme, const Config &chunks, int64_t workspaceLimit,
                  const DeviceInfo &device);

/// Whether dW's own memory can hold fp32 sums of some of its columns.
bool canAddInPlace(const Scheme &scheme);

/// Chooses some products anew, for what else a configuration says.
void chooseProducts(const Scheme &scheme, std::initializer_list<ProductKind> kinds, const DeviceInfo &device,
                    Config &config);

/// Bytes of E that are worth their memory on a device. Past 64 MiB, a larger chunk gains less than its memory
/// is worth on a CPU; a GPU needs more rows to fill it, and has more memory.
constexpr int64_t kChunkBytes = int64_t(64) << 20;
int64_t chunkBytes(const DeviceInfo &device);

/// The largest chunk whose exponentials take about `bytes`; of the variant `whole`, all rows.
int64_t largestChunk(const Scheme &scheme, Variant variant, int64_t bytes);

} // namespace tilewright::lce
