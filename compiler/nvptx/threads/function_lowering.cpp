#include "compiler/nvptx/threads/function_lowering.h"

#include "compiler/dialect/kernel_signature.h"
#include "compiler/dialect/launch_notes.h"
#include "compiler/nvptx/threads/deferred_sums.h"
#include "compiler/nvptx/threads/exchange.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/threads/partners.h"
#include "compiler/nvptx/threads/product.h"
#include "compiler/nvptx/threads/program_order.h"
#include "compiler/nvptx/threads/tile_operands.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

bool isLoad(Operation *op) { return isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadElementsOp>(op); }
bool isStore(Operation *op) { return isa<tile::StoreOp, tile::StoreRowsOp, tile::ReduceAddOp>(op); }
bool isElementwise(Operation *op) {
  if (isa<tile::SplatOp, tile::IotaOp, tile::BroadcastOp, tile::MulHighOp>(op)) return true;
  StringRef dialect = op->getDialect()->getNamespace();
  return (dialect == "arith" || dialect == "math") && op->getNumResults() == 1 && isTile(op->getResult(0));
}

bool isWritten(BlockArgument parameter) {
  auto kernel = cast<func::FuncOp>(parameter.getOwner()->getParentOp());
  return kernel.getArgAttr(parameter.getArgNumber(), tile::kWrittenAttr) != nullptr;
}

llvm::SmallPtrSet<void *, 4> writtenRootsOf(func::FuncOp kernel) {
  llvm::SmallPtrSet<void *, 4> roots;
  kernel.walk([&](Operation *op) {
    if (isStore(op)) roots.insert(rootOf(viewOf(op)).getAsOpaquePointer());
  });
  return roots;
}

/// The matrices that loads read, as `rootOf` gives them.
static llvm::SmallPtrSet<void *, 4> readMatricesOf(func::FuncOp kernel) {
  llvm::SmallPtrSet<void *, 4> roots;
  kernel.walk([&](Operation *op) {
    Value root = isLoad(op) ? rootOf(viewOf(op)) : Value();
    if (root && cast<tile::ViewType>(root.getType()).getRank() == 2) roots.insert(root.getAsOpaquePointer());
  });
  return roots;
}

/// Whether a store has the place of a load, in whichever matrix.
static bool isAtPlaceOf(tile::StoreOp store, Operation *load) {
  return store->getBlock() == load->getBlock() && load->isBeforeInBlock(store) &&
         llvm::to_vector(load->getOperands().drop_front(1)) ==
             llvm::to_vector(store->getOperands().drop_front(2)) &&
         tile::tileType(load->getResult(0)).getShape() == tile::tileType(store->getOperand(0)).getShape();
}

/// Stores that a value flows to, element by element; false if it flows elsewhere.
static bool findStores(Operation *op, llvm::SmallSetVector<Operation *, 2> &stores) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Operation *> open{op};
  while (!open.empty())
    for (Operation *user : open.pop_back_val()->getUsers()) {
      if (!seen.insert(user).second) continue;
      if (isa<tile::StoreOp>(user))
        stores.insert(user);
      else if (isElementwise(user))
        open.push_back(user);
      else
        return false;
    }
  return true;
}

/// Whether sinks will be made together, each element of all before the next of any: nothing lies between
/// them, and they wait for no reduction.
static bool areSideBySide(ArrayRef<Operation *> stores) {
  if (stores.size() == 1) return true;
  size_t left = stores.size();
  for (Operation &op : *stores.front()->getBlock()) {
    if (isa<tile::ReduceOp>(op)) return false;
    if (llvm::is_contained(stores, &op))
      --left;
    else if (left > 0 && left < stores.size() && !isElementwise(&op))
      return false;
  }
  return true;
}

