#include "compiler/nvptx/hopper/specialize_warps.h"

#include "compiler/dialect/launch_notes.h"
#include "compiler/nvptx/hopper/warp_roles.h"
#include "compiler/nvptx/threads/product.h"
#include "compiler/nvptx/threads/program_order.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

constexpr int64_t kGroupThreads = 128, kConsumerThreads = 256, kThreads = 384;

/// Of a thread. A CTA of 384 threads begins with 168 each, which is all that there is: 64512.
struct RegisterShares {
  int64_t consumer = 232, producer = 40;
};
/// Tiles that fill what a consumer has take some from the producer, which then keeps a few numbers in memory.
RegisterShares registersOf(const WarpPlan &plan) {
  constexpr int64_t kMostWith232 = 192;
  return plan.accumulators() <= kMostWith232 ? RegisterShares{} : RegisterShares{240, 24};
}

constexpr int64_t kDefaultRasterRows = 8;

/// Parameters of 128 bytes, which stay where the launch puts them; the address of the ranks ahead of them.
func::FuncOp declareWithMaps(func::FuncOp kernel, OpBuilder &b, int64_t maps, bool isRanked) {
  SmallVector<Type> further(isRanked, b.getI64Type());
  further.append(maps, LLVM::LLVMPointerType::get(b.getContext()));
  func::FuncOp lowered = declareLowered(kernel, b, further);
  const unsigned count = lowered.getNumArguments();
  auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 128);
  for (unsigned i = count - maps; i < count; ++i) {
    lowered.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
    lowered.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(64));
  }
  return lowered;
}

/// What the runtime must know: the maps' parameters and boxes, and how to launch.
void describe(func::FuncOp lowered, tile::ContractOp product, const WarpPlan &plan, int64_t sharedBytes) {
  auto map = [&](Value view, int64_t rows, int64_t columns, bool toTf32 = false) -> TensorMap {
    return {static_cast<int>(cast<BlockArgument>(rootOf(view)).getArgNumber()), rows, columns, toTf32};
  };
  auto operand = [&](Value view, bool depthIsMinor, int64_t positions, int64_t shares) {
    const StagedOperand staged{positions, depthIsMinor, plan.stageDepth, {}, {}, shares};
    const bool isF32 = cast<tile::ViewType>(view.getType()).getElement().isF32();
    return map(view, staged.boxRows(), plan.stageDepth, isF32);
  };
  LaunchNotes notes;
  notes.tensorMaps = {operand(product.getA(), product.getAAxis() == 1, plan.rows, plan.sharesOf(0)),
                      operand(product.getB(), product.getBAxis() == 1, plan.columns, plan.sharesOf(1))};
  if (Operation *store = boxedStoreOf(product->getParentOfType<func::FuncOp>())) {
    Value view = viewOf(store);
    Type element = cast<tile::ViewType>(view.getType()).getElement();
    notes.tensorMaps.push_back(map(view, StoreBoxes::kRows, StoreBoxes::kRowBytes / bytesOf(element)));
  }
  notes.persistent = true;
  notes.ranksClusters = plan.isRanked;
  notes.hasProduct = true;
  notes.clusterCtas = static_cast<int>(plan.clusterCtas);
  notes.threads = kThreads;
  notes.sharedBytes = sharedBytes;
  notes.write(lowered);
}

/// Moves loads of a few registers a thread, which the rest of the kernel waits for, ahead of its product.
void moveLoadsAhead(tile::ContractOp product) {
  auto isThere = [&](Value operand) { return isAhead(operand, product); };
  auto isMovable = [&](Operation *op) {
    if (op->getNumRegions() || !llvm::all_of(op->getOperands(), isThere)) return false;
    const bool hasTiles = llvm::any_of(op->getResults(), isTile);
    const bool loadsColumn = isLoad(op) && tile::tileType(op->getResult(0)).getDimSize(1) == 1 &&
                             !isWritten(cast<BlockArgument>(rootOf(viewOf(op))));
    return loadsColumn || (!hasTiles && !isStore(op) && isMemoryEffectFree(op));
  };
  for (Operation *op = product->getNextNode(), *next; op; op = next) {
    next = op->getNextNode();
    if (!op->hasTrait<OpTrait::IsTerminator>() && isMovable(op)) op->moveBefore(product);
  }
}

