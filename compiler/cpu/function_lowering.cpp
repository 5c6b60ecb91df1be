#include "compiler/cpu/function_lowering.h"

#include "compiler/cpu/amx_tiles.h"
#include "compiler/cpu/contraction.h"
#include "compiler/cpu/index_sign.h"
#include "compiler/cpu/nest.h"
#include "compiler/dialect/launch_notes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/SaveAndRestore.h"

namespace tilewright::cpu {

using namespace mlir;

RankedTensorType tileType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

bool isFree(Operation *op) {
  if (isa<arith::ConstantOp>(op)) return tileType(op->getResult(0)) != nullptr;
  return isa<tile::SplatOp, tile::IotaOp, tile::BroadcastOp>(op);
}

bool isElementwise(Operation *op) {
  if (isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadElementsOp, tile::StoreOp, tile::StoreRowsOp,
          tile::ReduceAddOp, tile::ReduceOp, tile::MulHighOp>(op))
    return true;
  StringRef dialect = op->getDialect()->getNamespace();
  return (dialect == "arith" || dialect == "math") && op->getNumResults() == 1 &&
         tileType(op->getResult(0)) && !isFree(op);
}

/// Truth values take a byte in memory.
Type storedType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element;
}

static bool writesMemory(Operation *op) {
  return isa<tile::StoreOp, tile::StoreRowsOp, tile::ReduceAddOp>(op);
}
static bool readsMemory(Operation *op) {
  return isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadElementsOp, tile::ReduceAddOp>(op);
}

FunctionLowering::FunctionLowering(func::FuncOp kernel, const Machine &machine)
    : kernel(kernel), builder(kernel), e(kernel.getLoc(), builder, machine), pairs(kernel, machine) {}

LogicalResult FunctionLowering::run() {
  auto pointer = LLVM::LLVMPointerType::get(kernel.getContext());
  auto type = FunctionType::get(kernel.getContext(), {pointer, pointer, pointer}, {});
  lowered = e.b.create<func::FuncOp>(kernel.getName(), type);
  e.enter(*lowered.addEntryBlock());
  bindParameters();
  if (failed(lowerBlock(kernel.getBody().front()))) return failure();
  flush();
  e.b.create<func::ReturnOp>();
  LaunchNotes notes;
  notes.scratchBytes = scratchBytes;
  notes.write(lowered);
  lowered.setArgAttr(2, LLVM::LLVMDialect::getNoAliasAttrName(), e.b.getUnitAttr());
  kernel.erase();
  return success();
}

/// Slots are 8 bytes each: a view takes its pointer, its sizes and, of rank 2, the stride of its rows.
void FunctionLowering::bindParameters() {
  Value slots = lowered.getArgument(0);
  int64_t next = 0;
  auto slot = [&](Type type) -> Value {
    Value where = e.address(slots, e.index(next++), e.b.getI64Type());
    return e.b.create<LLVM::LoadOp>(type, where, 8);
  };
  auto indexSlot = [&] { return e.b.create<arith::IndexCastOp>(e.b.getIndexType(), slot(e.b.getI64Type())); };
  for (BlockArgument argument : kernel.getArguments()) {
    if (auto type = dyn_cast<tile::ViewType>(argument.getType())) {
      MemoryView view;
      view.element = type.getElement();
      view.pointer = slot(LLVM::LLVMPointerType::get(kernel.getContext()));
      for (int64_t axis = 0; axis < type.getRank(); ++axis)
        view.sizes.push_back(indexSlot());
      if (type.getRank() == 2) view.rowStride = indexSlot();
      views[argument] = view;
    } else {
      scalars.map(argument, argument.getType().isF32() ? slot(e.b.getF32Type()) : Value(indexSlot()));
    }
  }
}

Value FunctionLowering::scratchAt(int64_t bytes) {
  int64_t offset = scratchBytes;
  scratchBytes += llvm::alignTo(bytes, 64);
  Value where = e.index(offset); // a constant of the entry block
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointAfterValue(where);
  return e.address(lowered.getArgument(2), where, e.b.getI8Type());
}

const TileBuffer *FunctionLowering::buffer(Value value) const {
  auto found = buffers.find(value);
  return found == buffers.end() ? nullptr : &found->second;
}

TileBuffer FunctionLowering::allocate(RankedTensorType type, int64_t rowUnit) {
  bool isColumn = type.getDimSize(1) == 1;
  TileBuffer result;
  result.rows = type.getDimSize(0);
  result.columns = type.getDimSize(1);
  result.stride = isColumn ? 1 : llvm::alignTo(result.columns, e.machine.microColumns());
  result.element = type.getElementType();
  int64_t elements = isColumn ? llvm::alignTo(result.rows, e.machine.lanes)
                              : llvm::alignTo(result.rows, rowUnit) * result.stride;
  result.pointer = scratchAt(elements * std::max<int64_t>(1, result.element.getIntOrFloatBitWidth() / 8));
  return result;
}

