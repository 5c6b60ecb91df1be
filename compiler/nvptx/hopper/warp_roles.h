#pragma once

#include "compiler/nvptx/hopper/pace.h"
#include "compiler/nvptx/hopper/specialize_warps.h"
#include "compiler/nvptx/hopper/stage_ring.h"
#include "compiler/nvptx/hopper/staged_operand.h"
#include "compiler/nvptx/hopper/tile_store.h"
#include "compiler/nvptx/threads/team_lowering.h"

namespace tilewright::nvptx {

constexpr int64_t kConsumerWarps = 8;
/// Shared memory of the consumers for values that cross threads.
constexpr int64_t kExchangeBytes = 2 << 10;

/// Where things lie in a CTA's shared memory: boxes and stages, which begin at multiples of 1024, first.
struct SharedMemory {
  explicit SharedMemory(const WarpPlan &plan)
      : stageBytes((plan.rows + plan.columns) * kLineBytes),
        ring(kConsumerWarps * plan.boxes * StoreBoxes::kBoxBytes),
        exchange(llvm::alignTo(ring + StageRing::bytes(plan.stages, stageBytes), 128)),
        bytes(exchange + kExchangeBytes) {}
  int64_t stageBytes, ring, exchange, bytes;
};

/// What both roles know of a kernel's product.
struct ProductFrame {
  const WarpPlan &plan;
  StageRing ring;
  Value leftMap, rightMap; ///< pointers to the operands' tensor maps
  StoreBoxes boxes;        ///< where there is a boxed store
  Num cta;                 ///< i32: this CTA's number in its cluster
};

/// What of the contracted axis a program's product runs over, a stage's depth a step. Where the axis goes
/// along rows of both operands, every other program of a CTA runs backwards: it begins with what the one
/// before it ended with, which of the operand that both read is what the second-level cache still has.
struct ProductSpan {
  Num depth;  ///< i64: length of the whole axis; whichever operand has more, the rest would meet zeros
  Num first;  ///< i64: where the first step begins
  Num stride; ///< i64: from there to the next one
  Num count;  ///< i32
  Num begin(Num step) const { return first + step.e->wide(step) * stride; } ///< i64; of an i32
};

/// Removes all of a kernel but its product and what that depends on.
void keepProductOnly(mlir::func::FuncOp kernel);
/// Whether what is then left reads nothing that the kernel writes.
bool isProducible(mlir::func::FuncOp kernel, tile::ContractOp product);

/// Has the copy engine fill the ring; a single warp.
class Producer : public WarpRole {
public:
  /// Of a kernel that is this product alone.
  Producer(Lowering &lowering, const ProductFrame &frame, tile::ContractOp product);
  mlir::LogicalResult lowerFrom(tile::ContractOp op) override;
  /// Behind the last program.
  void leave();

private:
  Lowering &lowering;
  Emitter &e;
  const ProductFrame &frame;
  Variable steps, programs; ///< so far
  Num policyOfB;            ///< of the copies of the product's right operand
  std::optional<Pace> pace;
};

/// Multiplies from the ring and does the rest of the kernel.
class Consumer : public WarpRole {
public:
  /// `group` (i32): which of the two warpgroups. `keepsLoads`: there are registers for what is loaded ahead.
  Consumer(TeamLowering &team, const ProductFrame &frame, Num group, bool keepsLoads);
  mlir::LogicalResult lowerFrom(tile::ContractOp op) override;
  std::unique_ptr<StoreTarget> storeTarget(mlir::Operation *store) override;

private:
  void prepare(tile::ContractOp product);
  void loadAhead(tile::ContractOp product);
  void lookForRows(tile::ContractOp product);
  void multiply(tile::ContractOp op, Num begin, const ProductSpan &span);
  Accumulators addSteps(tile::ContractOp op, Num begin, const ProductSpan &span, Accumulators sums);
  void clearTail(const StagedOperand &left, const StagedOperand &right, Num data, Num live);
  void takeTurn();
  void passTurn();

  TeamLowering &team;
  Lowering &lowering;
  Emitter &e;
  const ProductFrame &frame;
  Num group;
  const bool keepsLoads;
  Variable steps, programs; ///< so far
};

} // namespace tilewright::nvptx