bool isReplaced(Operation *load) {
  llvm::SmallSetVector<Operation *, 2> stores;
  if (!isa<tile::LoadOp>(load) || !findStores(load, stores)) return false;
  SmallVector<Operation *> own;
  load->getParentOfType<func::FuncOp>().walk([&](Operation *op) {
    if (isStore(op) && rootOf(viewOf(op)) == rootOf(viewOf(load))) own.push_back(op);
  });
  if (own.size() != 1 || !stores.contains(own.front()) || viewOf(own.front()) != viewOf(load)) return false;
  return llvm::all_of(stores, [&](Operation *op) { return isAtPlaceOf(cast<tile::StoreOp>(op), load); }) &&
         areSideBySide(stores.getArrayRef());
}

FunctionLowering::~FunctionLowering() = default;

FunctionLowering::FunctionLowering(func::FuncOp kernel, const LoweringOptions &options, Emitter &emitter)
    : kernel(kernel), options_(options), layouts_(kernel), e(emitter), order(layouts_),
      writtenRoots(writtenRootsOf(kernel)), readMatrices(readMatricesOf(kernel)) {
  kernel.walk([&](Operation *op) { hasProducts |= isa<tile::ContractOp, tile::DotOp>(op); });
  placeOnChip();
  findCopies();
}

void FunctionLowering::placeOnChip() {
  constexpr int64_t kAlignment = 16;
  kernel.walk([&](tile::OnChipOp op) {
    onChip[op] = onChipBytes;
    int64_t bytes = op.getSize() * bytesOf(op.getResult().getType().getElement());
    onChipBytes += llvm::alignTo(bytes, kAlignment);
  });
  partners = std::make_unique<Partners>(*this, kernel);
  onChipBytes = partners->place(onChipBytes);
  ahead = std::make_unique<CopiesAhead>(*this, kernel);
  aheadOffset = llvm::alignTo(onChipBytes, kAlignment);
  if (ahead->bytes()) onChipBytes = aheadOffset + ahead->bytes();
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
  programIds = ProgramOrder(*this, options_.rasterRows, alone, anyAxis).programAt(number, e.i32(0));
}

LogicalResult FunctionLowering::run() {
  lowered = declareLowered(kernel, e.b);
  e.b.setInsertionPointToStart(&lowered.getBody().front());
  e.threadId = e.b.create<NVVM::ThreadIdXOp>(e.b.getI32Type());
  sharedBase = addressOfSharedMemory(e).value;
  bindParameters();
  teamEntry = e.i32(0).value;
  if (hasProducts && options_.rasterRows && tile::gridOf(kernel).size() == 2) orderPrograms();
  Block &body = kernel.getBody().front();
  if (failed(lowerOps(body.begin(), body.without_terminator().end()))) return failure();
  flush();
  e.b.create<func::ReturnOp>();
  describe();
  LogicalResult fits = checkShared();
  kernel.erase();
  return fits;
}

void FunctionLowering::describe() const {
  LaunchNotes notes;
  notes.threads = layouts_.threads();
  notes.sharedBytes = onChipBytes + sharedBytes;
  notes.hasProduct = hasProducts;
  notes.keepsRegisters = ahead->bytes() > 0;
  if (auto partners = kernel->getAttrOfType<IntegerAttr>(tile::kPartnersAttr))
    notes.clusterCtas = static_cast<int>(partners.getInt());
  notes.write(lowered);
}

LogicalResult FunctionLowering::checkShared() {
  if (onChipBytes + sharedBytes <= options_.sharedLimit) return success();
  return kernel.emitError("needs ") << onChipBytes + sharedBytes << " bytes of shared memory, more than the "
                                    << options_.sharedLimit << " of the target: use smaller blocks";
}