/// Whether a store may write, strip by strip, over what the cluster accesses in a later strip.
bool FunctionLowering::overwritesOtherElements(Operation *op) const {
  return writesMemory(op) && llvm::any_of(cluster, [&](Operation *other) {
           return (readsMemory(other) || writesMemory(other)) && tile::touchOtherPlaces(op, other);
         });
}

LogicalResult FunctionLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (isFree(&op)) continue;
    if (isElementwise(&op)) {
      bool readsAfterWrite = readsMemory(&op) && llvm::any_of(cluster, writesMemory);
      if (readsAfterWrite || overwritesOtherElements(&op)) flush();
      cluster.push_back(&op);
    } else if (failed(lowerOp(op))) {
      return failure();
    }
  }
  return success();
}

LogicalResult FunctionLowering::lowerOp(Operation &op) {
  if (auto dim = dyn_cast<tile::DimOp>(op))
    return scalars.map(dim.getResult(), view(dim.getView()).sizes[dim.getAxis()]), success();
  if (auto narrow = dyn_cast<tile::NarrowOp>(op)) {
    MemoryView narrowed = view(narrow.getView());
    Value &size = narrowed.sizes[narrow.getAxis()];
    Value wanted = e.b.createOrFold<arith::MaxSIOp>(scalar(narrow.getSize()), e.index(0));
    size = e.minimum(size, wanted);
    return views[narrow.getResult()] = narrowed, success();
  }
  if (auto reinterpret = dyn_cast<tile::ReinterpretOp>(op)) {
    MemoryView seen = reinterpreted(view(reinterpret.getView()), reinterpret.getType().getElement());
    return views[reinterpret.getResult()] = seen, success();
  }
  if (auto memory = dyn_cast<tile::OnChipOp>(op)) {
    Type element = memory.getType().getElement();
    const int64_t size = memory.getSize();
    Value place = scratchAt(size * element.getIntOrFloatBitWidth() / 8);
    return views[memory.getResult()] = MemoryView{place, {e.index(size)}, {}, element}, success();
  }
  if (auto interior = dyn_cast<tile::InteriorOp>(op))
    return scalars.map(interior.getResult(), interiorColumns(interior)), success();
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    Value where = e.address(lowered.getArgument(1), e.index(id.getAxis()), e.b.getI64Type());
    Value loaded = e.b.create<LLVM::LoadOp>(e.b.getI64Type(), where, 8);
    return scalars.map(id.getResult(), e.b.create<arith::IndexCastOp>(e.b.getIndexType(), loaded)), success();
  }
  if (llvm::none_of(op.getOperandTypes(), [](Type type) { return isa<RankedTensorType>(type); }) &&
      op.getNumRegions() == 0 && isMemoryEffectFree(&op))
    return e.b.clone(op, scalars), success();
  if (isa<tile::ContractOp>(op)) flush(); // what it reads may be what the cluster writes
  if (auto contract = dyn_cast<tile::ContractOp>(op)) return lowerContract(contract), success();
  if (auto dot = dyn_cast<tile::DotOp>(op)) return lowerDot(dot), success();
  if (auto transpose = dyn_cast<tile::TransposeOp>(op)) return lowerTranspose(transpose), success();
  if (auto extract = dyn_cast<tile::ExtractOp>(op)) return lowerExtract(extract), success();
  if (auto loop = dyn_cast<scf::ForOp>(op)) return lowerFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op)) return lowerIf(branch);
  return op.emitError("has no CPU lowering");
}

MemoryView FunctionLowering::reinterpreted(MemoryView view, Type element) {
  const int64_t from = view.element.getIntOrFloatBitWidth(), to = element.getIntOrFloatBitWidth();
  auto scale = [&](Value &count) {
    count = e.b.createOrFold<arith::DivUIOp>(e.mul(count, e.index(from)), e.index(to));
  };
  scale(view.sizes.back());
  if (view.sizes.size() == 2) scale(view.rowStride);
  view.element = element;
  return view;
}

/// Unaligned accesses cost the processor nothing: every whole block will do.
Value FunctionLowering::interiorColumns(tile::InteriorOp op) {
  Value columns = scalar(op.getWidth());
  for (Value accessed : op.getViews())
    columns = e.minimum(columns, view(accessed).sizes.back());
  columns = e.b.createOrFold<arith::MaxSIOp>(columns, e.index(0));
  Value step = e.index(op.getStep());
  return e.mul(e.b.createOrFold<arith::DivUIOp>(columns, step), step);
}

