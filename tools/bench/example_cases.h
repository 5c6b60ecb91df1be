#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "compiler/element_type.h"
#include "runtime/device.h"

namespace tilewright {

/// An example kernel on random data, made for a device and loaded there.
struct ExampleCase {
  std::function<Status()> run;             ///< enqueues it
  std::function<StatusOr<double>()> error; ///< of a sample of the result, relative to float64
  double bytes = 0;                        ///< that have to be read and written
  double operations = 0;                   ///< multiplications and additions of products; of others 0
  double compileMilliseconds = 0;          ///< from the DSL to what the device loads
  std::function<Status()> baseline;        ///< the same product by a library, where there is one
  std::string baselineName;
  std::shared_ptr<void> memory; ///< all of its tensors
};

/// The examples that can be measured.
const std::vector<std::string> &exampleNames();

/// `name` is one of `exampleNames`. `sizes` are N for vector_add and dropout; rows and columns for
/// row_softmax, layer_norm and layer_norm_gradient; M, N and K for matmul; the numbers of heads, of positions
/// and of a head's width for attention. A user error says which are expected.
StatusOr<ExampleCase> makeExample(Device &device, const std::string &name, const std::vector<int64_t> &sizes,
                                  ElementType element);

} // namespace tilewright
