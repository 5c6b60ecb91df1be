#pragma once

#include "kernels/lce/config.h"
#include "runtime/device.h"

namespace tilewright::lce {

/// What a product takes on a GPU that it was not measured on. The planner, the tuner's order and what `plan`
/// prints all go by this.

/// How fast a GPU computes these products, from runs of `bench --grid`.
struct GpuSpeed {
  const char *chip;    ///< as a device's name has it
  double multiplyAdds; ///< of 16-bit numbers, of a multiprocessor in a second, under a long load
  double bytes;        ///< of memory, in a second
  double launch;       ///< seconds from one small kernel to the next
  int weightRaster;   ///< `rasterRows` of a dW whose rows of X do not stay in the cache; 0: by the bytes read
  int64_t deepWeight; ///< rows from which on a dW of 16-bit numbers takes tiles that pairs share
  int64_t deepLogits; ///< hidden size from which on logits that are stored as bf16 take such tiles
};
/// Those of the chip that a device's name has, else of the first that was measured.
const GpuSpeed &speedOf(const DeviceInfo &device);

/// Seconds of one small kernel more between products: the multiprocessors run dry before it and fill again
/// behind it. On an H200 dX of 2048×2048×50304 takes 25 µs more in f16, and 50 in TF32, in three parts than
/// in whole tiles that fill as much; 24 of these are the parts' bytes.
constexpr double kBetweenProducts = 18e-6;

struct ProductCost {
  double rounds;  ///< tiles that the busiest multiprocessor computes, one after the other
  double bytes;   ///< of operands read from memory, and of results written
  double seconds; ///< with what adds up the parts of dX's tail
};

/// Of a chunk or slice of this shape, in the configuration's tiles; of dX with the configuration's tail.
ProductCost productCost(const Scheme &scheme, const Config &config, ProductKind kind,
                        const ProductShape &shape, const DeviceInfo &device);

/// Its rounds alone, on a CPU's threads, too.
double roundsOf(const Config &config, ProductKind kind, const ProductShape &shape, const DeviceInfo &device);

/// The tail of dX that takes the least time, among those whose parts find room; none where warps are alike.
void chooseTail(const Scheme &scheme, const DeviceInfo &device, Config &config);

} // namespace tilewright::lce
