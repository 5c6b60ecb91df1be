#pragma once

#include "compiler/dialect/tile_ops.h"
#include "compiler/nvptx/ptx/emitter.h"
#include "compiler/nvptx/ptx/store_target.h"
#include "compiler/nvptx/threads/access_order.h"
#include "compiler/nvptx/tile_gpu/layouts.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tilewright::nvptx {

/// A tensor in global or shared memory: its address and sizes are i64 values.
struct MemoryView {
  Value root; ///< the kernel's argument, or what made it on chip
  Num pointer;
  SmallVector<Num, 2> sizes;
  Num rowStride{nullptr, {}}; ///< rank 2
  Type element;
  bool isShared = false;
};

/// Ops that are evaluated an element at a time wherever they are needed.
bool isElementwise(mlir::Operation *op);
bool isLoad(mlir::Operation *op);
bool isStore(mlir::Operation *op);
using tile::tileOf;
using tile::viewOf;
/// What a tile repeats, or the tile itself.
Value withoutBroadcasts(Value tile);

/// Whether a register and its neighbour, the other one of an even and an odd number, hold columns side by
/// side.
bool isPaired(TileLayout layout, int64_t column);

/// Positions on the left that are compared with a number from which what they begin at can be taken without
/// overflow: with any for equality, with a size for order as signed numbers.
tile::IotaOp positionsOf(mlir::arith::CmpIOp op);

/// Accumulators of a thread beyond which it has hardly any other registers.
constexpr int64_t kManyAccumulators = 128;

class FunctionLowering;

/// Warps that do only a part of what a product takes: those that load its operands, or those that multiply.
class WarpRole {
public:
  virtual ~WarpRole() = default;
  /// Lowers a product and, as far as it is this role's, what follows it in its block.
  virtual mlir::LogicalResult lowerFrom(tile::ContractOp op) = 0;
  /// Where a store goes, if not to memory by the threads themselves.
  virtual std::unique_ptr<StoreTarget> storeTarget(mlir::Operation *) { return nullptr; }
};

/// Threads that run programs together: a whole CTA, or some of its warps.
struct Team {
  Num thread;       ///< this thread's number among them, i32
  Num sharedMemory; ///< address (i32) of the shared memory that they exchange values in
  Value barrier;    ///< number (i32) of the barrier that they meet at; null: all threads of the CTA are meant
};

Num addressOfSharedMemory(Emitter &e); ///< i32
using tile::rootOf;
/// Whether a parameter of a kernel, or of a part of one, is written by the whole kernel.
bool isWritten(mlir::BlockArgument parameter);
/// Memory that a kernel writes, by the views that `rootOf` gives.
llvm::SmallPtrSet<void *, 4> writtenRootsOf(mlir::func::FuncOp kernel);
/// Whether a load reads a block that goes into nothing but what a store of the same block replaces it with,
/// and stores beside that at the same place of other matrices: it may then be read as late as these need it.
bool isReplaced(mlir::Operation *load);

/// The function that a kernel becomes, without a body. Each view is passed as its address and sizes.
mlir::func::FuncOp declareLowered(mlir::func::FuncOp kernel, mlir::OpBuilder &builder,
                                  llvm::ArrayRef<Type> furtherParameters = {});

/// Rewrites one kernel as the program of one thread of a CTA.
///
/// A tile is a list of registers, row after row (see Layouts). Element-wise ops are evaluated on demand, a
/// register at a time; what drives them are *sinks*: stores and reductions, collected and emitted side by
/// side, row by row, so that few registers live at once. Loads are emitted where they stand, or, of memory
/// that the kernel does not write, on demand in kernels whose registers are full of accumulators.
class FunctionLowering {
public:
  FunctionLowering(mlir::func::FuncOp kernel, const LoweringOptions &options, Emitter &emitter);
  ~FunctionLowering();
  /// One CTA runs one program.
  mlir::LogicalResult run();

  // ---- where a CTA's warps have roles, instead of `run` ----

