#pragma once

#include <vector>

#include "compiler/artifact.h"

namespace mlir {
class FunctionOpInterface;
class Type;
} // namespace mlir

namespace tilewright::tile {

/// What a view of such elements holds.
ElementType elementType(mlir::Type type);

/// A kernel's parameters and launch grid, as its attributes say. The kernel is verified.
std::vector<Parameter> parametersOf(mlir::FunctionOpInterface kernel);
std::vector<GridAxis> gridOf(mlir::FunctionOpInterface kernel);

} // namespace tilewright::tile
