#pragma once

// Behind the DSL's handles; for this folder only.

#include <map>
#include <optional>
#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include "compiler/artifact.h"
#include "compiler/dialect/tile_ops.h"
#include "compiler/dsl/builder.h"

namespace tilewright {

/// What two tiles that meet in an operator become.
struct TileShape {
  int64_t rows = 1;
  int64_t columns = 1; ///< ShapedType::kDynamic when long
  mlir::Value width;   ///< of a long tile

  bool isLong() const { return mlir::ShapedType::isDynamic(columns); }
};

/// The function under construction. After the first error nothing more is built: operations return handles
/// without a value, so a kernel's body runs to its end whatever it did wrong.
struct KernelBuilder::Impl {
  Impl(mlir::MLIRContext &context, const std::string &name);

  KernelBuilder handle{*this};
  std::string kernelName;
  Status status;
  mlir::OpBuilder builder;
  mlir::Location location;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  std::vector<GridAxis> grid;
  bool hasGrid = false;
  bool bodyBegan = false;
  llvm::DenseMap<mlir::Value, mlir::Value> widths; ///< of long tiles

  template <typename Op, typename... Args> Op create(Args &&...args) {
    return builder.create<Op>(location, std::forward<Args>(args)...);
  }

  void fail(const std::string &operation, const std::string &message);

  /// The handle's value; null, with the error recorded, when it has none that can be used here.
  mlir::Value use(const Handle &handle, const char *operation);
  /// The same for a tile of one of these element types (all of them when empty).
  mlir::Value useTile(const Tile &tile, const char *operation, llvm::StringRef expected = "",
                      llvm::function_ref<bool(mlir::Type)> accepts = nullptr);
  mlir::Value useColumn(const Tile &index, const char *operation, int64_t rows);
  tile::ViewType viewType(const View &view) { return mlir::cast<tile::ViewType>(rawType(view)); }
  mlir::Type rawType(const Handle &handle) {
    return mlir::Value::getFromOpaquePointer(handle.opaque()).getType();
  }

  Tile wrapTile(mlir::Value value, mlir::Value width = {});
  Index wrapIndex(mlir::Value value) { return {&handle, value.getAsOpaquePointer()}; }
  Condition wrapCondition(mlir::Value value) { return {&handle, value.getAsOpaquePointer()}; }
  View wrapView(mlir::Value value) { return {&handle, value.getAsOpaquePointer()}; }
  Tile noTile() { return {&handle, nullptr}; }
  Index noIndex() { return {&handle, nullptr}; }

  mlir::Value constantIndex(int64_t value);
  TileShape shapeOf(mlir::Value tile);
  /// The smallest shape that both broadcast to; none, with the error recorded, when there is none.
  std::optional<TileShape> join(const TileShape &a, const TileShape &b, const char *operation);
  bool broadcastsTo(mlir::Value tile, const TileShape &shape);
  mlir::Value broadcastTo(mlir::Value tile, const TileShape &shape);

  mlir::Type mlirType(ElementType element);
  /// bf16 and f16 tiles as f32, everything else as it is.
  mlir::Value widened(mlir::Value tile);
  /// `tile` as the elements of `view`, f32 rounded to nearest; null, with the error recorded, when it cannot
  /// be.
  mlir::Value asElementsOf(mlir::Value tile, tile::ViewType view, const char *operation);
};

/// The builder behind the first operand that has one; null when none has, and there is nobody to tell.
KernelBuilder::Impl *implOf(std::initializer_list<const Handle *> operands);

/// Two operands of one element type, broadcast to one shape.
struct Operands {
  mlir::Value a, b;
  TileShape shape;
  bool isFloat() const { return llvm::isa<mlir::FloatType>(tile::elementOf(a.getType())); }
};

/// None, with the error recorded, where `accepts` (null: everything) does not take them, or they do not meet.
std::optional<Operands> meet(KernelBuilder::Impl &impl, const char *operation, const Tile &a, const Tile &b,
                             llvm::StringRef expected, llvm::function_ref<bool(mlir::Type)> accepts);

/// Letters, digits and _, no digit first.
bool isIdentifier(llvm::StringRef name);

/// "8x64 f32", as messages write a tile's type.
std::string describe(mlir::Type tile);
std::string describe(const TileShape &shape);
/// "view of rank 2 of bf16".
std::string describe(tile::ViewType view);

} // namespace tilewright