  /// Code for a team begins where the builder is.
  void enter(mlir::func::FuncOp lowered, const Team &team);
  /// Ops of the kernel that are the same for every program.
  mlir::LogicalResult lowerInvariant();
  /// Without this (i1), the same for every program, none does anything; null where there is no such
  /// condition. Programs that follow count on it.
  Value invariantCondition();
  /// The other ops, for the program with these numbers along the grid's axes (i64).
  mlir::LogicalResult lowerProgram(llvm::ArrayRef<Num> programIds, WarpRole &role);
  /// The ops of a block that stand behind `op`.
  mlir::LogicalResult lowerAfter(mlir::Operation *op);
  /// What depends on the thread's number is computed anew from here on. LLVM would else move all of it out of
  /// a loop over programs, where it takes registers while the product needs them.
  void forgetPositions();
  /// Brings blocks that loads beside a product read to the second-level cache while the product runs.
  void prefetchBeside(tile::ContractOp product);
  /// Lowers what `body` does into a block; what is evaluated there is not known behind it.
  mlir::LogicalResult within(mlir::Block *block, llvm::function_ref<mlir::LogicalResult()> body);
  void setRegisters(Value tile, SmallVector<Value> values) { registers[tile] = std::move(values); }
  int64_t exchangeBytes() const { return sharedBytes; }
  void flush();

  // ---- for the parts in other files ----

  mlir::func::FuncOp function() const { return kernel; }
  Emitter &emitter() { return e; }
  const Layouts &layouts() const { return layouts_; }
  const LoweringOptions &options() const { return options_; }
  const MemoryView &view(Value value) const { return views.find(value)->second; }
  /// Whether loads read this matrix beside a product's operands.
  bool isReadBeside(const MemoryView &view) const {
    return hasProducts && readMatrices.contains(view.root.getAsOpaquePointer());
  }
  Num scalar(Value index); ///< as i64
  /// This thread's position along an axis.
  Num position(const layout::AxisMap &map, int64_t reg);
  Num threadPosition(const layout::AxisMap &map); ///< without the register's offset
  Num onChipAddress(int64_t offset);              ///< i32, in what stays on chip
  /// The element that this thread holds in a register.
  Value evaluate(Value tile, int64_t row, int64_t column);
  SmallVector<Value> evaluateAll(Value tile);
  /// Whether what a load reads may have changed by the time that a register of it is needed.
  bool readsWritten(mlir::Operation *load) const;
  const class CopiesAhead &copiesAhead() const { return *ahead; }
  Num copiesAheadMemory() { return onChipAddress(aheadOffset); }
  /// Address (i32) of shared memory of so many bytes, which other uses share: a barrier stands before a use.
  Num sharedMemory(int64_t bytes);
  void barrier();

private:
  void bindParameters();
  void orderPrograms();
  Num programId(uint64_t axis);
  Value invariantPart(Value condition);
  void describe() const; ///< what the launch must know
  mlir::LogicalResult checkShared();
  mlir::LogicalResult lowerOps(mlir::Block::iterator begin, mlir::Block::iterator end);
  mlir::LogicalResult lowerOp(mlir::Operation &op);
  mlir::LogicalResult lowerScalar(mlir::Operation &op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp loop);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  mlir::LogicalResult lowerRegion(
      mlir::Region &from, mlir::Block *to, llvm::function_ref<void()> atEnd = [] {});
  void lowerProduct(mlir::Operation &op);
  void lowerConvertLayout(ConvertLayoutOp op);
  void lowerTranspose(tile::TransposeOp op);
  void lowerExtract(tile::ExtractOp op);
  void placeOnChip();
  void lowerExchange(tile::ExchangeOp op);
  void lowerLoad(mlir::Operation *op);
  void findCopies();
  void lowerCopy(mlir::Operation *load);
  void awaitCopies(mlir::Operation *op);

  Value evaluateNew(Value tile, int64_t row, int64_t column);
  Value comparePosition(mlir::arith::CmpIOp op, tile::IotaOp iota, int64_t row, int64_t column);
  Value roundPair(mlir::arith::TruncFOp op, int64_t row, int64_t column);
  Value cloneOnElements(mlir::Operation *op, int64_t row, int64_t column);
  SmallVector<Value> &registersOf(Value tile);
  void loadRows(mlir::Operation *load, int64_t firstRow, int64_t rows);
  void loadPiece(mlir::Operation *load, int64_t row, int64_t column, StoreTarget::Piece piece);

