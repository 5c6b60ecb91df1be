#include "compiler/nvptx/threads/function_lowering.h"

#include "compiler/dialect/kernel_signature.h"
#include "compiler/dialect/launch_notes.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/threads/product.h"
#include "compiler/nvptx/threads/program_order.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

FunctionLowering::FunctionLowering(func::FuncOp kernel, const LoweringOptions &options, Emitter &emitter)
    : lowering_(kernel, options, emitter), e(emitter), sinks(lowering_), copies(lowering_),
      partners(lowering_), ahead(lowering_) {
  placeOnChip();
}

void FunctionLowering::placeOnChip() {
  ChipMemory &chip = lowering_.chip();
  lowering_.function().walk([&](tile::OnChipOp op) {
    onChip[op] = chip.take(op.getSize() * bytesOf(op.getResult().getType().getElement()));
  });
  partners.place();
  chip.align(ahead.alignment());
  ahead.place();
}

func::FuncOp declareLowered(func::FuncOp kernel, OpBuilder &builder, ArrayRef<Type> furtherParameters) {
  SmallVector<Type> types;
  for (BlockArgument argument : kernel.getArguments()) {
    auto view = dyn_cast<tile::ViewType>(argument.getType());
    int64_t words = !view ? 1 : view.getRank() == 2 ? 4 : 2;
    types.append(words, argument.getType().isF32() ? builder.getF32Type() : Type(builder.getI64Type()));
  }
  types.append(furtherParameters.begin(), furtherParameters.end());
  auto type = FunctionType::get(kernel.getContext(), types, {});
  auto lowered = builder.create<func::FuncOp>(kernel.getLoc(), kernel.getName(), type);
  lowered.addEntryBlock();
  return lowered;
}

Num addressOfSharedMemory(Emitter &e) {
  auto memory = LLVM::LLVMPointerType::get(e.b.getContext(), 3);
  Value base = e.b.create<LLVM::AddressOfOp>(memory, "shared_memory");
  return e.num(e.b.create<LLVM::PtrToIntOp>(e.b.getI32Type(), base));
}

/// CTAs begin in the order of their numbers, x first.
void FunctionLowering::orderPrograms() {
  Type i32 = e.b.getI32Type();
  Num x = e.num(e.b.create<NVVM::BlockIdXOp>(i32)), y = e.num(e.b.create<NVVM::BlockIdYOp>(i32));
  Num number = y * e.num(e.b.create<NVVM::GridDimXOp>(i32)) + x;
  constexpr int64_t alone = 1, anyAxis = 1;
  const ProgramOrder order(lowering_, lowering_.options().rasterRows, alone, anyAxis,
                           /*keepsReciprocals=*/false);
  programIds = order.programAt(number, e.i32(0));
}

LogicalResult FunctionLowering::run() {
  func::FuncOp kernel = lowering_.function(), lowered = declareLowered(kernel, e.b);
  e.b.setInsertionPointToStart(&lowered.getBody().front());
  e.threadId = e.b.create<NVVM::ThreadIdXOp>(e.b.getI32Type());
  lowering_.begin(lowered, addressOfSharedMemory(e));
  const bool hasRasters = lowering_.memory().hasProducts() && lowering_.options().rasterRows;
  if (hasRasters && tile::gridOf(kernel).size() == 2) orderPrograms();
  Block &body = kernel.getBody().front();
  if (failed(lowerOps(body.begin(), body.without_terminator().end()))) return failure();
  flush();
  e.b.create<func::ReturnOp>();
  describe(lowered);
  LogicalResult fits = checkShared();
  kernel.erase();
  return fits;
}

void FunctionLowering::describe(func::FuncOp lowered) const {
  LaunchNotes notes;
  notes.threads = lowering_.layouts().threads();
  notes.sharedBytes = lowering_.chip().bytes();
  notes.hasProduct = lowering_.memory().hasProducts();
  notes.keepsRegisters = ahead.bytes() > 0;
  if (auto partners = lowering_.function()->getAttrOfType<IntegerAttr>(tile::kPartnersAttr))
    notes.clusterCtas = static_cast<int>(partners.getInt());
  notes.write(lowered);
}

