#pragma once

#include "compiler/nvptx/threads/epilogue_pieces.h"
#include "compiler/nvptx/threads/exchange.h"
#include "compiler/nvptx/threads/warp_role.h"

namespace tilewright::nvptx {

/// Loads and element-wise ops that sinks need, each behind those that it needs itself.
SmallVector<mlir::Operation *> neededBy(llvm::ArrayRef<mlir::Operation *> sinks);

/// Stores and reductions that go over the same registers, emitted side by side, so that few registers live at
/// once.
class SinkGroup {
public:
  /// When a sink's part across threads comes: a maximum's place is known once that is; what a loop's
  /// reductions defer waits until the loop is over.
  enum class Turn { first, place, deferred };

  /// `role`: null where all warps do the same.
  SinkGroup(Lowering &lowering, WarpRole *role) : lowering(lowering), e(lowering.emitter()), role(role) {}
  void add(mlir::Operation *sink, Turn turn) { sinks.emplace_back(sink, turn); }
  void emit();

private:
  using Ops = SmallVector<mlir::Operation *>;
  void open();
  EpiloguePieces plan();
  void combine();
  void emitPieces();
  void emitTallPieces(const EpiloguePieces &pieces);
  void emitPiece(const EpiloguePieces &pieces, int64_t row, int64_t column);
  void emitPart(const EpiloguePieces &pieces, int64_t row, int64_t column);
  void evaluatePart(StoreTarget::Piece part, int64_t row, int64_t column);
  void loadBlocks(const EpiloguePieces &pieces, int64_t row, int64_t column);
  void inBlockOfItsOwn(int64_t row, int64_t rows, llvm::function_ref<void()> body);
  void evaluateNarrowLoads(const EpiloguePieces &pieces);
  StoreTarget::Piece wantedPiece() const;
  Ops loads() const;
  Ops unknownLoads(llvm::function_ref<bool(Value)> isWanted) const;
  llvm::MutableArrayRef<RegisterSums> sumsOf(Turn turn);
  std::unique_ptr<StoreTarget> storeTarget(mlir::Operation *store);

  Lowering &lowering;
  Emitter &e;
  WarpRole *role;
  SmallVector<std::pair<mlir::Operation *, Turn>> sinks;
  Ops ops; ///< of the sinks, in their turns
  TileLayout layout;
  SmallVector<std::unique_ptr<StoreTarget>> targets; ///< of the stores
  SmallVector<RegisterSums> sums;                    ///< of the reductions
  SmallVector<Turn> turns;                           ///< of the sums
  Ops blocks, rowVectors;                            ///< loads that each part makes for itself
};

} // namespace tilewright::nvptx
