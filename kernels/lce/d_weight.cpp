#include "kernels/lce/accumulation.h"
#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

std::string Accumulation::str() const {
  constexpr const char *modes[] = {"store", "add", "finish"};
  return std::string(modes[static_cast<int>(mode)]) + (ontoOutput ? " onto" : "");
}

Kernel dWeight(const DWeightSpec &spec) {
  using Mode = Accumulation::Mode;
  const std::string specialisation =
      std::string("e=") + elementName(spec.exponentials) + ",dw=" + elementName(spec.output) + "," +
      spec.accumulation.str() + (spec.uniform ? ",uniform" : "") + (spec.classFactor ? ",class factor" : "") +
      (spec.gain ? ",gain" : "") + (spec.transposed ? ",transposed" : "") +
      (spec.place == OneHotPlace::label ? ",u of classes" : "") + (spec.skipsAbsent ? ",skips absent" : "") +
      "," + spec.block.str();
  return defineKernel("lce_dw", specialisation, [spec](KernelBuilder &k) {
    const Mode mode = spec.accumulation.mode;
    const View e = k.input("e", spec.exponentials, 2), xs = k.input("xs", spec.exponentials, 2);
    const View u = k.input("u", ElementType::f32, 2), slot = k.input("slot", ElementType::i32, 1);
    const View validCount = k.input("valid_count", ElementType::i32, 1);
    const Index begin = k.index("first");
    const View gain = spec.gain ? k.input("gain", ElementType::f32, 1) : View();
    const View rowSum = spec.uniform ? k.input("row_sum", ElementType::f32, 2) : View();
    const View classFactor = spec.classFactor ? k.input("class_factor", ElementType::f32, 1) : View();
    const View partial = mode == Mode::finish ? k.input("partial", ElementType::f32, 2) : View();
    const View dw = k.output("dw", spec.output, 2);

    const int ofRows = spec.transposed ? 1 : 0, across = 1 - ofRows; // axes of e and xs
    const auto [classes, hidden] =
        k.block(e.dim(across), xs.dim(across), spec.block.rows, spec.block.columns);
    const Index rows = chunkRows(k, validCount, begin, e.dim(ofRows));
    const auto part = [&, classes = classes, hidden = hidden] {
      const View left = e.narrowed(ofRows, rows), right = xs.narrowed(ofRows, rows);
      const Tile product = spec.transposed ? dot(left.rows(classes), right.rows(hidden).transpose())
                                           : dot(left.columns(classes).transpose(), right.columns(hidden));
      const bool isOwn = spec.place == OneHotPlace::label;
      const Tile place = isOwn ? select(slot[classes] >= 0, classes.positions(), -1) : slot[classes];
      // The product's registers take what is added. Had they been multiplied before, the products of both
      // would live beside it, and rows of u would be read one number after the other.
      const Tile sum = product + u.gather(place, hidden, spec.skipsAbsent);
      const Tile gradient = gain.valid() ? first(k, gain) * sum : sum;
      if (!spec.uniform) return gradient;
      const Tile common = onlyRow(k, rowSum, hidden);
      return gradient - (spec.classFactor ? classFactor[classes] * common : common);
    };
    if (mode == Mode::add) {
      k.ifThen(rows != 0, [&, classes = classes, hidden = hidden] { k.add(dw, classes, hidden, part()); });
      return;
    }
    Tile total = part();
    if (mode == Mode::finish) total = total + partial.at(classes, hidden);
    if (spec.accumulation.ontoOutput) total = total + dw.at(classes, hidden);
    k.store(dw, classes, hidden, total);
  });
}

} // namespace tilewright::lce
