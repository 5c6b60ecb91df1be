#pragma once

#include "compiler/cpu/emitter.h"
#include "compiler/cpu/strips_in_pairs.h"
#include "compiler/dialect/tile_ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace tilewright::cpu {

/// A tile that lives in the program's scratch memory. A column is dense. Rows of other tiles are as long as
/// whole micro tiles of a product, so that every access is a whole vector. Truth values take a byte each.
struct TileBuffer {
  Value pointer;
  int64_t rows = 0, columns = 0, stride = 0;
  Type element;
};

mlir::RankedTensorType tileType(Value value);
/// What a tile's element takes in a TileBuffer.
Type storedType(Type element);

/// Ops that have a cost of nothing: evaluated again wherever they are needed.
bool isFree(mlir::Operation *op);
/// Ops that are evaluated strip by strip inside loops over rows and columns (see nest.h).
bool isElementwise(mlir::Operation *op);

/// Rewrites one kernel into a function of (slots, program id, scratch). Scalars and control flow are emitted
/// where they stand; runs of element-wise ops are collected and emitted as fused loop nests as soon as
/// something else needs what they make.
class FunctionLowering {
public:
  FunctionLowering(mlir::func::FuncOp kernel, const Machine &machine);
  mlir::LogicalResult run();

  Emitter &emitter() { return e; }
  const MemoryView &view(Value value) const { return views.find(value)->second; }
  Value scalar(Value value) { return scalars.lookupOrDefault(value); }
  const TileBuffer *buffer(Value value) const;
  bool takesPairs(mlir::Operation *op) const { return pairs.contains(op->getBlock()); }
  /// A product's accumulators have a multiple of `rowUnit` rows.
  TileBuffer allocate(mlir::RankedTensorType type, int64_t rowUnit = 1);
  void setBuffer(Value value, TileBuffer buffer) { buffers[value] = buffer; }

private:
  void bindParameters();
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  bool overwritesOtherElements(mlir::Operation *op) const;
  mlir::LogicalResult lowerOp(mlir::Operation &op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp loop);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  void lowerProduct(Value result, const struct ProductOperand &left, const struct ProductOperand &right);
  void lowerDot(tile::DotOp op);
  void lowerContract(tile::ContractOp op);
  void takePart(tile::ContractOp op, ProductOperand &left, ProductOperand &right);
  void lowerTranspose(tile::TransposeOp op);
  void lowerExtract(tile::ExtractOp op);

  MemoryView reinterpreted(MemoryView view, Type element);
  Value interiorColumns(tile::InteriorOp op);
  void flush();
  TileBuffer materialise(Value value);
  void copy(const TileBuffer &from, const TileBuffer &to);
  void copyElements(const TileBuffer &from, const TileBuffer &to, int64_t rows, int64_t columns,
                    bool transposed);
  Value scratchAt(int64_t bytes);

  mlir::func::FuncOp kernel, lowered;
  mlir::OpBuilder builder;
  Emitter e;
  StripsInPairs pairs;
  mlir::DenseMap<Value, MemoryView> views;
  mlir::DenseMap<Value, TileBuffer> buffers;
  mlir::IRMapping scalars;
  mlir::SmallVector<mlir::Operation *> cluster; ///< element-wise ops that wait to be emitted
  int64_t scratchBytes = 0;
};

} // namespace tilewright::cpu
