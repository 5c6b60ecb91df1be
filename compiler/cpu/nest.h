#pragma once

#include "compiler/cpu/function_lowering.h"

namespace tilewright::cpu {

/// Emits a run of element-wise ops as loop nests over rows and, inside, over strips of one vector of columns;
/// of several in the interior of streamed rows, where nothing has a mask.
///
/// Only what has an effect drives a nest, its *sinks*: stores, reductions, and tiles that something outside
/// the run needs. All else is evaluated where a sink asks for it: R×C and 1×C tiles a vector at a time, R×1
/// tiles as one scalar a row, 1×1 tiles once. A row of a nest goes through *phases*, one loop over columns
/// each: what depends on a reduction along the row belongs to the phase after it. Values are evaluated anew
/// in each phase (a tile's row is in the first-level cache by then), and stores wait for the last one, so
/// that no phase reads what another has overwritten.
void emitCluster(FunctionLowering &lowering, llvm::ArrayRef<mlir::Operation *> cluster);

/// Evaluates one tile into a buffer of its own.
void emitMaterialised(FunctionLowering &lowering, Value value);

} // namespace tilewright::cpu
