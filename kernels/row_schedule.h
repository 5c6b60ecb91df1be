#pragma once

#include <cstdint>
#include <optional>

#include "compiler/element_type.h"
#include "compiler/options.h"
#include "compiler/target.h"

namespace tilewright {

/// What a kernel does with its rows: goes over them once or twice, as a softmax; or more often, or reads
/// vectors beside them, as a layer norm does both.
enum class RowWork { light, heavy };

/// How a kernel that reads whole rows more than once, a row a program, is compiled for a GPU whose programs
/// may have `sharedBytes` of shared memory: a row of `rowBytes` bytes of numbers of this type is read from
/// memory once and stays on chip, on sm_90 and later in a cluster of CTAs. None for a CPU, for rows that are
/// short, and for those that do not fit.
std::optional<Schedule> rowOnChip(int64_t rowBytes, ElementType element, const Target &target,
                                  int64_t sharedBytes, RowWork work = RowWork::light);

} // namespace tilewright