void FunctionLowering::flush() {
  emitCluster(*this, cluster);
  cluster.clear();
}

TileBuffer FunctionLowering::materialise(Value value) {
  flush();
  if (!buffer(value)) emitMaterialised(*this, value);
  return *buffer(value);
}

void FunctionLowering::copy(const TileBuffer &from, const TileBuffer &to) {
  const Type stored = storedType(from.element);
  const int64_t elements = from.rows * from.stride;
  auto copyLanes = [&](Value at, int64_t lanes) {
    e.store(e.address(to.pointer, at, stored), e.load(e.address(from.pointer, at, stored), stored, lanes));
  };
  // A vector's load of a number that was just stored would wait until the store has left the processor.
  if (elements == 1) return copyLanes(e.index(0), 1);
  const int64_t lanes = e.machine.lanes;
  e.loop(e.index(0), e.index(elements), e.index(lanes), [&](Value at) { copyLanes(at, lanes); });
}

LogicalResult FunctionLowering::lowerFor(scf::ForOp loop) {
  SmallVector<TileBuffer> carried;
  for (auto [argument, init, result] :
       llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs(), loop.getResults())) {
    if (!tileType(init)) return loop.emitError("carries a value that is not a tile");
    TileBuffer buffer = allocate(tileType(init));
    copy(materialise(init), buffer);
    carried.push_back(buffer);
    setBuffer(argument, buffer);
    setBuffer(result, buffer);
  }
  flush();
  auto lowerBound = scalar(loop.getLowerBound()), upperBound = scalar(loop.getUpperBound());
  auto forOp = e.b.create<scf::ForOp>(lowerBound, upperBound, scalar(loop.getStep()));
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(forOp.getBody());
  llvm::SaveAndRestore scope(buffers); // what the body materialises is not there when it does not run
  scalars.map(loop.getInductionVar(), forOp.getInductionVar());
  const auto outside = buffers; // what the body puts into a buffer is there only if the body runs
  if (failed(lowerBlock(*loop.getBody()))) return failure();
  flush(); // its stores belong to the body, also when it carries nothing

  // What one carried tile becomes may be what another one was: all are read before any is written.
  SmallVector<TileBuffer> next;
  for (Value yielded : loop.getBody()->getTerminator()->getOperands())
    next.push_back(materialise(yielded));
  for (auto [index, buffer] : llvm::enumerate(next)) {
    bool isCarried = llvm::any_of(carried, [&](TileBuffer &c) { return c.pointer == buffer.pointer; });
    if (isCarried && buffer.pointer != carried[index].pointer) {
      TileBuffer saved = buffer;
      saved.pointer = scratchAt(buffer.rows * buffer.stride * 8);
      copy(buffer, saved);
      buffer = saved;
    }
  }
  for (auto [from, to] : llvm::zip(next, carried))
    if (from.pointer != to.pointer) copy(from, to);
  buffers = outside;
  return success();
}

LogicalResult FunctionLowering::lowerIf(scf::IfOp op) {
  flush();
  SmallVector<TileBuffer> results;
  for (Value result : op.getResults()) {
    if (!tileType(result)) return op.emitError("gives a value that is not a tile");
    results.push_back(allocate(tileType(result)));
  }
  auto branch = e.b.create<scf::IfOp>(scalar(op.getCondition()), !op.getElseRegion().empty());
  auto lower = [&](Region &from, Region &to) -> LogicalResult {
    if (from.empty()) return success();
    OpBuilder::InsertionGuard guard(e.b);
    llvm::SaveAndRestore scope(buffers);
    e.b.setInsertionPointToStart(&to.front());
    const auto outside = buffers; // what the branch puts into a buffer is there only if the branch is taken
    if (failed(lowerBlock(from.front()))) return failure();
    flush();
    for (auto [yielded, result] : llvm::zip(from.front().getTerminator()->getOperands(), results))
      copy(materialise(yielded), result);
    buffers = outside;
    return success();
  };
  if (failed(lower(op.getThenRegion(), branch.getThenRegion()))) return failure();
  if (failed(lower(op.getElseRegion(), branch.getElseRegion()))) return failure();
  for (auto [result, buffer] : llvm::zip(op.getResults(), results))
    setBuffer(result, buffer);
  return success();
}

