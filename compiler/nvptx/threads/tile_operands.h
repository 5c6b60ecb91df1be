#pragma once

#include <optional>

#include "compiler/nvptx/threads/line_operand.h"

namespace tilewright::nvptx {

/// The left operand M×K in lines of shared memory along K, one part of K behind the other.
struct LeftLines {
  LeftLines(tile::DotOp op, const layout::AxisMap &rows);
  int64_t bytes() const { return parts * lines.bytes(); }

  layout::SharedTile lines; ///< of one part
  int64_t parts;
};

/// The right operand K×N of a product of tiles by mma.sync, in lines of shared memory. Where it is a load of
/// memory that the kernel does not write, or such a load transposed, cp.async brings it there.
class RightTile {
public:
  RightTile(Lowering &lowering, tile::DotOp op, const layout::AxisMap &columns);

  int64_t bytes() const { return parts * lines.bytes(); }
  void store(Num shared);
  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k);

private:
  void copy(Num shared, tile::LoadOp load);

  Lowering &lowering;
  Emitter &e;
  tile::DotOp op;
  const layout::AxisMap &columns;
  layout::SharedTile lines; ///< of one part
  int64_t parts = 1;        ///< of the contracted axis, one behind the other
};

/// Whether all that is made of a transposed tile are right operands that are copied from memory.
bool isCopiedToShared(const Lowering &lowering, tile::TransposeOp op);

/// Operands of products of tiles that are copied from memory to shared memory of their own. Right ones of a
/// block's products are all copied at the first of them, so that later ones arrive beside the work in
/// between. Left ones are copied where their load stands, once for all iterations of a loop behind it.
class CopiesAhead {
public:
  explicit CopiesAhead(Lowering &lowering);

  int64_t bytes() const { return bytes_; }
  /// Takes the shared memory that all of them need.
  void place() { offset = lowering.chip().take(bytes_); }
  Num memory() const { return lowering.chip().at(offset); } ///< its address
  /// Starts all copies of the block whose first product this is; a barrier stands ahead of them.
  void start(tile::DotOp op, Num memory) const;
  /// Where the operand is in `memory`; none: it is not copied ahead.
  std::optional<Num> placeOf(tile::DotOp op, Num memory) const;
  /// Copies that started behind this operand's.
  int64_t startedAfter(tile::DotOp op) const;

  /// Of loads that nothing but products takes, on their left.
  bool isLeft(mlir::Operation *load) const { return lefts.count(load); }
  void startLeft(tile::LoadOp load, Num memory) const;
  std::optional<Num> placeOfLeft(tile::DotOp op, Num memory) const;

private:
  struct Copy {
    int64_t offset, number;
  };
  struct Left {
    int64_t offset;
    const layout::AxisMap *rows;
  };
  void addLeft(tile::LoadOp load);
  using Group = SmallVector<tile::DotOp, 2>;
  void add(const Group &group, int64_t begin);

  Lowering &lowering;
  llvm::DenseMap<mlir::Operation *, Copy> copies;
  llvm::DenseMap<mlir::Operation *, Group> groups; ///< by their first products
  llvm::DenseMap<mlir::Block *, int64_t> counts;
  llvm::DenseMap<mlir::Operation *, Left> lefts; ///< by their loads
  int64_t bytes_ = 0, offset = 0;
};

} // namespace tilewright::nvptx
