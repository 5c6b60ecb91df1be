#pragma once

#include <vector>

#include "tests/support/loss_run.h"

namespace tilewright::test {

/// How the classes and the rows of a case are cut.
struct Sharding {
  std::vector<int64_t> sizes; ///< classes of each rank
  int64_t chunkRows = 0;      ///< 0: as planned

  std::string str() const;
};

/// About equal sizes.
std::vector<int64_t> evenSizes(int64_t classes, int64_t ranks);

/// What all ranks computed in this process, where a gather is a concatenation.
struct ShardedResult {
  LossResult whole;              ///< of rank 0, with dX added up, dW and db put together
  std::vector<LossResult> ranks; ///< of each: losses and the like, and its part of dX
  int64_t chunks = 0, chunkBuffers = 0;
  std::vector<std::string> schedules;
};

/// Runs what a call asks for, fused or, with `call.apart`, forward and backward.
ShardedResult runSharded(Runtime &runtime, const LossCase &data, const LossCall &call,
                         const Sharding &sharding);

} // namespace tilewright::test
