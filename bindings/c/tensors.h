#pragma once

#include "bindings/c/tilewright.h"
#include "runtime/device.h"

namespace tilewright::c {

/// The device that a runtime's tensors must be on.
struct DevicePlace {
  int type = kDLCPU; ///< a DLDeviceType
  int index = 0;
};

/// How a call uses its tensors: prepare needs to know which there are, run needs their addresses.
enum class Use { prepare, run };

/// One tensor of a call.
struct Argument {
  const DLTensor *given; ///< null: there is none
  const char *name;      ///< of the structure's field, for messages
  int rank;              ///< of what `result` becomes: 1 takes a tensor of no dimension, too, as one value
  TensorRef *result;
};

/// Reads one tensor that is given; a user error names it and says what does not fit.
Status readTensor(const Argument &argument, DevicePlace place, Use use);

/// All tensors of a call; the results of those that are not given stay as they are.
template <std::size_t count> Status readAll(const Argument (&arguments)[count], DevicePlace place, Use use) {
  for (const Argument &argument : arguments)
    if (argument.given) TW_RETURN_IF_ERROR(readTensor(argument, place, use));
  return {};
}

StatusOr<ElementType> elementTypeOf(DLDataType type);

} // namespace tilewright::c
