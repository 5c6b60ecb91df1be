#include "compiler/passes/sweep_loop.h"

#include <optional>

#include "compiler/passes/memory_access.h"
#include "compiler/passes/sweep_body.h"
#include "compiler/passes/sweep_interior.h"
#include "compiler/passes/sweep_schedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using tilewright::tile::ReductionKind;

namespace tilewright {

namespace {

/// The same memory, cut off where a row that begins at column `first` ends.
Value cutView(TileBuilder &b, Value view, Value first, Value width) {
  int64_t axis = cast<tile::ViewType>(view.getType()).getRank() - 1;
  auto dim = width.getDefiningOp<tile::DimOp>();
  if (dim && dim.getView() == view && static_cast<int64_t>(dim.getAxis()) == axis && isZero(first))
    return view;
  Value end = isZero(first) ? width : b.create<arith::AddIOp>(first, width);
  return b.create<tile::NarrowOp>(view, axis, end);
}

bool isReduction(Operation *op) {
  return op->getNumResults() > 0 && llvm::none_of(op->getResultTypes(), isLongTile);
}

/// The number that all such comparisons of a sweep are with; null when there are none, or several numbers.
Value comparedPosition(ArrayRef<Operation *> ops) {
  Value number;
  for (Operation *op : llvm::make_filter_range(ops, comparesPosition)) {
    Value other = op->getOperand(1).getDefiningOp<tile::BroadcastOp>().getValue();
    if (number && !sameValue(number, other)) return {};
    number = other;
  }
  return number;
}

/// The view each write of the sweep goes to, cut off at the end of the row.
llvm::DenseMap<Operation *, Value> cutViews(TileBuilder &b, ArrayRef<Operation *> ops, Value width) {
  llvm::DenseMap<Operation *, Value> views;
  for (Operation *op : ops)
    llvm::TypeSwitch<Operation *>(op)
        .Case<tile::StoreOp, tile::ReduceAddOp>(
            [&](auto store) { views[op] = cutView(b, store.getView(), store.getOffsets().back(), width); })
        .Case([&](tile::StoreRowsOp store) {
          views[op] = cutView(b, store.getView(), store.getColumn(), width);
        });
  return views;
}

/// The loops of one sweep: over the interior, which needs no masks, and over the rest of the row (see
/// `SweepInterior`). Where rows are kept on chip, the interior is what there is room for.
class SweepEmitter {
public:
  SweepEmitter(TileBuilder &b, ArrayRef<Operation *> ops, Value width, int64_t partners, KeptRows &kept)
      : b(b), ops(ops), width(width), partners(partners), kept(kept) {
    views = cutViews(b, ops, width);
  }

  void emit(SweepBlocks blocks) {
    if (blocks.shiftsLazily && blocks.interior && hasInterior()) lazy = lazySum();
    for (Operation *op : llvm::make_filter_range(ops, isReduction)) {
      llvm::append_range(carried, initialValues(b, op));
      if (op == lazy) carried.push_back(carried.end()[-2]);
    }
    if (!blocks.interior || !hasInterior())
      emitLoop({SweepInterior::firstColumn(b, blocks.rest, partners), width}, blocks.rest * partners,
               {blocks.rest, false});
    else
      emitPeeled(blocks);
    if (partners > 1 && !carried.empty()) combineWithPartners();
    replaceResults();
  }

private:
  /// The sum of the sweep that may go with a lazy shift: of one row, and as blocks are read again, nothing
  /// may be written.
  Operation *lazySum() const {
    Operation *only = nullptr;
    for (Operation *op : ops) {
      if (op->getNumResults() == 0) return nullptr;
      if (!isa<tile::MaxSumExpOp>(op)) continue;
      if (only || tile::rowsOf(op->getResult(0).getType()) != 1) return nullptr;
      only = op;
    }
    return only;
  }

  unsigned carriedOf(Operation *op) const { return op == lazy ? 3 : op->getNumResults(); }