/// Lowers one kernel to a CTA whose warps differ.
class WarpSpecialization {
public:
  WarpSpecialization(func::FuncOp kernel, const LoweringOptions &options, const WarpPlan &plan)
      : kernel(kernel), options(options), plan(plan), builder(kernel), e(kernel.getLoc(), builder),
        lowered(declareWithMaps(kernel, builder, maps(), plan.isRanked)) {
    e.b.setInsertionPointToStart(&lowered.getBody().front());
  }

  LogicalResult run() {
    Num thread = e.num(e.b.create<NVVM::ThreadIdXOp>(e.b.getI32Type()));
    Num warp = sameInWarp(thread / 32);
    const SharedMemory memory(plan);
    Num base = addressOfSharedMemory(e), group = warp / 4;
    ValueRange mapPointers = ValueRange(lowered.getArguments()).take_back(maps());
    ProductFrame frame{
        plan,           StageRing(e, base + memory.ring, plan.stages, memory.stageBytes), mapPointers[0],
        mapPointers[1], StoreBoxes{base, warp, mapPointers.back(), plan.boxes},           ctaNumber()};
    auto first = e.b.create<scf::IfOp>(thread == 0, /*withElseRegion=*/false);
    e.inside(first.thenBlock(), [&] {
      frame.ring.initBarriers(plan.teamThreads() / kGroupThreads * plan.clusterCtas);
      fenceBarrierInit(e);
    });
    meet();

    auto roles = e.b.create<scf::IfOp>(group < 2, /*withElseRegion=*/true);
    if (plan.clusterCtas > 1) meet(); // else one may end whose memory others still copy to
    e.b.create<func::ReturnOp>();
    e.b.setInsertionPointToStart(roles.thenBlock());
    if (failed(consume(frame, thread, group, base + memory.exchange))) return failure();
    e.b.setInsertionPointToStart(roles.elseBlock());
    if (failed(produce(frame, thread, warp))) return failure();
    describe(lowered, productOf(kernel), plan, memory.bytes);
    kernel.erase();
    return success();
  }

private:
  int64_t maps() const { return plan.boxes ? 3 : 2; }

  /// An i32 that is the same in all threads of a warp, as ptxas can see from where it comes.
  Num sameInWarp(Num x) { return e.num(e.broadcast(x.value, 0)); }

  /// Of this cluster, where the launch knows it; else its number.
  Num clusterRank() {
    Num number = e.num(e.b.create<NVVM::BlockIdXOp>(e.b.getI32Type())) / plan.clusterCtas;
    if (!plan.isRanked) return number;
    Value ranks = lowered.getArguments().drop_back(maps()).back();
    auto rank = e.ptx(e.b.getI32Type(),
                      "{ .reg .pred known; .reg .b64 at;\n\t"
                      "mov.u32 $0, $1;\n\t"
                      "setp.ne.u64 known, $2, 0;\n\t"
                      "mad.wide.u32 at, $1, 4, $2;\n\t"
                      "@known ld.global.u32 $0, [at]; }",
                      "=&r,r,l", {number.value, ranks}, true);
    return sameInWarp(e.num(rank[0]));
  }

  Num ctaNumber() {
    if (plan.clusterCtas == 1) return e.i32(0);
    return e.num(e.b.create<NVVM::BlockIdXOp>(e.b.getI32Type())) & (plan.clusterCtas - 1);
  }

  /// All threads that may touch each other's shared memory.
  void meet() { plan.clusterCtas > 1 ? clusterBarrier(e) : e.barrier(); }

  static tile::ContractOp productOf(func::FuncOp kernel) {
    tile::ContractOp product;
    kernel.walk([&](tile::ContractOp op) { product = op; });
    return product;
  }

  /// Whether a consumer's accumulators leave it no registers for what it could load beside the product.
  bool leavesNoRegisters() const { return fillsRegisters(plan.accumulators()); }

  bool hasSparseRows() const {
    auto find = [](Operation *op) { return isSparse(op) ? WalkResult::interrupt() : WalkResult::advance(); };
    return kernel->walk(find).wasInterrupted();
  }

