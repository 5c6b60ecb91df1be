#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel dHidden(const DHiddenSpec &spec) {
  using Slice = DHiddenSpec::Slice;
  constexpr const char *sliceNames[] = {"", ",first slice", ",next slice", ",last slice"};
  const std::string types = std::string(elementName(spec.element)) + ",e=" + elementName(spec.exponentials) +
                            ",dx=" + elementName(spec.output) + (spec.uniform ? ",uniform" : "") +
                            (spec.self ? ",self" : "") + sliceNames[static_cast<int>(spec.slice)] + ",";
  return defineKernel("lce_dx", types + spec.block.str(), [spec](KernelBuilder &k) {
    const View e = k.input("e", spec.exponentials, 2), w = k.input("w", spec.element, 2);
    const View label = k.input("label", ElementType::i32, 1), scale = k.input("scale", ElementType::f32, 1);
    const View oneHot = k.input("one_hot", ElementType::f32, 1), row = k.input("row", ElementType::i32, 1);
    View uniform, classSum, self, x;
    if (spec.uniform)
      uniform = k.input("uniform", ElementType::f32, 1), classSum = k.input("class_sum", ElementType::f32, 2);
    if (spec.self) self = k.input("self", ElementType::f32, 1), x = k.input("xc", spec.element, 2);
    const bool isLast = spec.slice == Slice::last;
    const View partial = isLast ? k.input("partial", ElementType::f32, 2) : View();
    const View dx = k.output("dx", spec.output, 2);

    const auto [rows, hidden] = k.block(e.dim(0), w.dim(1), spec.block.rows, spec.block.columns);
    const Tile to = rowNumbers(k, row, rows);

    k.ifThen(k.toCondition(max(to, Axis::rows) >= 0), [&, rows = rows, hidden = hidden] {
      const Tile product = dot(e.rows(rows), w.columns(hidden));
      Tile gradient = scale[rows] * product + oneHot[rows] * w.gather(label[rows], hidden);
      if (spec.uniform) gradient = gradient - uniform[rows] * onlyRow(k, classSum, hidden);
      if (spec.self) gradient = gradient + self[rows] * x.at(rows, hidden);
      if (isLast) gradient = gradient + partial.at(rows, hidden);
      if (spec.slice == Slice::first)
        k.store(dx, rows, hidden, gradient);
      else if (spec.slice == Slice::next)
        k.add(dx, rows, hidden, gradient);
      else
        k.scatter(dx, to, hidden, gradient);
    });
  });
}

} // namespace tilewright::lce