LogicalResult FunctionLowering::checkShared() {
  const int64_t bytes = lowering_.chip().bytes(), limit = lowering_.options().sharedLimit;
  if (bytes <= limit) return success();
  return lowering_.function().emitError("needs ") << bytes << " bytes of shared memory, more than the "
                                                  << limit << " of the target: use smaller blocks";
}

void FunctionLowering::enterProgram(ArrayRef<Num> ids, WarpRole &warpRole) {
  role = &warpRole;
  sinks.setRole(warpRole);
  programIds.assign(ids.begin(), ids.end());
}

// ---- control ----

LogicalResult FunctionLowering::lowerOps(Block::iterator begin, Block::iterator end) {
  if (begin != end && begin == begin->getBlock()->begin()) partners.enter(begin->getBlock());
  for (Operation &op : llvm::make_range(begin, end)) {
    if (isElementwise(&op) || isSkipped(&op)) continue;
    if (copies.contains(&op)) {
      if (!isLoad(&op)) continue;
      flush();
      copies.start(&op);
      continue;
    }
    if (auto product = dyn_cast<tile::ContractOp>(op); product && role) {
      flush();
      return role->lowerFrom(product);
    }
    if (isa<tile::ReduceOp>(op) || isStore(&op))
      sinks.add(&op);
    else if (isLoad(&op))
      lowerLoad(&op);
    else if (failed(lowerOp(op)))
      return failure();
  }
  return success();
}

LogicalResult FunctionLowering::lowerOp(Operation &op) {
  if (auto exchange = dyn_cast<tile::ExchangeOp>(op)) return lowerExchange(exchange), success();
  bool hasTiles = llvm::any_of(op.getOperands(), isTile) || llvm::any_of(op.getResults(), isTile);
  if (!hasTiles && op.getNumRegions() == 0) return lowerScalar(op);
  flush();
  if (isa<tile::ContractOp, tile::DotOp>(op)) return lowerProduct(op), success();
  if (isa<ConvertLayoutOp>(op)) return lowerMove(op, false), success();
  if (auto transpose = dyn_cast<tile::TransposeOp>(op)) {
    if (!isCopiedToShared(lowering_, transpose)) lowerMove(op, true);
    return success();
  }
  if (auto extract = dyn_cast<tile::ExtractOp>(op)) return lowerExtract(extract), success();
  if (auto loop = dyn_cast<scf::ForOp>(op)) return lowerFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op)) return lowerIf(branch);
  return op.emitError("has no NVPTX lowering");
}

/// This program's number along an axis (i64): 0 along one that the launch lacks. A CTA's number along y may
/// then be that of a partner.
Num FunctionLowering::programId(uint64_t axis) {
  if (!programIds.empty()) return axis < programIds.size() ? programIds[axis] : e.i64(0);
  func::FuncOp kernel = lowering_.function();
  if (kernel->hasAttr(tile::kGridAttr) && axis >= tile::gridOf(kernel).size()) return e.i64(0);
  Type i32 = e.b.getI32Type();
  Value number;
  if (axis == 0) number = e.b.create<NVVM::BlockIdXOp>(i32);
  if (axis == 1) number = e.b.create<NVVM::BlockIdYOp>(i32);
  if (axis == 2) number = e.b.create<NVVM::BlockIdZOp>(i32);
  return e.num(e.b.create<arith::ExtUIOp>(e.b.getI64Type(), number));
}

static MemoryView reinterpreted(MemoryView view, Type element) {
  auto scale = [from = bytesOf(view.element), to = bytesOf(element)](Num &count) {
    count = count * from / to;
  };
  scale(view.sizes.back());
  if (view.sizes.size() == 2) scale(view.rowStride);
  view.element = element;
  return view;
}

MemoryView FunctionLowering::onChipView(tile::OnChipOp op) {
  Num address = lowering_.chip().at(onChip.lookup(op));
  Type element = op.getResult().getType().getElement();
  return {op.getResult(), e.wide(address), {e.i64(op.getSize())}, {nullptr, {}}, element, true};
}