void FunctionLowering::bindParameters() {
  unsigned next = 0;
  auto word = [&] { return e.num(lowered.getArgument(next++)); };
  for (BlockArgument argument : kernel.getArguments()) {
    if (auto type = dyn_cast<tile::ViewType>(argument.getType())) {
      MemoryView view{argument, word(), {}, {nullptr, {}}, type.getElement()};
      for (int64_t axis = 0; axis < type.getRank(); ++axis)
        view.sizes.push_back(word());
      if (type.getRank() == 2) view.rowStride = word();
      views.try_emplace(argument, view);
    } else {
      Num value = word();
      scalars.map(argument, argument.getType().isF32() ? value.value : e.toIndex(value));
    }
  }
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

Num FunctionLowering::scalar(Value index) { return e.fromIndex(scalars.lookupOrDefault(index)); }

Num FunctionLowering::threadPosition(const AxisMap &map) {
  Value &known = threadPositions[&map];
  if (known) return e.num(known);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointAfterValue(teamEntry);
  Num position = e.i32(0);
  for (size_t i = 0; i < map.bits.size();) { // bits in a row that move by powers of two are one field
    size_t end = i + 1;
    while (end < map.bits.size() && map.bits[end].bit == map.bits[i].bit + int(end - i) &&
           map.bits[end].stride == map.bits[i].stride << (end - i))
      ++end;
    Num field = (e.thread() >> map.bits[i].bit) & ((int64_t(1) << (end - i)) - 1);
    position = position + field * map.bits[i].stride;
    i = end;
  }
  known = position.value;
  return position;
}

Num FunctionLowering::position(const AxisMap &map, int64_t reg) {
  return threadPosition(map) + map.offsets[reg];
}

Num FunctionLowering::onChipAddress(int64_t offset) { return e.num(sharedBase) + offset; }

Num FunctionLowering::sharedMemory(int64_t bytes) {
  barrier();
  sharedBytes = std::max(sharedBytes, bytes);
  return e.num(sharedBase) + onChipBytes;
}

void FunctionLowering::barrier() {
  e.barrier();
  order.clear();
}

void FunctionLowering::orderAccess(Operation *access) {
  if (order.conflicts(access)) barrier();
  order.add(access);
}

// ---- control ----

LogicalResult FunctionLowering::lowerOps(Block::iterator begin, Block::iterator end) {
  if (begin != end && begin == begin->getBlock()->begin()) partners->enter(begin->getBlock());
  for (Operation &op : llvm::make_range(begin, end)) {
    if (isElementwise(&op) || once.contains(&op)) continue;
    if (copies.contains(&op)) {
      if (isLoad(&op)) lowerCopy(&op);
      continue;
    }
    if (auto product = dyn_cast<tile::ContractOp>(op); product && role) {
      flush();
      return role->lowerFrom(product);
    }
    if (isa<tile::ReduceOp>(op) || isStore(&op))
      pending.push_back(&op);
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
  if (auto convert = dyn_cast<ConvertLayoutOp>(op)) return lowerConvertLayout(convert), success();
  if (auto transpose = dyn_cast<tile::TransposeOp>(op)) {
    if (!isCopiedToShared(*this, transpose)) lowerTranspose(transpose);
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
  if (kernel->hasAttr(tile::kGridAttr) && axis >= tile::gridOf(kernel).size()) return e.i64(0);
  Type i32 = e.b.getI32Type();
  Value number;
  if (axis == 0) number = e.b.create<NVVM::BlockIdXOp>(i32);
  if (axis == 1) number = e.b.create<NVVM::BlockIdYOp>(i32);
  if (axis == 2) number = e.b.create<NVVM::BlockIdZOp>(i32);
  return e.num(e.b.create<arith::ExtUIOp>(e.b.getI64Type(), number));
}

LogicalResult FunctionLowering::lowerScalar(Operation &op) {
  if (auto dim = dyn_cast<tile::DimOp>(op)) {
    scalars.map(dim.getResult(), e.toIndex(view(dim.getView()).sizes[dim.getAxis()]));
  } else if (auto narrow = dyn_cast<tile::NarrowOp>(op)) {
    MemoryView narrowed = view(narrow.getView());
    Num &size = narrowed.sizes[narrow.getAxis()];
    size = minimum(size, maximum(scalar(narrow.getSize()), e.i64(0)));
    views.try_emplace(narrow.getResult(), narrowed);
  } else if (auto reinterpret = dyn_cast<tile::ReinterpretOp>(op)) {
    Type element = reinterpret.getType().getElement();
    views.try_emplace(reinterpret.getResult(), reinterpreted(view(reinterpret.getView()), element));
  } else if (auto interior = dyn_cast<tile::InteriorOp>(op)) {
    scalars.map(interior.getResult(), e.toIndex(interiorColumns(*this, interior)));
  } else if (auto memory = dyn_cast<tile::OnChipOp>(op)) {
    Num address = onChipAddress(onChip.lookup(memory));
    Type element = memory.getResult().getType().getElement();
    views.try_emplace(
        memory.getResult(),
        MemoryView{
            memory.getResult(), e.wide(address), {e.i64(memory.getSize())}, {nullptr, {}}, element, true});
  } else if (isa<tile::PartnerOp>(op)) {
    Num number = e.num(e.b.create<NVVM::BlockIdYOp>(e.b.getI32Type()));
    scalars.map(op.getResult(0), e.toIndex(e.wide(number)));
  } else if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    scalars.map(id.getResult(), e.toIndex(programId(id.getAxis())));
  } else if (isMemoryEffectFree(&op)) {
    e.b.clone(op, scalars);
  } else {
    return op.emitError("has no NVPTX lowering");
  }
  return success();
}

LogicalResult FunctionLowering::within(Block *block, llvm::function_ref<LogicalResult()> body) {
  auto known = registers;
  const AccessOrder outside = order;
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(block);
  LogicalResult result = body();
  registers = std::move(known);
  order.add(outside);
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

LogicalResult FunctionLowering::lowerAfter(Operation *op) {
  LogicalResult result = lowerOps(std::next(op->getIterator()), op->getBlock()->without_terminator().end());
  flush();
  return result;
}

LogicalResult FunctionLowering::lowerFor(scf::ForOp loop) {
  if (loops.empty()) awaitCopies(loop);
  for (Operation &op : *loop->getBlock()) // loads that were put off would be repeated in each iteration
    if (isLoad(&op) && op.isBeforeInBlock(loop) && !ahead->isLeft(&op)) evaluateAll(op.getResult(0));
  DeferredSums deferred(*this, loop);
  SmallVector<Value> initial;
  for (auto [carried, init] : llvm::enumerate(loop.getInitArgs())) {
    if (!isTile(init)) return loop.emitError("carries a value that is not a tile");
    initial.append(deferred.initial(carried, evaluateAll(init)));
  }
  const bool conflict = order.iterationsConflict(loop);
  if (conflict) barrier();
  auto index = [&](Value value) { return scalars.lookupOrDefault(value); };
  auto forOp = e.b.create<scf::ForOp>(index(loop.getLowerBound()), index(loop.getUpperBound()),
                                      index(loop.getStep()), initial);
  scalars.map(loop.getInductionVar(), forOp.getInductionVar());
  ValueRange arguments = forOp.getRegionIterArgs();
  for (Value tile : loop.getRegionIterArgs()) {
    int64_t count = layouts_.of(tile).registers();
    setRegisters(tile, llvm::to_vector(arguments.take_front(count)));
    arguments = arguments.drop_front(count);
  }
  loops.push_back(&deferred);
  LogicalResult result = lowerRegion(loop.getRegion(), forOp.getBody(), [&] {
    SmallVector<Value> next;
    for (Value yielded : loop.getBody()->getTerminator()->getOperands())
      next.append(evaluateAll(yielded));
    if (conflict) barrier();
    if (!next.empty()) e.b.create<scf::YieldOp>(next);
  });
  loops.pop_back();
  if (failed(result)) return failure();
  SmallVector<SmallVector<Value>> last;
  ValueRange all = forOp.getResults();
  for (Value tile : loop.getResults()) {
    int64_t count = layouts_.of(tile).registers();
    last.push_back(llvm::to_vector(all.take_front(count)));
    all = all.drop_front(count);
  }
  deferred.combine(last);
  for (auto [tile, values] : llvm::zip(loop.getResults(), last))
    setRegisters(tile, values);
  return success();
}

LogicalResult FunctionLowering::lowerIf(scf::IfOp op) {
  if (op.getNumResults()) return op.emitError("has results; tile kernels carry values through loops only");
  bool hasElse = !op.getElseRegion().empty();
  auto branch = e.b.create<scf::IfOp>(scalars.lookupOrDefault(op.getCondition()), hasElse);
  if (failed(lowerRegion(op.getThenRegion(), branch.thenBlock()))) return failure();
  return hasElse ? lowerRegion(op.getElseRegion(), branch.elseBlock()) : success();
}

// ---- tiles ----

void FunctionLowering::lowerProduct(Operation &op) {
  if (auto contract = dyn_cast<tile::ContractOp>(op)) {
    for (Value operand : {contract.getA(), contract.getB()})
      if (writtenRoots.contains(view(operand).root.getAsOpaquePointer())) barrier();
    setRegisters(op.getResult(0), emitContract(*this, contract));
  } else {
    setRegisters(op.getResult(0), emitDot(*this, cast<tile::DotOp>(op)));
  }
}

void FunctionLowering::lowerConvertLayout(ConvertLayoutOp op) {
  TileLayout from = layouts_.of(op.getValue()), to = layouts_.of(op.getResult());
  setRegisters(op.getResult(), redistribute(*this, evaluateAll(op.getValue()), from, to, false));
}

void FunctionLowering::lowerTranspose(tile::TransposeOp op) {
  TileLayout from = layouts_.of(op.getValue()), to = layouts_.of(op.getResult());
  setRegisters(op.getResult(), redistribute(*this, evaluateAll(op.getValue()), from, to, true));
}

void FunctionLowering::lowerExtract(tile::ExtractOp op) {
  Value element = evaluate(op.getValue(), 0, 0);
  Type type = element.getType();
  if (type.isInteger(32) || type.isInteger(64))
    element = e.b.create<arith::IndexCastOp>(e.b.getIndexType(), element);
  scalars.map(op.getResult(), element);
}

void FunctionLowering::lowerExchange(tile::ExchangeOp op) {
  flush();
  SmallVector<Value> values;
  SmallVector<Num> places;
  for (auto [value, place] : llvm::zip(op.getValues(), op.getPlaces())) {
    values.push_back(evaluate(value, 0, 0));
    places.push_back(onChipAddress(onChip.lookup(place.getDefiningOp())));
  }
  partners->exchange(op, values, places);
  order.clear();
}

// ---- loads ----

bool FunctionLowering::readsWritten(Operation *load) const {
  return writtenRoots.contains(rootOf(viewOf(load)).getAsOpaquePointer()) &&
         !(hasProducts && isReplaced(load));
}

void FunctionLowering::lowerLoad(Operation *op) {
  bool isWritten = readsWritten(op);
  bool needsReduction =
      llvm::any_of(op->getOperands(), [&](Value v) { return isTile(v) && dependsOnPending(v); });
  if (isWritten || needsReduction) flush();
  if (loops.empty()) awaitCopies(op);
  if (ahead->isLeft(op)) return ahead->startLeft(cast<tile::LoadOp>(op), copiesAheadMemory());
  if (hasProducts && !isWritten) return;
  if (isWritten || isa<tile::LoadElementsOp>(op)) orderAccess(op);
  loadRows(op, 0, layouts_.of(op->getResult(0)).rows->registers());
}

void FunctionLowering::loadRows(Operation *load, int64_t firstRow, int64_t rows) {
  Value tile = load->getResult(0);
  loadPiece(load, firstRow, 0, {rows, layouts_.of(tile).columns->registers()});
}

void FunctionLowering::loadPiece(Operation *load, int64_t row, int64_t column, StoreTarget::Piece piece) {
  Value tile = load->getResult(0);
  SmallVector<Value> values = MemoryAccess(*this, load).load(row, column, piece);
  const int64_t columns = layouts_.of(tile).columns->registers();
  SmallVector<Value> &all = registersOf(tile);
  for (int64_t r = 0; r < piece.rows; ++r)
    for (int64_t c = 0; c < piece.columns; ++c)
      all[(row + r) * columns + column + c] = values[r * piece.columns + c];
}

} // namespace tilewright::nvptx