  void replaceResults() {
    ArrayRef<Value> left = carried;
    for (Operation *op : llvm::make_filter_range(ops, isReduction)) {
      SmallVector<Value> values(left.take_front(op->getNumResults()));
      if (op == lazy) values[1] = sumOfMaximum(b, {left[0], left[1], left[2]});
      op->replaceAllUsesWith(values);
      left = left.drop_front(carriedOf(op));
    }
  }

  /// Every access begins where a row does, so that blocks of the interior are as well aligned as the row.
  bool hasInterior() {
    bool accesses = false;
    for (Operation *op : ops)
      if (Value column = columnOf(op)) {
        accesses = true;
        if (!isZero(column)) return false;
      }
    return accesses;
  }

  void emitPeeled(SweepBlocks blocks) {
    Value inside = b.create<arith::SelectOp>(rowsInside(), width, b.index(0)), near;
    SmallVector<Value> accessed = accessedViews();
    Value end = b.create<tile::InteriorOp>(inside, blocks.interior, accessed);
    if (blocks.cutsLeftOut && blocks.interior > blocks.rest)
      near = b.create<tile::InteriorOp>(inside, blocks.rest, accessed);
    interior.emplace(b, blocks.interior, partners, end, near);
    bool isThere = static_cast<bool>(kept.end);
    bool keeps = isThere || keepHere(end);
    if (keeps && isThere) {
      Value isSame = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, end, kept.end);
      interior->shorten(b.create<arith::SelectOp>(isSame, kept.kept, b.index(0)));
    } else if (keeps) {
      interior->shorten(kept.kept);
      emitCopies();
    }
    interior->leaveOut(comparedPosition(ops));
    if (!keeps) emitInterior(blocks);
    if (near) emitSmall(blocks.rest);
    emitLoop(interior->behind(blocks.rest, width), blocks.rest * partners, {blocks.rest, false});
    if (!keeps) return;
    const LoopBlock onChip{blocks.interior, true, &kept.places};
    emitLoop(interior->until(interior->first(), interior->bounds().end), interior->stride(), onChip);
  }

  void emitInterior(SweepBlocks blocks) {
    LoopBlock shape{blocks.interior, true};
    shape.isLazy = true;
    Value begin = interior->first();
    if (Value kept = exponentialsEnd(blocks)) {
      BlockLoop loop = interior->until(begin, kept);
      begin = loop.end;
      LoopBlock known = shape;
      known.hasExponentials = true;
      emitLoop(loop, interior->stride(), known);
    }
    emitLoop(interior->until(begin, interior->bounds().end), interior->stride(), shape);
  }

  /// Where an earlier sweep kept exponentials of other small blocks than this one has, none is gone over
  /// here.
  void emitSmall(int64_t rest) {
    LoopBlock shape{rest, true};
    shape.hasExponentials = usesExponentials && kept.exponentials.hasCut, shape.isCut = true;
    emitLoop(interior->small(rest, shape.hasExponentials ? isSameInterior : Value()), rest, shape);
  }

  /// Whether this sweep, the first that could, keeps something.
  bool keepHere(Value end) {
    for (Operation *load : kept.loads) {
      if (!llvm::is_contained(ops, load)) continue;
      Type view = tile::ViewType::get(b.getContext(), 1, tile::elementOf(load->getResult(0).getType()));
      kept.places[load] = b.create<tile::OnChipOp>(view, kept.columns);
    }
    if (kept.places.empty()) return false;
    kept.end = end;
    kept.kept = b.create<arith::MinSIOp>(end, b.index(kept.columns * partners));
    return true;
  }

