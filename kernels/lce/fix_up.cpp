#include <functional>

#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

std::string str(const FixUpSpec &spec) {
  return std::string(elementName(spec.element)) + ",e=" + elementName(spec.exponentials) +
         spec.terms.logitStr() + spec.terms.rowStr() + (spec.flushesSmall ? ",flush" : "") +
         (spec.uniform ? ",uniform" : "") + "," + spec.block.str();
}

// Hardly a row is rescaled, so a program has few rows, lest one makes it read many others; and of those
// rows several blocks of columns, lest most of the time is that of programs that have nothing to do.
constexpr int64_t kRescaledRows = 8, kRescaledBlocks = 64;

/// What is done with a block of E, unless none of its rows is valid: valid rows come first.
void ifValid(KernelBuilder &k, const View &label, const Range &rows, const std::function<void()> &body) {
  k.ifThen(k.toCondition(label[k.range(Axis::rows, rows.begin, 1)] >= 0), body);
}

} // namespace

Kernel fixUpInPlace(const FixUpSpec &spec) {
  return defineKernel("lce_fix_up_in_place", str(spec), [spec](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1), shift = k.input("shift", ElementType::f32, 1);
    const View factor = k.input("factor", ElementType::f32, 1),
               moment = k.input("moment", ElementType::f32, 1);
    const View rowNorm = spec.terms.margin ? k.input("row_norm", ElementType::f32, 1) : View();
    const LogitTerms terms(spec.terms);
    terms.declare(k);
    const View e = k.output("e", spec.exponentials, 2);

    const auto [rows, classes] = k.block(e.dim(0), e.dim(1), spec.block.rows, spec.block.columns);
    LogitPlace place{rows, classes, label[rows], {}};
    if (spec.terms.margin) place.rowNorm = rowNorm[rows];

    ifValid(k, label, rows, [&, rows = rows, classes = classes] {
      const Tile stored = e.at(rows, classes), above = log(1 / kUnitOfE * stored);
      const Tile gradient = stored * (factor[rows] + moment[rows] * above);
      const Tile rate = terms.classRate(above + shift[rows], place);
      k.store(e, rows, classes, select(stored > 0, times(gradient, rate), 0));
    });
  });
}

Kernel rescale(const RescaleSpec &spec) {
  const std::string specialisation = std::string("e=") + elementName(spec.exponentials) +
                                     (spec.flushesSmall ? ",flush," : ",") + std::to_string(spec.columns);
  return defineKernel("lce_rescale", specialisation, [spec](KernelBuilder &k) {
    const View tops = k.input("tops", ElementType::f32, 2), label = k.input("label", ElementType::i32, 1);
    const View unit = k.input("unit_e", ElementType::f32, 1);
    const View shift = k.input("shift", ElementType::f32, 1), factor = k.input("factor", ElementType::f32, 1);
    const View e = k.output("e", spec.exponentials, 2);

    const int64_t step = spec.columns;
    const auto [rows, all] = k.block(e.dim(0), e.dim(1), kRescaledRows, kRescaledBlocks * step);
    const Tile isAsked = (label[rows] >= 0) & (unit[rows] == 0.0);
    const auto rescaleBlock = [&, rows = rows](const Index &begin) {
      const Range classes = k.range(Axis::columns, begin, step);
      const Tile top = tops.at(rows, k.range(Axis::columns, begin / step, 1)), stored = e.at(rows, classes);
      const Tile others = kUnitOfE / kUnitOfRaised * exp(top - shift[rows]) * stored;
      Tile gradient = others * factor[rows];
      if (spec.flushesSmall) gradient = select(others < kFlushBelow * kUnitOfE, 0, gradient);
      k.store(e, rows, classes, select(isAsked, gradient, stored));
    };
    k.ifThen(anyHolds(k, isAsked), [&, all = all] {
      k.forRange(all.begin, min(all.begin + all.extent, e.dim(1)), step, {},
                 [&](const Index &begin, const std::vector<Tile> &) {
                   rescaleBlock(begin);
                   return std::vector<Tile>();
                 });
    });
  });
}

Kernel keep(const KeepSpec &spec) {
  const std::string specialisation = std::string("e=") + elementName(spec.exponentials) +
                                     (spec.scales ? ",scaled," : ",") + spec.block.str();
  return defineKernel("lce_keep", specialisation, [spec](KernelBuilder &k) {
    const View e = k.input("e", spec.exponentials, 2), label = k.input("label", ElementType::i32, 1);
    const View scale = spec.scales ? k.input("scale", ElementType::f32, 1) : View();
    const View kept = k.output("kept", spec.exponentials, 2);

    const auto [rows, classes] = k.block(e.dim(0), e.dim(1), spec.block.rows, spec.block.columns);
    ifValid(k, label, rows, [&, rows = rows, classes = classes] {
      const Tile stored = e.at(rows, classes);
      k.store(kept, rows, classes, scale.valid() ? scale[rows] * stored : stored);
    });
  });
}

Kernel fixUpAgain(const FixUpSpec &spec) {
  return defineKernel("lce_fix_up_again", str(spec), [spec](KernelBuilder &k) {
    const auto rowInput = [&](const char *name) { return k.input(name, ElementType::f32, 1); };
    const View x = k.input("xc", spec.element, 2), w = k.input("w", spec.element, 2);
    const View label = k.input("label", ElementType::i32, 1);
    const Index first = k.index("first");
    const View shift = rowInput("shift"), factor = rowInput("factor");
    const View moment = spec.terms.gradEntropy ? rowInput("moment") : View();
    const View uniform = spec.uniform ? rowInput("uniform") : View();
    const View classWeight = spec.uniform && spec.terms.classWeight ? rowInput("class_weight") : View();
    const View rowNorm = spec.terms.margin ? rowInput("row_norm") : View();
    const LogitTerms terms(spec.terms);
    terms.declare(k);
    const View e = k.output("e", spec.exponentials, 2);

    const auto [rows, classes] = k.block(x.dim(0), w.dim(0), spec.block.rows, spec.block.columns);
    k.ifThen(anyIsThere(k, label[rows]), [&, rows = rows, classes = classes] {
      const Tile target = label[rows] - k.toTile(first, ElementType::i32);
      LogitPlace place{rows, classes, target, {}};
      if (spec.terms.margin) place.rowNorm = rowNorm[rows];
      const Tile z = terms.logit(dot(x.rows(rows), w.rows(classes).transpose()), place);
      Tile ofP = factor[rows];
      if (moment.valid()) ofP = ofP + moment[rows] * (z - shift[rows]);
      const Tile others = kUnitOfE * expAbove(z, shift[rows]);
      Tile gradient = (spec.flushesSmall ? select(others < kFlushBelow * kUnitOfE, 0, others) : others) * ofP;
      if (spec.uniform)
        gradient = gradient - (classWeight.valid() ? uniform[rows] * classWeight[classes] : uniform[rows]);
      gradient = times(gradient, terms.classRate(z, place));
      k.store(e, rows, classes, select(classes.positions() != target, gradient, 0));
    });
  });
}

} // namespace tilewright::lce