  LogicalResult consume(const ProductFrame &frame, Num thread, Num group, Num exchange) {
    e.b.create<NVVM::SetMaxRegisterOp>(registersOf(plan).consumer, NVVM::SetMaxRegisterAction::increase);
    const bool isWhole = plan.roles == WarpRoles::cooperative;
    // Cooperative warpgroups would wait for loads. One that takes turns has the other's product to hide that,
    // but not masks of rows that are not there.
    const bool keepsLoads = isWhole && !leavesNoRegisters();
    if (keepsLoads || (!isWhole && hasSparseRows())) moveLoadsAhead(productOf(kernel));
    const LoweringOptions consumers = plan.consumers(options);
    TeamLowering team(kernel, consumers, e);
    const int64_t bytes = kExchangeBytes * plan.teamThreads() / kConsumerThreads;
    Num number = isWhole ? e.i32(0) : group;
    team.enter(lowered,
               {isWhole ? thread : thread % kGroupThreads, exchange + number * bytes, (number + 1).value});
    Consumer role(team, frame, group, keepsLoads);
    if (failed(forEachProgram(team, role, frame.cta))) return failure();
    if (plan.boxes) TileStore::finish(e);
    const int64_t exchanged = team.lowering().chip().exchangeBytes();
    if (exchanged <= bytes) return success();
    return kernel.emitError("exchanges ") << exchanged << " bytes between threads, more than " << bytes
                                          << ": use smaller blocks or warps that are alike";
  }

  /// Of the producer's warpgroup only the first warp does anything; the register file is given out by whole
  /// warpgroups.
  LogicalResult produce(const ProductFrame &frame, Num thread, Num warp) {
    e.b.create<NVVM::SetMaxRegisterOp>(registersOf(plan).producer, NVVM::SetMaxRegisterAction::decrease);
    auto single = e.b.create<scf::IfOp>(warp == kConsumerThreads / 32, /*withElseRegion=*/false);
    e.b.setInsertionPointToStart(single.thenBlock());
    auto slice = cast<func::FuncOp>(OpBuilder(kernel).clone(*kernel));
    keepProductOnly(slice);
    LoweringOptions alone = options;
    alone.warps = 1;
    if (failed(Layouts(slice, alone).write(slice))) return failure();
    TeamLowering team(slice, alone, e);
    team.enter(lowered, {thread - kConsumerThreads, e.i32(0), e.i32(0).value});
    Producer role(team.lowering(), frame, productOf(slice));
    LogicalResult result = forEachProgram(team, role, frame.cta);
    role.leave();
    if (team.lowering().chip().exchangeBytes())
      result = kernel.emitError("decides by an exchange between warps what it loads");
    slice.erase();
    return result;
  }

  /// for number = this cluster's rank; number < count; number += clusters
  LogicalResult forEachProgram(TeamLowering &team, WarpRole &role, Num cta) {
    if (failed(team.lowerInvariant())) return failure();
    // Warpgroups that take turns have shallow products, and many programs; large tiles leave no registers.
    const bool keepsReciprocals = plan.roles == WarpRoles::pingPong;
    ProgramOrder order(team.lowering(), options.rasterRows ? options.rasterRows : kDefaultRasterRows,
                       plan.clusterCtas, plan.clusterAxis, keepsReciprocals);
    Num count = order.count();
    if (Value condition = team.invariantCondition()) count = e.choose(condition, count, e.i32(0));
    Type i32 = e.b.getI32Type();
    Num step = e.num(e.b.create<NVVM::GridDimXOp>(i32)) / plan.clusterCtas;
    auto loop = e.b.create<scf::ForOp>(clusterRank().value, count.value, step.value);
    return team.within(loop.getBody(), [&] {
      return team.lowerProgram(order.programAt(e.num(loop.getInductionVar()), cta), role);
    });
  }

  func::FuncOp kernel;
  const LoweringOptions &options;
  const WarpPlan &plan;
  OpBuilder builder;
  Emitter e;
  func::FuncOp lowered;
};

} // namespace

LogicalResult lowerSpecialized(func::FuncOp kernel, const LoweringOptions &options, const WarpPlan &plan) {
  if (plan.keepsPace()) Pace::declare(kernel->getParentOfType<ModuleOp>());
  return WarpSpecialization(kernel, options, plan).run();
}

} // namespace tilewright::nvptx
