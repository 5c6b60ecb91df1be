#include <limits>

#include "kernels/lce/finish_row.h"
#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

/// Of a logit from its shift, whose square is finite; of exp of it next to nothing is left.
constexpr double kLeastDistance = -1e18;
/// The sums of all blocks of a row, each of at most this, leave its factors far within fp32's range.
constexpr double kLargestSumOfBlock = 0x1p50;

std::string str(const ForwardSpec &spec) {
  std::string text = elementName(spec.element);
  if (spec.exponentials) text += std::string(",e=") + elementName(*spec.exponentials);
  text += spec.terms.logitStr();
  for (int s = 0; s < kRowSums; ++s)
    if (spec.sums[s] && static_cast<RowSum>(s) != RowSum::stored)
      text += std::string(",") + rowSumName(static_cast<RowSum>(s));
  if (spec.sums[static_cast<int>(RowSum::weighedLogits)] && spec.terms.classWeight) text += ",weights";
  constexpr const char *shifts[] = {"", ",no tops", ",shifts of blocks", ",raised shifts", ",mended shifts"};
  text += shifts[static_cast<int>(spec.shifts)];
  return text + (spec.tellsRange ? ",range" : "") + (spec.best ? ",best" : "") +
         (spec.flushesSmall ? ",flush" : "") + "," + spec.block.str();
}

/// If one of the block's sums is out of range, makes all of them again, by the block's own largest logits
/// (see `Shifts::mended`).
void mendSums(KernelBuilder &k, const View &sums, const View &tops, const Range &rows, const Range &tile,
              const Tile &isBeyond, const Tile &logits) {
  k.ifThen(k.toCondition(max(isBeyond, Axis::rows) > 0), [&] {
    const Tile own = asShift(k, max(logits, Axis::columns));
    k.store(tops, rows, tile, own);
    k.store(sums, rows, tile, kUnitOfMended * kUnitOfE * sum(expAbove(logits, own), Axis::columns));
  });
}

/// Runs `body` if rows of the block are among [first, end), the two numbers in `rowRange`. No tile's rows are
/// asked, lest each waits for them; that there may be none at all is asked apart, once for all blocks.
template <typename Body>
void ifAnyRow(KernelBuilder &k, const View &rowRange, const Range &rows, const Body &body) {
  const Tile first = rowRange[k.range(Axis::rows, k.constant(0), 1)];
  const Tile end = rowRange[k.range(Axis::rows, k.constant(1), 1)];
  const Condition meets = k.toCondition(isComputed(k, rowRange, rows));
  k.ifThen(k.toCondition(first < end), [&] { k.ifThen(meets, body); });
}

} // namespace

Tile asShift(KernelBuilder &k, const Tile &logit) { return max(logit, kLeastShift * number(k, 1)); }

