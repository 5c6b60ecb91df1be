#include "compiler/nvptx/hopper/warp_roles.h"

#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/threads/product.h"
#include "compiler/nvptx/threads/sink_group.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

// Barriers of the CTA, by number: 0 is of all threads, 1 and 2 of the consumers' teams.
constexpr int64_t kTurnBarrier = 3; ///< and 4: the turn of each warpgroup, pingPong

/// The operands as the tensor cores take them, and what maps their positions.
template <typename T> struct LeftAndRight {
  T left, right;
  LeftAndRight(const WarpPlan &plan, T a, T b) : left(a), right(b) {
    if (plan.swapsOperands) std::swap(left, right);
  }
};

LeftAndRight<StagedOperand> operandsOf(Lowering &lowering, tile::ContractOp op, const ProductFrame &frame) {
  const WarpPlan &plan = frame.plan;
  return {plan,
          {plan.rows, op.getAAxis() == 1, plan.stageDepth, lowering.scalar(op.getAOffset()), frame.leftMap,
           plan.sharesOf(0), frame.cta},
          {plan.columns, op.getBAxis() == 1, plan.stageDepth, lowering.scalar(op.getBOffset()),
           frame.rightMap, plan.sharesOf(1), frame.cta}};
}

LeftAndRight<const layout::AxisMap *> mapsOf(Lowering &lowering, tile::ContractOp op, const WarpPlan &plan) {
  const TileLayout layout = lowering.layouts().ofProduct(op);
  return {plan, layout.rows, layout.columns};
}

/// Whether every other program of a CTA runs backwards. Where the axis goes along rows of memory, it does; a
/// product over the rows of a matrix takes up to 2 % longer then, seen on H200s and not explained.
bool turnsAround(tile::ContractOp op) { return op.getAAxis() == 1 && op.getBAxis() == 1; }

/// `program` (i32): its number among those of the CTA. Sums that the first step replaces have one in any
/// case, of zeros if the axis is empty.
ProductSpan spanOf(Lowering &lowering, tile::ContractOp op, const WarpPlan &plan, Num program) {
  Emitter &e = lowering.emitter();
  Num left = lowering.view(op.getA()).sizes[op.getAAxis()];
  Num right = lowering.view(op.getB()).sizes[op.getBAxis()];
  Num depth = maximum(minimum(left, right), e.i64(0));
  const PartSteps part = partSteps(lowering, op, depth, plan.stageDepth);
  Num first = part.begin, stride = e.i64(plan.stageDepth), count = e.narrow(part.end - part.begin);
  if (turnsAround(op)) {
    const Value forwards = (program & 1) == 0;
    first = e.choose(forwards, part.begin, part.end - 1);
    stride = e.choose(forwards, stride, e.i64(-plan.stageDepth));
  }
  return {depth, first * plan.stageDepth, stride, plan.replacesSums ? maximum(count, e.i32(1)) : count};
}

/// Whether a tile is made of nothing that is loaded, or computed of scalars, behind the product.
bool isKnownAhead(Value tile, tile::ContractOp product) {
  if (isAhead(tile, product)) return true;
  Operation *source = tile.getDefiningOp();
  return isTile(tile) && !isLoad(source) && source != product && source->getNumRegions() == 0 &&
         llvm::all_of(source->getOperands(), [&](Value operand) { return isKnownAhead(operand, product); });
}

/// for step in [0, steps): a loop that carries values and the steps' place in the ring.
scf::ForOp loopOverSteps(Emitter &e, const StageRing &ring, Num begin, Num steps, SmallVector<Value> carried,
                         llvm::function_ref<SmallVector<Value>(Num, StageRing::Place, ValueRange)> body) {
  StageRing::Place first = ring.placeOf(begin);
  const size_t count = carried.size();
  carried.append({first.stage.value, first.parity.value});
  auto loop = e.b.create<scf::ForOp>(e.i32(0).value, steps.value, e.i32(1).value, carried);
  e.inside(loop.getBody(), [&] {
    ValueRange values = loop.getRegionIterArgs();
    StageRing::Place place{e.num(values[count]), e.num(values[count + 1])};
    SmallVector<Value> next = body(e.num(loop.getInductionVar()), place, values.take_front(count));
    StageRing::Place after = ring.after(place);
    next.append({after.stage.value, after.parity.value});
    e.b.create<scf::YieldOp>(next);
  });
  return loop;
}

} // namespace