  /// Where the part of the interior ends whose exponentials this sweep keeps, or finds; null: neither.
  Value exponentialsEnd(SweepBlocks blocks) {
    KeptExponentials &known = kept.exponentials;
    const KeptInterior now = interior->bounds();
    if (llvm::is_contained(ops, known.sum)) {
      if (!now.position && llvm::all_of(known.of, [](auto &use) { return use.second; })) return {};
      known.begin(b, now, blocks.interior, now.near ? blocks.rest : 0);
      usesExponentials = true;
      return known.kept;
    }
    if (!known.kept || !sameValue(known.interior.position, now.position) || !known.serve(ops, now.position))
      return {};
    usesExponentials = true;
    isSameInterior = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, now.end, known.interior.end);
    if (now.near) {
      Value isNear = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, now.near, known.interior.near);
      isSameInterior = b.create<arith::AndIOp>(isSameInterior, isNear);
    }
    return b.create<arith::SelectOp>(isSameInterior, known.kept, b.index(0));
  }

  /// What is kept, the interior, for this partner: copied ahead of everything else.
  void emitCopies() {
    auto makeBody = [&](OpBuilder &builder, Location loc, Value column, ValueRange) {
      TileBuilder inner(loc, builder);
      SweepBody body(inner, width, interior->block(), column, /*isInterior=*/true, false);
      body.setKept({false, interior->placeOf(inner, column), &kept.places});
      for (Operation *op : ops)
        if (kept.places.contains(op)) body.clone(op, {});
      inner.create<scf::YieldOp>();
    };
    auto loop = b.create<scf::ForOp>(interior->first(), interior->bounds().end, b.index(interior->stride()),
                                     ValueRange(), makeBody);
    loop->setAttr(tile::kSweepAttr, b.getUnitAttr());
  }

  /// What each partner has of a row's reductions to the row's own:
  ///     a = reduce(a_p)        m = max m_p,  s = Σ s_p exp(m_p - m)
  void combineWithPartners() {
    SmallVector<Value> places, all;
    for (Value value : carried) {
      Type view = tile::ViewType::get(b.getContext(), 1, tile::elementOf(value.getType()));
      places.push_back(b.create<tile::OnChipOp>(view, partners));
    }
    b.create<tile::ExchangeOp>(carried, places);
    for (auto [value, place] : llvm::zip(carried, places)) {
      auto type = RankedTensorType::get({1, partners}, tile::elementOf(value.getType()));
      all.push_back(b.create<tile::LoadOp>(type, place, ValueRange(b.index(0)), Value(), /*interior=*/false));
    }
    size_t next = 0;
    for (Operation *op : llvm::make_filter_range(ops, isReduction)) {
      if (auto plain = dyn_cast<tile::ReduceOp>(op)) {
        carried[next] = b.reduce(plain.getKind(), all[next]);
        ++next;
        continue;
      }
      Value top = b.reduce(ReductionKind::max, all[next]);
      Value distance = b.create<arith::SubFOp>(all[next], b.spread(finiteOrZero(b, top), all[next]));
      Value scaled = b.create<arith::MulFOp>(all[next + 1], b.create<math::ExpOp>(distance));
      carried[next] = top;
      carried[next + 1] = b.reduce(ReductionKind::sum, scaled);
      next += 2;
    }
  }

  /// Whether every row that the sweep touches lies inside its view.
  Value rowsInside() {
    Value all = b.create<arith::ConstantIntOp>(1, 1);
    auto require = [&](arith::CmpIPredicate predicate, Value x, Value y) {
      all = b.create<arith::AndIOp>(all, b.create<arith::CmpIOp>(predicate, x, y));
    };
    auto block = [&](auto access, Type tile) {
      if (access.getOffsets().size() != 2) return;
      Value first = access.getOffsets()[0],
            last = b.create<arith::AddIOp>(first, b.index(tile::rowsOf(tile)));
      require(arith::CmpIPredicate::sge, first, b.index(0));
      require(arith::CmpIPredicate::sle, last, b.create<tile::DimOp>(access.getView(), 0));
    };
    auto numbered = [&](auto access) {
      auto extreme = [&](ReductionKind kind) -> Value {
        Value rows = access.getRows();
        if (tile::rowsOf(rows.getType()) > 1) rows = b.create<tile::ReduceOp>(kind, rows, 0);
        return b.create<tile::ExtractOp>(rows);
      };
      require(arith::CmpIPredicate::sge, extreme(ReductionKind::min), b.index(0));
      require(arith::CmpIPredicate::slt, extreme(ReductionKind::max),
              b.create<tile::DimOp>(access.getView(), 0));
    };
    for (Operation *op : ops)
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](tile::LoadOp load) { block(load, load.getType()); })
          .Case<tile::StoreOp, tile::ReduceAddOp>(
              [&](auto store) { block(store, store.getValue().getType()); })
          .Case<tile::LoadRowsOp, tile::StoreRowsOp>(numbered);
    return all;
  }

  SmallVector<Value> accessedViews() {
    llvm::SetVector<Value> accessed;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (isa<tile::ViewType>(operand.getType()))
          accessed.insert(views.contains(op) ? views.lookup(op) : operand);
    return accessed.takeVector();
  }

  struct LoopBlock {
    int64_t columns;
    bool isInterior;
    const llvm::DenseMap<Operation *, Value> *kept = nullptr; ///< places of what is on chip
    bool hasExponentials = false;                             ///< that are kept
    bool isCut = false;                                       ///< a block of the rest's size
    bool isLazy = false;                                      ///< a LazySum's shift is there before the block
  };

  void emitLoop(const BlockLoop &blocks, int64_t step, const LoopBlock &shape) {
    auto makeBody = [&](OpBuilder &builder, Location loc, Value at, ValueRange values) {
      TileBuilder inner(loc, builder);
      Value column = blocks.column(inner, at);
      const bool leavesOut = shape.isInterior && interior->bounds().position;
      SweepBody body(inner, width, shape.columns, column, shape.isInterior, leavesOut);
      if (shape.kept) body.setKept({true, interior->placeOf(inner, column), shape.kept});
      const KeptExponentials &known = kept.exponentials;
      if (shape.hasExponentials)
        body.setExponentials(&known,
                             shape.isCut ? known.placeOfCut(inner, at) : known.placeOf(inner, column));
      if (shape.isLazy) body.setLazy();
      SmallVector<Value> next;
      size_t lazyAt = 0;
      for (Operation *op : ops) {
        inner.setLoc(op->getLoc());
        if (!isReduction(op)) {
          body.clone(op, views.lookup(op));
          continue;
        }
        ValueRange before = values.slice(next.size(), carriedOf(op));
        if (op == lazy) lazyAt = next.size();
        llvm::append_range(next, op == lazy ? SmallVector<Value>(before) : body.reduce(op, before));
      }
      if (lazy) llvm::copy(body.reduce(lazy, values.slice(lazyAt, carriedOf(lazy))), next.begin() + lazyAt);
      body.keepExponentials();
      inner.create<scf::YieldOp>(next);
    };
    auto loop = b.create<scf::ForOp>(blocks.begin, blocks.end, b.index(step), carried, makeBody);
    loop->setAttr(tile::kSweepAttr, b.getUnitAttr());
    carried.assign(loop.getResults().begin(), loop.getResults().end());
  }

  TileBuilder &b;
  ArrayRef<Operation *> ops;
  Value width;
  int64_t partners;
  KeptRows &kept;
  std::optional<SweepInterior> interior;
  bool usesExponentials = false; ///< keeps or finds them
  Value isSameInterior;          ///< as that of the sweep that kept them; null: this is that sweep
  SmallVector<Value> carried;
  Operation *lazy = nullptr; ///< the sum that carries a LazySum
  llvm::DenseMap<Operation *, Value> views;
};

} // namespace

void emitSweep(TileBuilder &b, ArrayRef<Operation *> ops, Value width, SweepBlocks blocks, int64_t partners,
               KeptRows &kept) {
  SweepEmitter(b, ops, width, partners, kept).emit(blocks);
}

void expandMaxSumExp(tile::MaxSumExpOp op) {
  TileBuilder b(op);
  Value m = b.reduce(ReductionKind::max, op.getValue());
  Value terms = exponentials(b, op.getValue(), finiteOrZero(b, m));
  op.replaceAllUsesWith(ValueRange{m, b.reduce(ReductionKind::sum, terms)});
  op.erase();
}

} // namespace tilewright