Kernel forward(const ForwardSpec &spec) {
  return defineKernel("lce_forward", str(spec), [spec](KernelBuilder &k) {
    const auto wants = [&](RowSum sum) { return spec.sums[static_cast<int>(sum)]; };
    const View x = k.input("xc", spec.element, 2), w = k.input("w", spec.element, 2);
    const View label = k.input("label", ElementType::i32, 1);
    const bool ofBlocks = spec.shifts == Shifts::ofBlocks, isRaised = spec.shifts == Shifts::raised;
    const bool mends = spec.shifts == Shifts::mended;
    const View shift = ofBlocks ? View() : k.input("shift", ElementType::f32, 1);
    const View rowRange = k.input("row_range", ElementType::i32, 1);
    const View rowNorm = spec.terms.margin ? k.input("row_norm", ElementType::f32, 1) : View();
    const LogitTerms terms(spec.terms);
    terms.declare(k);
    const bool weighs = wants(RowSum::weighedLogits) && spec.terms.classWeight;
    const View classWeight = weighs ? k.input("class_weight", ElementType::f32, 1) : View();
    const View retried = spec.tellsRange ? k.output("retry_range", ElementType::i32, 1) : View();
    const View sums = k.output("sums", ElementType::f32, 2);
    const bool tellsTops = spec.shifts != Shifts::ofRowsAlone;
    const View tops = tellsTops ? k.output("tops", ElementType::f32, 2) : View();
    const View best = spec.best ? k.output("best", ElementType::i32, 2) : View();
    PerRowSum<View> rowSums;
    for (int s = 0; s < kRowSums; ++s)
      if (spec.sums[s]) rowSums[s] = k.output(rowSumName(static_cast<RowSum>(s)), ElementType::f32, 2);
    const View e = spec.exponentials ? k.output("e", *spec.exponentials, 2) : View();

    const auto [rows, classes] = k.block(x.dim(0), w.dim(0), spec.block.rows, spec.block.columns);
    const Range tile = k.range(Axis::columns, k.programId(1), 1);

    ifAnyRow(k, rowRange, rows, [&, rows = rows, classes = classes] {
      LogitPlace place{rows, classes, label[rows], {}};
      if (spec.terms.margin) place.rowNorm = rowNorm[rows];
      const Tile z = terms.logit(dot(x.rows(rows), w.rows(classes).transpose()), place);

      constexpr double kNone = -std::numeric_limits<double>::infinity();
      const Tile isClass = inside(k, classes, w.dim(0)), isOther = classes.positions() != label[rows];
      const Tile ofOthers = select(isClass & isOther, z, kNone);
      const Tile ofClasses = spec.best ? select(isClass, z, kNone) : ofOthers;
      const Tile top = tellsTops && !mends ? max(ofClasses, Axis::columns) : Tile();
      Tile from = ofBlocks ? asShift(k, top) : shift[rows];
      if (isRaised) from = select(top > from + kMostAboveShift, top, from);
      const double unit = isRaised ? kUnitOfRaised : kUnitOfE;
      const Tile others = unit * expAbove(ofOthers, from);

      const auto sumOf = [&](RowSum s, const Tile &x) {
        k.store(rowSums[static_cast<int>(s)], rows, tile, sum(x, Axis::columns));
      };
      const Tile total = sum(others, Axis::columns);
      k.store(sums, rows, tile, total);
      const auto isBeyond = [&] { return select(total > kLargestSumOfBlock * unit, integer(k, 1), -1); };
      // Whoever says so stores the same number, the range's end.
      if (spec.tellsRange) k.scatter(retried, isBeyond(), integer(k, std::numeric_limits<int32_t>::max()));
      if (mends) return mendSums(k, sums, tops, rows, tile, isBeyond(), ofOthers);
      if (tellsTops) k.store(tops, rows, tile, ofBlocks || isRaised ? from : top);
      if (spec.best)
        k.store(best, rows, tile,
                min(select(ofClasses == top, classes.positions(), std::numeric_limits<int32_t>::max()),
                    Axis::columns));
      const Tile finite = max(ofOthers - from, kLeastDistance * number(k, 1)); // z may be -∞, where E is 0
      if (wants(RowSum::moments)) sumOf(RowSum::moments, others * finite);
      if (wants(RowSum::secondMoments)) sumOf(RowSum::secondMoments, others * finite * finite);
      if (wants(RowSum::weighedLogits))
        sumOf(RowSum::weighedLogits, select(isClass, weighs ? classWeight[classes] * z : z, 0));
      if (wants(RowSum::squares)) sumOf(RowSum::squares, select(isClass, z * z, 0));
      if (!spec.exponentials) return;

      const bool rated = wants(RowSum::exact);
      const Tile exact = rated ? others * terms.classRate(z, place) : others;
      const Tile kept = spec.flushesSmall ? select(others < kFlushBelow * unit, 0, exact) : exact;
      const Tile stored = rounded(kept, *spec.exponentials);
      k.store(e, rows, classes, stored);
      if (wants(RowSum::stored)) sumOf(RowSum::stored, stored);
      if (rated) sumOf(RowSum::exact, exact);
    });
  });
}

} // namespace tilewright::lce