// ---- producer ----

void keepProductOnly(func::FuncOp kernel) {
  SmallVector<Operation *> stores;
  kernel.walk([&](Operation *op) {
    if (isStore(op)) stores.push_back(op);
  });
  for (Operation *op : stores)
    op->erase();
  auto isDead = [&](Operation *op) {
    if (op == kernel || op->hasTrait<OpTrait::IsTerminator>() || !op->use_empty()) return false;
    return !op->walk([](tile::ContractOp) { return WalkResult::interrupt(); }).wasInterrupted();
  };
  for (Operation *dead = kernel; dead;) {
    dead = nullptr;
    kernel.walk([&](Operation *op) {
      if (!isDead(op)) return WalkResult::advance();
      dead = op;
      return WalkResult::interrupt();
    });
    if (dead) dead->erase();
  }
}

bool isProducible(func::FuncOp kernel, tile::ContractOp product) {
  auto slice = cast<func::FuncOp>(kernel->clone());
  keepProductOnly(slice);
  bool reads = false;
  slice.walk([&](Operation *op) {
    auto root = isLoad(op) ? dyn_cast<BlockArgument>(rootOf(viewOf(op))) : BlockArgument();
    reads |= root && isWritten(root);
  });
  slice->erase();
  return !reads;
}

/// Loads of rows of which few are there, whose numbers are known ahead of the product.
static SmallVector<Operation *> sparseRowsOf(tile::ContractOp product) {
  SmallVector<Operation *> found;
  for (Operation &op : *product->getBlock())
    if (isSparse(&op) && isKnownAhead(cast<tile::LoadRowsOp>(op).getRows(), product)) found.push_back(&op);
  return found;
}

Producer::Producer(Lowering &lowering, const ProductFrame &frame, tile::ContractOp product)
    : lowering(lowering), e(lowering.emitter()), frame(frame), steps(e, 0), programs(e, 0),
      policyOfB(e.i64(kEvictNormal)) {
  if (!frame.plan.keepsPace()) return;
  const OperandSharing sharing(lowering, product);
  pace.emplace(lowering, sharing.byMany);
  policyOfB = e.choose(sharing.byNeighbours, e.i64(kEvictFirst), policyOfB);
}

LogicalResult Producer::lowerFrom(tile::ContractOp op) {
  const StageRing &ring = frame.ring;
  const auto [left, right] = operandsOf(lowering, op, frame);
  Num begin = steps.get(), program = programs.get();
  const ProductSpan span = spanOf(lowering, op, frame.plan, program);
  const LeftAndRight<Num> policies(frame.plan, e.i64(kEvictNormal), policyOfB);
  auto single = e.b.create<scf::IfOp>(e.thread() == 0, /*withElseRegion=*/false);
  e.inside(single.thenBlock(), [&] {
    loopOverSteps(e, ring, begin, span.count, {}, [&](Num step, StageRing::Place place, ValueRange) {
      if (pace) pace->keep(step);
      Num k = span.begin(step), data = ring.data(place), full = ring.full(place);
      ring.waitUntilEmpty(place);
      arriveExpecting(e, full, left.bytes() + right.bytes());
      left.copy(e, data, k, full, policies.left);
      right.copy(e, data + left.bytes(), k, full, policies.right);
      return SmallVector<Value>();
    });
  });
  steps.set(begin + span.count);
  programs.set(program + 1);
  return success();
}

