#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel sketchRows(ElementType element) {
  return defineKernel("lce_sketch_rows", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 2);
    const View sums = k.output("sums", ElementType::f32, 1),
               squares = k.output("squares", ElementType::f32, 1);

    const Range rows = k.blockRows(x.dim(0), kRowsPerProgram), columns = k.whole(x.dim(1));
    const Tile values = x.at(rows, columns);
    // Any signs without a pattern do: here the highest bit of a multiplicative hash.
    const Tile minus = columns.positions() * -1640531535.0 < 0.0;

    k.store(sums, rows, sum(select(minus, -values, values), Axis::columns));
    k.store(squares, rows, sum(values * values, Axis::columns));
  });
}

} // namespace tilewright::lce
