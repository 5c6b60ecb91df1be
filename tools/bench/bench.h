#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "compiler/base/status.h"
#include "compiler/element_type.h"
#include "runtime/runtime.h"
#include "tools/bench/products.h"
#include "tools/cli/arguments.h"
#include "tools/cli/number_type.h"

namespace tilewright {

/// Each measures, prints a table, and returns the same figures as JSON.

/// How forward and backward are apart: not at all; the forward call makes the gradients, which the backward
/// call multiplies; or the backward call makes them from lse.
enum class ApartBy { nothing, gradients, lse };

/// What of linear + cross entropy is measured, and beside what.
struct LinearBench {
  Baseline baseline = Baseline::none;
  int64_t workspaceLimit = 0;      ///< bytes; 0: none
  bool peaked = false;             ///< data as of a trained model
  bool lossOnly = false;           ///< no gradient
  bool wideWeightGradient = false; ///< dW in fp32
  ApartBy apart = ApartBy::nothing;
  double seconds = 16; ///< of measuring one shape
};

/// Linear + cross entropy in turn with its products through a library. Checks a sample of the result against
/// float64 first. `measureLinear` prints nothing.
StatusOr<nlohmann::ordered_json> measureLinear(Runtime &runtime, const ProblemShape &shape,
                                               const NumberType &type, const LinearBench &what);
StatusOr<nlohmann::ordered_json> benchLinear(Runtime &runtime, const ProblemShape &shape,
                                             const NumberType &type, const LinearBench &what);

/// One problem of a grid: the head of a public model, and a number of rows.
struct HeadProblem {
  std::string model;
  ProblemShape shape;
};

/// A JSON array of objects with "model", "rows", "hidden" and "classes"; `heads.json` is one.
StatusOr<std::vector<HeadProblem>> readGrid(const std::string &path);

/// `measureLinear` of each problem, a line each, and what the ratios come to: the geometric mean, the worst.
/// If some fail, the others are measured all the same, and the last failure is returned. `save` is given the
/// figures so far after each problem.
Status benchGrid(Runtime &runtime, const std::vector<HeadProblem> &problems, const NumberType &type,
                 LinearBench what, const std::function<Status(const nlohmann::ordered_json &)> &save);

/// The host's time for a call of linear + cross entropy, and what it asks of the heap: prepared, and as one
/// call; with launches that do nothing, and real ones where they take less than half a second. A GPU's code
/// is for the named target (empty: all that it has).
StatusOr<nlohmann::ordered_json> benchHost(const ProblemShape &shape, const NumberType &type,
                                           const LinearBench &what, const std::string &target);

/// Linear + cross entropy with each of its options, in turn with the plain loss.
StatusOr<nlohmann::ordered_json> benchOptions(Runtime &runtime, const ProblemShape &shape,
                                              const NumberType &type);

/// The computation of shards of the classes, one shard after the other on one device, in turn with the call
/// that has all classes; for each of these numbers of shards. Checks samples of the results first.
StatusOr<nlohmann::ordered_json> benchShards(Runtime &runtime, const ProblemShape &shape,
                                             const NumberType &type, const LinearBench &what,
                                             const std::vector<int64_t> &ranks);

/// Loss and gradient in place over N×V logits, in turn with a copy of as many bytes: the least traffic there
/// is when a row is read and written once. H plays no part.
StatusOr<nlohmann::ordered_json> benchOverLogits(Runtime &runtime, const ProblemShape &shape,
                                                 ElementType element);

/// An example kernel, in turn with a copy of the bytes that it has to read and write; a matrix product on a
/// GPU in turn with cuBLAS's. Checks a sample of the result first. `sizes` are those that `makeExample`
/// takes.
StatusOr<nlohmann::ordered_json> benchKernel(Runtime &runtime, const std::string &name,
                                             const std::vector<int64_t> &sizes, const NumberType &type);

/// Opening a runtime, with the bundles and the cache that the environment names, and the first calls of
/// linear + cross entropy with its gradients. Meant for a process that has done nothing yet.
StatusOr<nlohmann::ordered_json> benchFirstCall(const ProblemShape &shape, const NumberType &type,
                                                const std::string &target);

/// From DSL to object or PTX for each kernel; then a first call with nothing cached, one with all kernels on
/// disk, and one with kernels from a bundle. A GPU's code is for the named target (empty: all that it has).
StatusOr<nlohmann::ordered_json> benchCompile(const ProblemShape &shape, ElementType element,
                                              const std::string &target);

/// Bytes that linear + cross entropy's tensors take, with the CPU's own copies of them.
double linearBytes(const ProblemShape &shape, ElementType element);

/// A user error when tensors of so many bytes do not fit the device's memory.
Status checkFits(double bytes, const Device &device);

} // namespace tilewright