LogicalResult FunctionLowering::lowerScalar(Operation &op) {
  auto number = [&](Num value) { lowering_.setScalar(op.getResult(0), e.toIndex(value)); };
  auto viewed = [&](MemoryView view) { lowering_.setView(op.getResult(0), std::move(view)); };
  if (auto dim = dyn_cast<tile::DimOp>(op)) {
    number(lowering_.view(dim.getView()).sizes[dim.getAxis()]);
  } else if (auto narrow = dyn_cast<tile::NarrowOp>(op)) {
    MemoryView narrowed = lowering_.view(narrow.getView());
    Num &size = narrowed.sizes[narrow.getAxis()];
    size = minimum(size, maximum(lowering_.scalar(narrow.getSize()), e.i64(0)));
    viewed(narrowed);
  } else if (auto reinterpret = dyn_cast<tile::ReinterpretOp>(op)) {
    viewed(reinterpreted(lowering_.view(reinterpret.getView()), reinterpret.getType().getElement()));
  } else if (auto interior = dyn_cast<tile::InteriorOp>(op)) {
    number(interiorColumns(lowering_, interior));
  } else if (auto memory = dyn_cast<tile::OnChipOp>(op)) {
    viewed(onChipView(memory));
  } else if (isa<tile::PartnerOp>(op)) {
    number(e.wide(e.num(e.b.create<NVVM::BlockIdYOp>(e.b.getI32Type()))));
  } else if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    number(programId(id.getAxis()));
  } else if (isMemoryEffectFree(&op)) {
    lowering_.clone(op);
  } else {
    return op.emitError("has no NVPTX lowering");
  }
  return success();
}

LogicalResult FunctionLowering::within(Block *block, llvm::function_ref<LogicalResult()> body) {
  const SmallVector<Operation *> outside = lowering_.order().known();
  LogicalResult result = success();
  lowering_.elements().within([&] { e.inside(block, [&] { result = body(); }); });
  lowering_.order().add(outside);
  return result;
}

LogicalResult FunctionLowering::lowerRegion(Region &from, Block *to, llvm::function_ref<void()> atEnd) {
  if (from.empty()) return success();
  return within(to, [&] {
    Block &block = from.front();
    LogicalResult result = lowerOps(block.begin(), block.without_terminator().end());
    flush();
    atEnd();
    return result;
  });
}

/// The registers of tiles that a loop carries, one tile's behind the other's.
static SmallVector<SmallVector<Value>> splitByTiles(Lowering &lowering, ValueRange tiles, ValueRange all) {
  SmallVector<SmallVector<Value>> split;
  for (Value tile : tiles) {
    const int64_t count = lowering.layouts().of(tile).registers();
    split.push_back(llvm::to_vector(all.take_front(count)));
    all = all.drop_front(count);
  }
  return split;
}

static void setAll(Elements &elements, ValueRange tiles, ArrayRef<SmallVector<Value>> values) {
  for (auto [tile, registers] : llvm::zip(tiles, values))
    elements.set(tile, registers);
}

/// Loads that were put off would be repeated in each iteration.
void FunctionLowering::loadAheadOf(scf::ForOp loop) {
  for (Operation &op : *loop->getBlock())
    if (isLoad(&op) && op.isBeforeInBlock(loop) && !ahead.isLeft(&op))
      lowering_.elements().evaluateAll(op.getResult(0));
}