void FunctionLowering::lowerProduct(Value result, const ProductOperand &left, const ProductOperand &right) {
  RankedTensorType type = tileType(result);
  const ProductMethod method = productMethod(e.machine, left.view.element, right.view.element);
  bool isColumn = type.getDimSize(1) == 1;
  auto wide = isColumn ? type.clone({type.getDimSize(0), method.microColumns}) : type;
  TileBuffer sums = allocate(wide, method.microRows);
  ProductScratch scratch;
  if (!readsInPlace(e.machine, left, right))
    scratch.left = scratchAt(packedLeftBytes(e.machine, method, sums.rows));
  scratch.right = scratchAt(packedRightBytes(e.machine, method, sums.stride));
  if (method.inTiles) scratch.tiles = scratchAt(AmxTiles::kScratchBytes);
  int64_t rows = llvm::alignTo(sums.rows, method.microRows);
  emitProduct(e, left, right, scratch, {sums.pointer, rows, sums.stride});
  if (isColumn) {
    TileBuffer column = allocate(type);
    copyElements(sums, column, type.getDimSize(0), 1, false);
    sums = column;
  }
  setBuffer(result, sums);
}

void FunctionLowering::lowerContract(tile::ContractOp op) {
  ProductOperand left{view(op.getA()), scalar(op.getAOffset()), int(op.getAAxis()),
                      !isNeverNegative(op.getAOffset())};
  ProductOperand right{view(op.getB()), scalar(op.getBOffset()), int(op.getBAxis()),
                       !isNeverNegative(op.getBOffset())};
  if (op.getPart()) takePart(op, left, right);
  lowerProduct(op.getResult(), left, right);
}

/// Cuts the operands' views to the part of the contracted axis.
void FunctionLowering::takePart(tile::ContractOp op, ProductOperand &left, ProductOperand &right) {
  const Value depth = left.view.sizes[left.contractedAxis], unit = e.index(tile::kPartUnit);
  const Value steps = e.ceilDiv(depth, tile::kPartUnit), parts = e.index(op.getParts());
  auto cut = [&](Value part) {
    return e.mul(e.b.createOrFold<arith::DivUIOp>(e.mul(steps, part), parts), unit);
  };
  const Value part = scalar(op.getPart()), begin = cut(part);
  const Value size = e.sub(e.minimum(cut(e.add(part, e.index(1))), depth), begin);
  for (ProductOperand *operand : {&left, &right}) {
    MemoryView &view = operand->view;
    const Value skipped = operand->contractedAxis == 1 ? begin : e.mul(begin, view.rowStride);
    view.pointer = e.address(view.pointer, skipped, view.element);
    view.sizes[operand->contractedAxis] = size;
  }
}

void FunctionLowering::lowerDot(tile::DotOp op) {
  auto operand = [&](Value value, int contractedAxis) {
    TileBuffer buffer = materialise(value);
    auto type = tileType(value);
    MemoryView view{buffer.pointer,
                    {e.index(type.getDimSize(0)), e.index(type.getDimSize(1))},
                    e.index(buffer.stride),
                    buffer.element};
    return ProductOperand{view, e.index(0), contractedAxis};
  };
  ProductOperand left = operand(op.getA(), 1), right = operand(op.getB(), 0);
  lowerProduct(op.getResult(), left, right);
}

/// to[r, c] (or to[c, r] when transposed) = from[r, c], one element at a time.
void FunctionLowering::copyElements(const TileBuffer &from, const TileBuffer &to, int64_t rows,
                                    int64_t columns, bool transposed) {
  Type stored = storedType(from.element);
  auto place = [&](const TileBuffer &buffer, Value row, Value column) {
    return e.address(buffer.pointer, e.add(e.mul(row, e.index(buffer.stride)), column), stored);
  };
  const Value none = e.index(0), one = e.index(1);
  e.loop(none, e.index(rows), one, [&](Value r) {
    e.loop(none, e.index(columns), one, [&](Value c) {
      Value target = transposed ? place(to, c, r) : place(to, r, c);
      e.store(target, e.load(place(from, r, c), stored, 1));
    });
  });
}

void FunctionLowering::lowerTranspose(tile::TransposeOp op) {
  TileBuffer from = materialise(op.getValue());
  TileBuffer to = allocate(tileType(op.getResult()));
  copyElements(from, to, from.rows, from.columns, true);
  setBuffer(op.getResult(), to);
}

void FunctionLowering::lowerExtract(tile::ExtractOp op) {
  TileBuffer from = materialise(op.getValue());
  Type stored = storedType(from.element);
  Value loaded = e.b.create<vector::ExtractOp>(e.load(from.pointer, stored, 1), ArrayRef<int64_t>{0});
  if (from.element.isInteger(1))
    loaded = e.b.create<arith::TruncIOp>(e.b.getI1Type(), loaded);
  else if (!from.element.isF32())
    loaded = e.b.create<arith::IndexCastOp>(e.b.getIndexType(), loaded);
  scalars.map(op.getResult(), loaded);
}

} // namespace tilewright::cpu