  // ---- sinks ----

  bool isDeferred(mlir::Operation *reduce) const;
  bool dependsOnPending(Value value) const;
  tile::ReduceOp maximumBeside(mlir::Operation *sink, llvm::ArrayRef<mlir::Operation *> group) const;
  bool waits(mlir::Operation *sink, llvm::ArrayRef<mlir::Operation *> group) const;
  SmallVector<mlir::Operation *> nextGroup();
  void emitGroup(SmallVector<mlir::Operation *> group);
  void emitPieces(llvm::ArrayRef<mlir::Operation *> group, TileLayout layout,
                  llvm::ArrayRef<std::unique_ptr<StoreTarget>> targets,
                  llvm::MutableArrayRef<class RegisterSums> sums);
  void emitPiece(llvm::ArrayRef<mlir::Operation *> group, int64_t row, int64_t column,
                 StoreTarget::Piece piece, llvm::ArrayRef<std::unique_ptr<StoreTarget>> targets,
                 llvm::MutableArrayRef<class RegisterSums> sums);
  /// Whether so much is to be computed for each number that a piece has to be small.
  bool hasManySteps(llvm::ArrayRef<mlir::Operation *> group) const;
  SmallVector<mlir::Operation *> neededBy(llvm::ArrayRef<mlir::Operation *> group) const;
  SmallVector<mlir::Operation *> loadsOf(llvm::ArrayRef<mlir::Operation *> group) const;
  SmallVector<mlir::Operation *> unknownLoads(llvm::ArrayRef<mlir::Operation *> group,
                                              llvm::function_ref<bool(Value)> isWanted);
  std::unique_ptr<StoreTarget> storeTarget(mlir::Operation *store);
  void inBlockOfItsOwn(llvm::MutableArrayRef<class RegisterSums> sums, int64_t row, int64_t rows,
                       llvm::function_ref<void()> body);
  void evaluateNarrowLoads(llvm::ArrayRef<mlir::Operation *> group, int64_t mostColumns);
  Value excludesSome(mlir::arith::CmpIOp compare);
  void maskProduct(mlir::arith::SelectOp mask, llvm::ArrayRef<mlir::arith::CmpIOp> comparisons);
  void maskProducts(llvm::ArrayRef<mlir::Operation *> group);

  /// A barrier, where a thread may touch what another one touched since the last.
  void orderAccess(mlir::Operation *access);

  mlir::func::FuncOp kernel, lowered;
  WarpRole *role = nullptr;
  SmallVector<Num> programIds;                   ///< where they are not the CTA's
  llvm::SmallPtrSet<mlir::Operation *, 16> once; ///< what lowerInvariant lowered
  const LoweringOptions &options_;
  Layouts layouts_;
  Emitter &e;
  mlir::DenseMap<Value, MemoryView> views;
  mlir::DenseMap<Value, SmallVector<Value>> registers; ///< null where not evaluated yet
  mlir::IRMapping scalars;
  SmallVector<mlir::Operation *> pending; ///< sinks that wait to be emitted
  AccessOrder order;
  SmallVector<class DeferredSums *> loops; ///< that are being lowered
  llvm::SmallPtrSet<void *, 4> writtenRoots, readMatrices;
  llvm::SmallPtrSet<mlir::Operation *, 4> copies; ///< loads, and the stores on chip of what they load
  llvm::SmallPtrSet<void *, 4> copied;            ///< places on chip that they store to
  bool hasProducts = false;
  bool roundsPairs = true; ///< else there are registers for one number at a time only
  mlir::DenseMap<const layout::AxisMap *, Value> threadPositions;
  Value sharedBase;
  Value teamEntry; ///< behind it stands what only depends on the thread
  int64_t sharedBytes = 0;
  mlir::DenseMap<mlir::Operation *, int64_t> onChip; ///< byte offsets of on_chip ops' vectors
  std::unique_ptr<class Partners> partners;
  std::unique_ptr<class CopiesAhead> ahead;
  int64_t aheadOffset = 0; ///< of their memory, on chip
  int64_t onChipBytes = 0; ///< of shared memory, ahead of what is for exchange
};

} // namespace tilewright::nvptx
