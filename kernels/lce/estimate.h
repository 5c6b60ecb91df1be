#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/lce/config.h"
#include "runtime/device.h"

namespace tilewright::lce {

/// How fast a GPU computes these products, from runs of `bench --grid`.
struct GpuSpeed {
  const char *chip;    ///< as a device's name has it
  double multiplyAdds; ///< of 16-bit numbers, of a multiprocessor in a second, under a long load
  double bytes;        ///< of memory, in a second
  double launch;       ///< seconds from one small kernel to the next
};
/// Those of the chip that a device's name has, else of the first that was measured.
const GpuSpeed &speedOf(const DeviceInfo &device);

/// A product of a call, over all of its chunks.
struct ProductEstimate {
  ProductKind kind;
  std::string name;
  Product product;
  ProductShape shape; ///< of a whole chunk
  double rounds;      ///< tiles that the busiest multiprocessor computes, one after the other, of a chunk
  double filled;      ///< share of the rounds' multiply-adds that the result needs
  double bytes;       ///< of operands read from memory and results written, of a chunk
  double seconds;
};

/// Where the planner expects a call's time to go.
struct CallEstimate {
  std::vector<ProductEstimate> products;
  double othersSeconds = 0; ///< everything beside the products
  double seconds() const;
};

/// None where warps have no roles: portable code and CPUs are not estimated; nor is a second pass.
std::optional<CallEstimate> estimateCall(const Scheme &scheme, const Config &config,
                                         const DeviceInfo &device);

} // namespace tilewright::lce