LogicalResult FunctionLowering::lowerFor(scf::ForOp loop) {
  Elements &elements = lowering_.elements();
  if (!sinks.isInLoop()) copies.awaitBefore(loop);
  loadAheadOf(loop);
  DeferredSums deferred(lowering_, loop);
  SmallVector<Value> initial;
  for (auto [carried, init] : llvm::enumerate(loop.getInitArgs())) {
    if (!isTile(init)) return loop.emitError("carries a value that is not a tile");
    initial.append(deferred.initial(carried, elements.evaluateAll(init)));
  }
  const bool conflict = lowering_.order().iterationsConflict(loop);
  if (conflict) lowering_.order().barrier();
  auto forOp =
      e.b.create<scf::ForOp>(lowering_.mapped(loop.getLowerBound()), lowering_.mapped(loop.getUpperBound()),
                             lowering_.mapped(loop.getStep()), initial);
  lowering_.setScalar(loop.getInductionVar(), forOp.getInductionVar());
  setAll(elements, loop.getRegionIterArgs(),
         splitByTiles(lowering_, loop.getRegionIterArgs(), forOp.getRegionIterArgs()));
  sinks.enterLoop(deferred);
  LogicalResult result = lowerRegion(loop.getRegion(), forOp.getBody(), [&] {
    SmallVector<Value> next;
    for (Value yielded : loop.getBody()->getTerminator()->getOperands())
      next.append(elements.evaluateAll(yielded));
    if (conflict) lowering_.order().barrier();
    if (!next.empty()) e.b.create<scf::YieldOp>(next);
  });
  sinks.leaveLoop();
  if (failed(result)) return failure();
  auto last = splitByTiles(lowering_, loop.getResults(), forOp.getResults());
  deferred.combine(last);
  setAll(elements, loop.getResults(), last);
  return success();
}

LogicalResult FunctionLowering::lowerIf(scf::IfOp op) {
  if (op.getNumResults()) return op.emitError("has results; tile kernels carry values through loops only");
  bool hasElse = !op.getElseRegion().empty();
  auto branch = e.b.create<scf::IfOp>(lowering_.mapped(op.getCondition()), hasElse);
  if (failed(lowerRegion(op.getThenRegion(), branch.thenBlock()))) return failure();
  return hasElse ? lowerRegion(op.getElseRegion(), branch.elseBlock()) : success();
}

// ---- tiles ----

void FunctionLowering::lowerLoad(Operation *op) {
  const bool isWritten = lowering_.memory().readsWritten(op);
  const bool needsReduction =
      llvm::any_of(op->getOperands(), [&](Value v) { return isTile(v) && sinks.dependsOnPending(v); });
  if (isWritten || needsReduction) flush();
  if (!sinks.isInLoop()) copies.awaitBefore(op);
  if (ahead.isLeft(op)) return ahead.startLeft(cast<tile::LoadOp>(op));
  if (lowering_.memory().hasProducts() && !isWritten) return;
  if (isWritten || isa<tile::LoadElementsOp>(op)) lowering_.order().before(op);
  lowering_.elements().load(op);
}

void FunctionLowering::lowerProduct(Operation &op) {
  auto isWritten = [&](Value operand) { return lowering_.memory().isWritten(lowering_.view(operand).root); };
  if (auto contract = dyn_cast<tile::ContractOp>(op)) {
    for (Value operand : {contract.getA(), contract.getB()})
      if (isWritten(operand)) lowering_.order().barrier();
    lowering_.elements().set(op.getResult(0), emitContract(lowering_, contract));
  } else {
    emitDot(lowering_, cast<tile::DotOp>(op), ahead);
  }
}

/// To another layout, or to that of the transposed tile.
void FunctionLowering::lowerMove(Operation &op, bool transposed) {
  Value from = op.getOperand(0), to = op.getResult(0);
  const Layouts &layouts = lowering_.layouts();
  SmallVector<Value> values = lowering_.elements().evaluateAll(from);
  lowering_.elements().set(to, redistribute(lowering_, values, layouts.of(from), layouts.of(to), transposed));
}

void FunctionLowering::lowerExtract(tile::ExtractOp op) {
  Value element = lowering_.elements().evaluate(op.getValue(), 0, 0);
  Type type = element.getType();
  if (type.isInteger(32) || type.isInteger(64))
    element = e.b.create<arith::IndexCastOp>(e.b.getIndexType(), element);
  lowering_.setScalar(op.getResult(), element);
}

void FunctionLowering::lowerExchange(tile::ExchangeOp op) {
  flush();
  SmallVector<Value> values;
  SmallVector<Num> places;
  for (auto [value, place] : llvm::zip(op.getValues(), op.getPlaces())) {
    values.push_back(lowering_.elements().evaluate(value, 0, 0));
    places.push_back(lowering_.chip().at(onChip.lookup(place.getDefiningOp())));
  }
  partners.exchange(op, values, places);
  lowering_.order().clear();
}

} // namespace tilewright::nvptx
