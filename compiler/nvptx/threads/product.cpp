#include "compiler/nvptx/threads/product.h"

#include "compiler/nvptx/ptx/async_copy.h"
#include "compiler/nvptx/threads/exchange.h"
#include "compiler/nvptx/tile_gpu/multiply.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;

bool isAhead(Value value, tile::ContractOp product) {
  Operation *source = value.getDefiningOp();
  return !source || source->getBlock() != product->getBlock() || source->isBeforeInBlock(product);
}

bool isSparse(Operation *op) { return isa<tile::LoadRowsOp>(op) && op->hasAttr(tile::kSparseRowsAttr); }

Value Strip::isAligned(Emitter &e) const {
  const int64_t bytes = bytesOf(view.element);
  Num bits = e.num(e.either(view.pointer.value, (view.rowStride * bytes).value));
  if (depthIsMinor) return (bits & 15) == 0;
  Value fromStart = e.b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sge, offset.value, e.i64(0).value);
  bits = e.num(e.either(bits.value, (offset * bytes).value));
  return e.both((bits & 15) == 0, fromStart);
}

Num Strip::address(Emitter &e, Num position, Num k, Num first) const {
  Num along = e.wide(position) + offset, deep = e.wide(k) + first;
  Num row = depthIsMinor ? along : deep, column = depthIsMinor ? deep : along;
  return view.pointer + (row * view.rowStride + column) * bytesOf(view.element);
}

Num Strip::liveDepth(Emitter &e, Num first, int64_t step) const {
  Num left = minimum(maximum(depth - first, e.i64(0)), e.i64(step));
  return e.narrow(left);
}

namespace {

/// While one stage is multiplied, copies into all others are under way. A stage is filled again one iteration
/// after it was multiplied, behind that iteration's barrier.
SmallVector<Value> runPipeline(Lowering &lowering, StagedProduct &product, Num depth, int64_t count) {
  Emitter &e = lowering.emitter();
  const int64_t stages = product.stages(), step = product.step(), stageBytes = product.stageBytes();
  Num base = lowering.chip().exchange(stages * stageBytes);
  auto index = [&](int64_t value) { return e.toIndex(e.i64(value)); };

  auto prologue = e.b.create<scf::ForOp>(index(0), index(stages - 1), index(1));
  e.inside(prologue.getBody(), [&] {
    Num stage = e.fromIndex(prologue.getInductionVar());
    product.copy(base + e.narrow(stage) * stageBytes, stage * step);
    commitCopies(e);
  });

  SmallVector<Value> initial(count, e.f32(0));
  initial.append({e.i32(0).value, e.i32((stages - 1) * stageBytes).value});
  Num steps = (maximum(depth, e.i64(0)) + (step - 1)) / step;
  auto loop = e.b.create<scf::ForOp>(index(0), e.toIndex(steps), index(1), initial);
  e.inside(loop.getBody(), [&] {
    ValueRange carried = loop.getRegionIterArgs();
    Num read = e.num(carried[count]), write = e.num(carried[count + 1]);
    waitForCopies(e, stages - 2);
    e.barrier();
    product.copy(base + write, (e.fromIndex(loop.getInductionVar()) + (stages - 1)) * step);
    commitCopies(e);
    SmallVector<Value> next = product.multiply(base + read, carried.take_front(count));
    auto advance = [&](Num offset) {
      Num further = offset + stageBytes;
      return e.choose(further == stages * stageBytes, e.i32(0), further).value;
    };
    next.append({advance(read), advance(write)});
    e.b.create<scf::YieldOp>(next);
  });
  waitForCopies(e, 0);
  return SmallVector<Value>(ValueRange(loop.getResults()).take_front(count));
}

} // namespace

/// Cuts the operands' views to the part of the contracted axis.
static void takePart(Lowering &lowering, tile::ContractOp op, MemoryView &a, MemoryView &b) {
  const PartSteps part = partSteps(lowering, op, a.sizes[op.getAAxis()]);
  Num begin = part.begin * tile::kPartUnit, length = (part.end - part.begin) * tile::kPartUnit;
  for (auto [view, axis] : {std::pair{&a, op.getAAxis()}, std::pair{&b, op.getBAxis()}}) {
    Num &size = view->sizes[axis];
    size = minimum(maximum(size - begin, lowering.emitter().i64(0)), length);
    Num skipped = axis == 1 ? begin : begin * view->rowStride;
    view->pointer = view->pointer + skipped * bytesOf(view->element);
  }
}

PartSteps partSteps(Lowering &lowering, tile::ContractOp op, Num depth, int64_t unit) {
  Emitter &e = lowering.emitter();
  auto stepsOf = [&](int64_t size) { return (depth + (size - 1)) / size; };
  if (!op.getPart()) return {e.i64(0), stepsOf(unit)};
  const int64_t parts = op.getParts(), stepsOfUnit = tile::kPartUnit / unit;
  Num part = lowering.scalar(op.getPart()), units = stepsOf(tile::kPartUnit);
  return {units * part / parts * stepsOfUnit, units * (part + 1) / parts * stepsOfUnit};
}

SmallVector<Value> emitContract(Lowering &lowering, tile::ContractOp op) {
  TileLayout layout = lowering.layouts().ofProduct(op);
  MemoryView a = lowering.view(op.getA()), b = lowering.view(op.getB());
  if (op.getPart()) takePart(lowering, op, a, b);
  Num depth = a.sizes[op.getAAxis()], rightDepth = minimum(depth, b.sizes[op.getBAxis()]);
  Strip left{a, lowering.scalar(op.getAOffset()), op.getAAxis() == 1, depth, layout.rows};
  Strip right{b, lowering.scalar(op.getBOffset()), op.getBAxis() == 1, rightDepth, layout.columns};
  const Multiply multiply = multiplyFor(a.element, b.element, lowering.options());
  std::unique_ptr<StagedProduct> product = multiply == Multiply::mma16 ? makeMmaProduct(lowering, left, right)
                                           : multiply == Multiply::tf32
                                               ? makeTf32Product(lowering, left, right)
                                               : makePanelProduct(lowering, left, right);
  return runPipeline(lowering, *product, depth, layout.registers());
}

} // namespace tilewright::nvptx
