#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel scaleRows(ElementType element) {
  return defineKernel("lce_scale_rows", elementName(element), [element](KernelBuilder &k) {
    const View scale = k.input("scale", ElementType::f32, 1),
               largest = k.input("largest", ElementType::f32, 1);
    const View x = k.input("xc", element, 2);
    const View scaled = k.output("xs", element, 2), gain = k.output("gain", ElementType::f32, 1);

    const Range rows = k.blockRows(x.dim(0), kRowsPerProgram), hidden = k.whole(x.dim(1));
    const Range all = k.whole(scale.dim(0));
    const Tile unit = 0x1p-14 * max(abs(scale[all]) * largest[all], Axis::columns);
    k.store(scaled, rows, hidden, select(unit > 0, scale[rows] / unit, 0) * x.at(rows, hidden));
    k.ifThen(k.toCondition(k.toTile(rows.begin, ElementType::i32) == 0),
             [&] { k.store(gain, k.range(Axis::rows, k.constant(0), 1), unit); });
  });
}

} // namespace tilewright::lce
