#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

/// Of W, or of its transpose as rows.
Strip columnsOfWeight(bool transposed, const View &wt, const View &w, const Range &hidden) {
  return transposed ? wt.rows(hidden).transpose() : w.columns(hidden);
}

/// Part after part, in this order.
Tile sumOfParts(KernelBuilder &k, const View &products, int64_t parts, const Range &rows,
                const Range &hidden) {
  const Index distance = products.dim(0) / parts;
  Tile sum = products.at(rows, hidden);
  for (int64_t part = 1; part < parts; ++part)
    sum = sum + products.at(k.range(Axis::rows, rows.begin + distance * part, rows.extent), hidden);
  return sum;
}

} // namespace

Kernel dHidden(const DHiddenSpec &spec) {
  const std::string types = std::string(elementName(spec.element)) + ",e=" + elementName(spec.exponentials) +
                            ",dx=" + elementName(spec.output) + (spec.uniform ? ",uniform" : "") +
                            (spec.self ? ",self" : "") +
                            (spec.parts ? ",of " + std::to_string(spec.parts) + " parts" : "") +
                            (spec.transposed ? ",wt" : "") + ",";
  const char *name = spec.parts ? "lce_dx_total" : "lce_dx";
  return defineKernel(name, types + spec.block.str(), [spec](KernelBuilder &k) {
    const View e = spec.parts ? View() : k.input("e", spec.exponentials, 2);
    const View products = spec.parts ? k.input("products", ElementType::f32, 2) : View();
    const View w = k.input("w", spec.element, 2);
    const View wt = spec.transposed ? k.input("wt", spec.element, 2) : View();
    const View label = k.input("label", ElementType::i32, 1), scale = k.input("scale", ElementType::f32, 1);
    const View oneHot = k.input("one_hot", ElementType::f32, 1), row = k.input("row", ElementType::i32, 1);
    View uniform, classSum, self, x;
    if (spec.uniform)
      uniform = k.input("uniform", ElementType::f32, 1), classSum = k.input("class_sum", ElementType::f32, 2);
    if (spec.self) self = k.input("self", ElementType::f32, 1), x = k.input("xc", spec.element, 2);
    const View dx = k.output("dx", spec.output, 2);

    const Index count = spec.parts ? row.dim(0) : e.dim(0);
    const auto [rows, hidden] = k.block(count, w.dim(1), spec.block.rows, spec.block.columns);
    const Tile to = rowNumbers(k, row, rows);

    k.ifThen(anyIsThere(k, to), [&, rows = rows, hidden = hidden] {
      const Tile product = spec.parts ? sumOfParts(k, products, spec.parts, rows, hidden)
                                      : dot(e.rows(rows), columnsOfWeight(spec.transposed, wt, w, hidden));
      Tile gradient = scale[rows] * product + oneHot[rows] * w.gather(label[rows], hidden);
      if (spec.uniform) gradient = gradient - uniform[rows] * onlyRow(k, classSum, hidden);
      if (spec.self) gradient = gradient + self[rows] * x.at(rows, hidden);
      k.scatter(dx, to, hidden, gradient);
    });
  });
}

Kernel dHiddenParts(const DHiddenPartsSpec &spec) {
  const std::string specialisation =
      std::string(elementName(spec.element)) + ",e=" + elementName(spec.exponentials) + "," +
      std::to_string(spec.parts) + " parts," + (spec.transposed ? "wt," : "") + spec.block.str();
  return defineKernel("lce_dx_parts", specialisation, [spec](KernelBuilder &k) {
    const View e = k.input("e", spec.exponentials, 2);
    const View w = k.input(spec.transposed ? "wt" : "w", spec.element, 2);
    const View row = k.input("row", ElementType::i32, 1);
    const View products = k.output("products", ElementType::f32, 2);

    const Index hiddenSize = w.dim(spec.transposed ? 0 : 1);
    const auto [place, hidden] = k.block(products.dim(0), hiddenSize, spec.block.rows, spec.block.columns);
    const Index distance = products.dim(0) / spec.parts, part = place.begin / distance;
    const Range rows = k.range(Axis::rows, place.begin - part * distance, spec.block.rows);

    k.ifThen(anyIsThere(k, rowNumbers(k, row, rows)), [&, place = place, hidden = hidden] {
      k.store(products, place, hidden,
              dot(e.rows(rows), columnsOfWeight(spec.transposed, w, w, hidden), {part, spec.parts}));
    });
  });
}

} // namespace tilewright::lce
