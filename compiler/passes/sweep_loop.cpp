#include "compiler/passes/sweep_loop.h"

#include <functional>

#include "compiler/passes/memory_access.h"
#include "compiler/passes/sweep_body.h"
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

/// The loops of one sweep. Blocks of the first, `interior`, need no masks; the second does the rest of the
/// row, and before it the block with the position that all rows compare theirs with:
///
///     interior:  0, B, …  without that block        rest:  that block in smaller ones, then what is left
///
/// Where rows are kept on chip, the interior is what there is room for.
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
      emitLoop(firstColumn(blocks.rest), width, blocks.rest * partners, {blocks.rest, false}, asItIs);
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
    block = blocks.interior, stride = block * partners;
    Value inside = b.create<arith::SelectOp>(rowsInside(), width, b.index(0));
    SmallVector<Value> accessed = accessedViews();
    end = b.create<tile::InteriorOp>(inside, block, accessed);
    if (cuts(blocks)) near = b.create<tile::InteriorOp>(inside, blocks.rest, accessed);
    first = firstColumn(block);
    bool isThere = static_cast<bool>(kept.end);
    bool keeps = isThere || keepHere();
    if (keeps && isThere) {
      Value isSame = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, end, kept.end);
      end = b.create<arith::SelectOp>(isSame, kept.kept, b.index(0));
    } else if (keeps) {
      end = kept.kept;
      emitCopies();
    }
    leaveOut(comparedPosition(ops));
    if (!keeps) emitInterior(blocks);
    if (near) emitSmall(blocks.rest);
    emitRest(blocks.rest);
    if (keeps) emitLoop(first, ahead(end), stride, {block, true, &kept.places}, interiorColumn());
  }

  void emitInterior(SweepBlocks blocks) {
    Value begin = first;
    if (Value kept = exponentialsEnd(blocks)) {
      Value split = ahead(kept);
      emitLoop(begin, split, stride, {block, true, nullptr, true, false, true}, interiorColumn());
      begin = split;
    }
    emitLoop(begin, ahead(end), stride, {block, true, nullptr, false, false, true}, interiorColumn());
  }

  using ToColumn = std::function<Value(TileBuilder &, Value)>;

  /// This partner's first block.
  Value firstColumn(int64_t block) {
    if (partners == 1) return b.index(0);
    return b.create<arith::MulIOp>(b.create<tile::PartnerOp>(b.getIndexType()), b.index(block));
  }

  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }

  /// The interior's loops leave out the block with the position that all rows compare theirs with, if it is
  /// one of this partner's.
  void leaveOut(Value compared) {
    position = compared;
    if (!position) return;
    Value at = b.create<tile::ExtractOp>(position);
    isSkipped = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, at, end);
    Value begin = b.create<arith::SubIOp>(at, b.create<arith::RemUIOp>(at, b.index(block)));
    if (partners > 1) {
      Value among = b.create<arith::RemUIOp>(begin, b.index(stride));
      Value isMine = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, among, first);
      isSkipped = b.create<arith::AndIOp>(isSkipped, isMine);
    }
    skipped = b.create<arith::SelectOp>(isSkipped, begin, end);
    masked = skipped, maskedColumns = b.create<arith::SelectOp>(isSkipped, b.index(stride), b.index(0));
  }

  /// Where a loop ends that goes over the blocks before `column` and leaves one out.
  Value ahead(Value column) {
    if (!position) return column;
    Value isBefore = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, skipped, column);
    Value leftOut = b.create<arith::SelectOp>(isBefore, b.index(stride), b.index(0));
    return b.create<arith::SubIOp>(column, leftOut);
  }

  ToColumn interiorColumn() {
    return [this](TileBuilder &b, Value at) -> Value {
      if (!position) return at;
      Value isBehind = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, at, skipped);
      return b.create<arith::AddIOp>(at, b.create<arith::SelectOp>(isBehind, b.index(stride), b.index(0)));
    };
  }

  /// Whole blocks of the rest that need no masks: those cut from the block that was left out, then those
  /// between the interior and `near`, but for the one with the position. One loop does both. Where an earlier
  /// sweep kept exponentials of other blocks than this one has, none is gone over here.
  void emitSmall(int64_t rest) {
    LoopBlock shape{rest, true};
    shape.hasExponentials = usesExponentials && kept.exponentials.hasCut, shape.isCut = true;
    Value isThere = shape.hasExponentials ? isSameInterior : Value();
    Value behind = b.create<arith::SubIOp>(near, end);
    if (isThere) behind = b.create<arith::SelectOp>(isThere, behind, b.index(0));
    tail = add(end, behind);
    if (!position)
      return emitLoop(b.index(0), behind, rest, shape,
                      [this](TileBuilder &b, Value at) -> Value { return b.create<arith::AddIOp>(end, at); });

    Value isCut = isThere ? b.create<arith::AndIOp>(isSkipped, isThere) : isSkipped;
    Value cut = b.create<arith::SelectOp>(isCut, b.index(block), b.index(0)), all = add(cut, behind);
    Value hole = maskSmall(rest, isCut, cut, behind);
    Value last = b.create<arith::SubIOp>(
        all, b.create<arith::SelectOp>(b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, hole, all),
                                       b.index(rest), b.index(0)));
    emitLoop(b.index(0), last, rest, shape, [this, hole, cut, rest](TileBuilder &b, Value at) -> Value {
      Value isPast = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, at, hole);
      Value place = b.create<arith::AddIOp>(at, b.create<arith::SelectOp>(isPast, b.index(rest), b.index(0)));
      Value isOfCut = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, place, cut);
      Value begin = b.create<arith::SelectOp>(isOfCut, skipped, b.create<arith::SubIOp>(end, cut));
      return b.create<arith::AddIOp>(begin, place);
    });
  }

  /// Leaves the block with the position, if it is one of emitSmall's, to the rest. Its place among them; if
  /// it is none, the end of all.
  Value maskSmall(int64_t rest, Value isCut, Value cut, Value behind) {
    Value at = b.create<tile::ExtractOp>(position);
    Value small = b.create<arith::SubIOp>(at, b.create<arith::RemUIOp>(at, b.index(rest)));
    Value isBehind =
        b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, b.create<arith::SubIOp>(at, end), behind);
    Value isMasked = b.create<arith::OrIOp>(isCut, isBehind);
    masked = b.create<arith::SelectOp>(isMasked, small, masked);
    maskedColumns = b.create<arith::SelectOp>(isMasked, b.index(rest), maskedColumns);
    Value begin = b.create<arith::SelectOp>(isCut, skipped, b.create<arith::SubIOp>(end, cut));
    return b.create<arith::SelectOp>(isMasked, b.create<arith::SubIOp>(small, begin), add(cut, behind));
  }

  /// The block that was left out, or what emitSmall has left, in smaller ones, and what is behind the
  /// interior, of which each partner takes every so many-th block; the last one begins, as those before may
  /// have one block of the interior more. One loop does both: it begins as many steps ahead of the latter as
  /// the former has blocks.
  void emitRest(int64_t rest) {
    Value begin = tail ? tail : end;
    if (partners > 1) {
      Value last = b.index((partners - 1) * rest);
      begin = add(begin, b.create<arith::SubIOp>(last, firstColumn(rest)));
    }
    if (!position) return emitLoop(begin, width, rest * partners, {rest, false}, asItIs);
    emitLoop(b.create<arith::SubIOp>(begin, maskedColumns), width, rest * partners, {rest, false},
             [this, begin](TileBuilder &b, Value at) -> Value {
               Value isBehind = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, at, begin);
               Value distance = b.create<arith::SubIOp>(begin, at);
               Value left = partners == 1 ? distance : b.create<arith::DivSIOp>(distance, b.index(partners));
               Value blockEnd = partners == 1 ? Value(b.create<arith::AddIOp>(masked, maskedColumns))
                                              : b.create<arith::AddIOp>(skipped, b.index(block));
               Value inSkipped = b.create<arith::SubIOp>(blockEnd, left);
               return b.create<arith::SelectOp>(isBehind, at, inSkipped);
             });
  }

  static Value asItIs(TileBuilder &, Value column) { return column; }

  /// Whether this sweep, the first that could, keeps something.
  bool keepHere() {
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

  /// Whether small blocks that need no masks have a loop of their own.
  bool cuts(SweepBlocks blocks) const { return blocks.cutsLeftOut && block > blocks.rest; }

  /// Where the part of the interior ends whose exponentials this sweep keeps, or finds; null: neither.
  Value exponentialsEnd(SweepBlocks blocks) {
    KeptExponentials &known = kept.exponentials;
    if (llvm::is_contained(ops, known.sum)) {
      if (!position && llvm::all_of(known.of, [](auto &use) { return use.second; })) return {};
      known.begin(b, {end, near, position}, block, near ? blocks.rest : 0);
      usesExponentials = true;
      return known.kept;
    }
    if (!known.kept || !sameValue(known.interior.position, position) || !known.serve(ops, position))
      return {};
    usesExponentials = true;
    isSameInterior = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, end, known.interior.end);
    if (near) {
      Value isNear = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, near, known.interior.near);
      isSameInterior = b.create<arith::AndIOp>(isSameInterior, isNear);
    }
    return b.create<arith::SelectOp>(isSameInterior, known.kept, b.index(0));
  }

  /// Where a block of this partner's that begins at `column` has its place on chip.
  Value placeOf(TileBuilder &b, Value column) {
    if (partners == 1) return column;
    return b.create<arith::DivUIOp>(b.create<arith::SubIOp>(column, first), b.index(partners));
  }

  /// What is kept, the interior, for this partner: copied ahead of everything else.
  void emitCopies() {
    auto makeBody = [&](OpBuilder &builder, Location loc, Value column, ValueRange) {
      TileBuilder inner(loc, builder);
      SweepBody body(inner, width, block, column, /*isInterior=*/true, false);
      body.setKept({false, placeOf(inner, column), &kept.places});
      for (Operation *op : ops)
        if (kept.places.contains(op)) body.clone(op, {});
      inner.create<scf::YieldOp>();
    };
    auto loop = b.create<scf::ForOp>(first, end, b.index(stride), ValueRange(), makeBody);
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

  /// for i in [begin, end): the block that begins at `toColumn(i)`
  void emitLoop(Value begin, Value end, int64_t step, LoopBlock shape, ToColumn toColumn) {
    auto makeBody = [&](OpBuilder &builder, Location loc, Value at, ValueRange values) {
      TileBuilder inner(loc, builder);
      Value column = toColumn(inner, at);
      SweepBody body(inner, width, shape.columns, column, shape.isInterior, shape.isInterior && position);
      if (shape.kept) body.setKept({true, placeOf(inner, column), shape.kept});
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
    auto loop = b.create<scf::ForOp>(begin, end, b.index(step), carried, makeBody);
    loop->setAttr(tile::kSweepAttr, b.getUnitAttr());
    carried.assign(loop.getResults().begin(), loop.getResults().end());
  }

  TileBuilder &b;
  ArrayRef<Operation *> ops;
  Value width;
  int64_t partners;
  KeptRows &kept;
  int64_t block = 0,
          stride = 0;       ///< columns of the interior's blocks, and from one of a partner's to the next
  Value near, tail;         ///< where the blocks of the rest end that need no masks; where the others begin
  Value end, first;         ///< of the interior, and in it of this partner's blocks
  Value position;           ///< that the interior leaves out, with the block that begins at `skipped`
  Value isSkipped, skipped; ///< else that is `end`
  Value masked, maskedColumns;   ///< what the rest goes over ahead of the tail
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
