#pragma once

#include <optional>

#include "compiler/nvptx/ptx/wgmma.h"
#include "compiler/nvptx/threads/line_operand.h"

namespace tilewright::nvptx {

/// The left operand M×K in lines of shared memory along K, one part of K behind the other.
struct LeftLines {
  LeftLines(tile::DotOp op, const layout::AxisMap &rows);
  int64_t bytes() const { return parts * lines.bytes(); }

  layout::SharedTile lines; ///< of one part
  int64_t parts;
};

/// The right operand K×N of a product of tiles by tensor cores, in lines of shared memory. Where it is a load
/// of memory that the kernel does not write, or such a load transposed, cp.async brings it there.
class RightTile {
public:
  RightTile(Lowering &lowering, tile::DotOp op, const layout::AxisMap &columns);

  int64_t bytes() const { return parts * lines.bytes(); }
  void store(Num shared);
  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k);
  /// Depths [k, k + 64) for wgmma.
  WgmmaOperand forWgmma(Num shared, int64_t k) const;

private:
  void copy(Num shared, tile::LoadOp load);

  Lowering &lowering;
  Emitter &e;
  tile::DotOp op;
  const layout::AxisMap &columns;
  layout::SharedTile lines; ///< of one part
  int64_t parts = 1;        ///< of the contracted axis, one behind the other
};

/// Whether an operation has run when `op` does: it stands ahead of it, or ahead of a block around it.
bool isMadeAhead(mlir::Operation *maker, mlir::Operation *op);

/// Whether all that is made of a transposed tile are right operands that are copied from memory.
bool isCopiedToShared(const Lowering &lowering, tile::TransposeOp op);

/// Operands of products of tiles that are copied from memory to shared memory of their own. Right ones of a
/// block's products are all copied at the first of them, so that later ones arrive beside the work in
/// between. Left ones are copied where their load stands, once for all iterations of a loop behind it.
class CopiesAhead {
public:
  explicit CopiesAhead(Lowering &lowering);

  int64_t bytes() const { return bytes_; }
  /// Of all operands of products of tiles in shared memory, copied ahead or not.
  int64_t alignment() const { return hasWgmma ? 1024 : 16; }
  /// Takes the shared memory that all of them need.
  void place() { offset = lowering.chip().take(bytes_); }
  Num memory() const { return lowering.chip().at(offset); } ///< its address
  /// Starts all copies of the block whose first product this is; a barrier stands ahead of them.
  void start(tile::DotOp op) const;
  /// Where the operand is; none: it is not copied ahead.
  std::optional<Num> placeOf(tile::DotOp op) const;
  /// Copies that started behind this operand's.
  int64_t startedAfter(tile::DotOp op) const;

  /// Of loads that nothing but products takes, on their left.
  bool isLeft(mlir::Operation *load) const { return lefts.count(load); }
  void startLeft(tile::LoadOp load) const;
  std::optional<Num> placeOfLeft(tile::DotOp op) const;

private:
  struct Left {
    int64_t offset;
    const layout::AxisMap *rows;
  };
  /// The products of a block whose right operands are copied ahead, and where each is.
  struct Group {
    SmallVector<tile::DotOp, 2> products;
    SmallVector<int64_t, 2> offsets;
  };
  void addLeft(tile::LoadOp load);
  void add(Group group, int64_t begin);
  const Group *groupOf(tile::DotOp op) const;

  Lowering &lowering;
  std::vector<Group> groups;
  llvm::DenseMap<mlir::Operation *, Left> lefts; ///< by their loads
  int64_t bytes_ = 0, offset = 0;
  bool hasWgmma = false;
};

} // namespace tilewright::nvptx