void Producer::leave() {
  if (!pace) return;
  auto single = e.b.create<scf::IfOp>(e.thread() == 0, /*withElseRegion=*/false);
  e.inside(single.thenBlock(), [&] { pace->leave(); });
}

// ---- consumers ----

Consumer::Consumer(TeamLowering &team, const ProductFrame &frame, Num group, bool keepsLoads)
    : team(team), lowering(team.lowering()), e(lowering.emitter()), frame(frame), group(group),
      keepsLoads(keepsLoads), steps(e, 0), programs(e, 0) {
  if (frame.plan.roles != WarpRoles::pingPong) return;
  auto second = e.b.create<scf::IfOp>(group == 1, /*withElseRegion=*/false);
  e.inside(second.thenBlock(), [&] { passTurn(); });
}

/// The ring's parities tell a step from the one a round later only: so a warpgroup may look for its steps
/// once the other has seen all of its own.
void Consumer::takeTurn() { e.b.create<NVVM::BarrierOp>((group + kTurnBarrier).value, e.i32(256).value); }
void Consumer::passTurn() {
  e.b.create<NVVM::BarrierArriveOp>((e.i32(kTurnBarrier + 1) - group).value, e.i32(256).value);
}

LogicalResult Consumer::lowerFrom(tile::ContractOp op) {
  Num begin = steps.get(), program = programs.get();
  const ProductSpan span = spanOf(lowering, op, frame.plan, program);
  steps.set(begin + span.count);
  programs.set(program + 1);
  if (frame.plan.roles == WarpRoles::cooperative) {
    prepare(op);
    multiply(op, begin, span);
    return team.lowerAfter(op);
  }
  auto mine = e.b.create<scf::IfOp>(((program + group) & 1) == 0, /*withElseRegion=*/false);
  return team.within(mine.thenBlock(), [&] {
    prepare(op);
    takeTurn();
    multiply(op, begin, span);
    return team.lowerAfter(op);
  });
}

std::unique_ptr<StoreTarget> Consumer::storeTarget(Operation *store) {
  if (!store->hasAttr(kBoxedAttr)) return nullptr;
  return std::make_unique<TileStore>(lowering, store, frame.boxes);
}

/// Ahead of the product, which hides the latency of memory. Where there is no register to spare, what is
/// loaded is forgotten but for the numbers of rows of which few are there.
void Consumer::prepare(tile::ContractOp product) {
  if (keepsLoads) loadAhead(product);
  for (Operation *op : sparseRowsOf(product))
    for (Operation *needed : neededBy(op))
      if (isLoad(needed)) lowering.elements().evaluateAll(needed->getResult(0));
  auto prefetch = [&] { prefetchBeside(lowering, product); };
  keepsLoads ? prefetch() : lowering.elements().within(prefetch);
}

/// Behind the product: who asked before would wait for their numbers, and the tensor cores for that.
void Consumer::lookForRows(tile::ContractOp product) {
  for (Operation *op : sparseRowsOf(product))
    lowering.setPresentRows(op, MemoryAccess(lowering, op).presentRows());
}

/// What `moveLoadsAhead` moved.
void Consumer::loadAhead(tile::ContractOp product) {
  for (Operation &op : *product->getBlock())
    if (isLoad(&op) && op.isBeforeInBlock(product) && tile::tileType(op.getResult(0)).getDimSize(1) == 1)
      lowering.elements().evaluateAll(op.getResult(0));
}

void Consumer::multiply(tile::ContractOp op, Num begin, const ProductSpan &span) {
  if (frame.plan.swapsOperands) lowering.elements().forgetColumns();
  const auto maps = mapsOf(lowering, op, frame.plan);
  const int64_t columns = maps.right->registers(), blocks = maps.left->registers() / 2;
  const Value none = frame.plan.replacesSums ? Value(e.b.create<LLVM::UndefOp>(e.b.getF32Type())) : e.f32(0);
  Accumulators sums(blocks, SmallVector<Value>(2 * columns, none));
  sums = addSteps(op, begin, span, std::move(sums));
  lowering.elements().set(op.getResult(), frame.plan.swapsOperands ? byColumns(sums) : byRows(sums));
  lowering.forgetPositions();
  lookForRows(op);
}

