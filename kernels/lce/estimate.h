#pragma once

#include <string>
#include <vector>

#include "kernels/lce/product_cost.h"

namespace tilewright::lce {

/// A product of a call, over all of its chunks.
struct ProductEstimate {
  ProductKind kind;
  std::string name;
  Product product;
  ProductShape shape; ///< of a whole chunk
  ProductCost cost;   ///< of a whole chunk
  double filled;      ///< share of the rounds' multiply-adds that the result needs
  double seconds;     ///< of all chunks
};

/// Where the planner expects a call's time to go.
struct CallEstimate {
  std::vector<ProductEstimate> products;
  double othersSeconds = 0; ///< everything beside the products
  double seconds() const;
};

/// Of a call on a GPU, but for its second pass. Where warps have no roles, it serves to compare.
CallEstimate estimateCall(const Scheme &scheme, const Config &config, const DeviceInfo &device);

/// Seconds of the second pass alone.
double secondPassSeconds(const Scheme &scheme, const Config &config, const DeviceInfo &device);

/// Whether the times of a call are known well enough to be shown: not those of CPUs, of portable code, and of
/// second passes.
bool isEstimated(const Scheme &scheme, const Config &config);

} // namespace tilewright::lce
