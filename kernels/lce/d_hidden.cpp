#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel dHidden(const DHiddenSpec &spec) {
  const std::string types = std::string(elementName(spec.element)) + ",e=" + elementName(spec.exponentials) +
                            ",dx=" + elementName(spec.output) + ",";
  return defineKernel("lce_dx", types + spec.block.str(), [spec](KernelBuilder &k) {
    const View e = k.input("e", spec.exponentials, 2), w = k.input("w", spec.element, 2);
    const View label = k.input("label", ElementType::i32, 1), scale = k.input("scale", ElementType::f32, 1);
    const View oneHot = k.input("one_hot", ElementType::f32, 1), row = k.input("row", ElementType::i32, 1);
    const View dx = k.output("dx", spec.output, 2);

    const auto [rows, hidden] = k.block(e.dim(0), w.dim(1), spec.block.rows, spec.block.columns);
    const Tile to = rowNumbers(k, row, rows);

    k.ifThen(k.toCondition(max(to, Axis::rows) >= 0), [&, rows = rows, hidden = hidden] {
      const Tile product = dot(e.rows(rows), w.columns(hidden));
      k.scatter(dx, to, hidden, scale[rows] * product + oneHot[rows] * w.gather(label[rows], hidden));
    });
  });
}

} // namespace tilewright::lce