/// While a step is multiplied, the one before is known to be over, and its stage is handed back.
Accumulators Consumer::addSteps(tile::ContractOp op, Num begin, const ProductSpan &span, Accumulators sums) {
  const StageRing &ring = frame.ring;
  const auto operands = operandsOf(lowering, op, frame);
  const StagedOperand &left = operands.left, &right = operands.right;
  Type element = lowering.view(op.getA()).element;
  const bool shared = frame.plan.roles == WarpRoles::cooperative;
  const bool narrowed =
      op.getA().getDefiningOp<tile::NarrowOp>() || op.getB().getDefiningOp<tile::NarrowOp>();
  const size_t block = sums[0].size();
  Value speaks = (e.thread() % 128) == 0;
  const auto maps = mapsOf(lowering, op, frame.plan);
  // A position is a line of 128 bytes; the second warpgroup of a team begins so many further.
  auto beginOfGroup = [&](const layout::AxisMap &map) { return group * (map.position(128, 0) * 128); };
  const int64_t rowsBetween = maps.left->registers() > 2 ? maps.left->offsets[2] : 0;
  Num count = span.count, leftBegin = beginOfGroup(*maps.left), rightBegin = beginOfGroup(*maps.right);

  SmallVector<Value> carried;
  for (auto &values : sums)
    carried.append(values);
  auto handBack = [&](StageRing::Place place, Value condition) {
    auto branch = e.b.create<scf::IfOp>(condition, /*withElseRegion=*/false);
    e.inside(branch.thenBlock(), [&] {
      arrive(e, ring.empty(place));
      if (frame.plan.clusterCtas == 2) arriveAt(e, ring.empty(place), frame.cta ^ e.i32(1));
    });
  };
  auto unflatten = [&](ValueRange values) {
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i].assign(values.begin() + i * block, values.begin() + (i + 1) * block);
  };
  auto loop =
      loopOverSteps(e, ring, begin, count, carried, [&](Num step, StageRing::Place place, ValueRange values) {
        unflatten(values);
        Num data = ring.data(place);
        ring.waitUntilFull(place);
        if (narrowed) clearTail(left, right, data, span.depth - span.begin(step));
        fenceProducts(e);
        addProducts(e, {left.at(data + leftBegin), rowsBetween, {}},
                    right.at(data + left.bytes() + rightBegin), element, sums,
                    frame.plan.replacesSums ? std::optional(step) : std::nullopt);
        commitProducts(e);
        waitForProducts(e, 1);
        handBack(ring.before(place), e.both(speaks, e.i32(0) < step));
        SmallVector<Value> next;
        for (auto &values : sums)
          next.append(values);
        return next;
      });
  unflatten(ValueRange(loop.getResults()).take_front(carried.size()));
  if (!shared) passTurn();
  waitForProducts(e, sums);
  StageRing::Place end{e.num(loop.getResults()[carried.size()]),
                       e.num(loop.getResults()[carried.size() + 1])};
  handBack(ring.before(end), e.both(speaks, e.i32(0) < count));
  return sums;
}

/// Behind the end of a narrowed axis a stage holds what lies there in memory.
void Consumer::clearTail(const StagedOperand &left, const StagedOperand &right, Num data, Num live) {
  auto tail = e.b.create<scf::IfOp>(live < left.depth, /*withElseRegion=*/false);
  e.inside(tail.thenBlock(), [&] {
    for (auto [operand, at] : {std::pair{&left, data}, std::pair{&right, data + left.bytes()}})
      operand->clearDepth(e, at, e.narrow(live));
    fenceAsyncProxy(e);
    e.barrier();
  });
}

} // namespace tilewright::nvptx
