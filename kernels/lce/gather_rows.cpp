#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel gatherRows(ElementType element) {
  return defineKernel("lce_gather_rows", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 2), w = k.input("w", element, 2);
    const View row = k.input("row", ElementType::i32, 1), label = k.input("label", ElementType::i32, 1);
    const View chunk = k.output("xc", element, 2);
    const View target = k.output("target", ElementType::f32, 1),
               anchor = k.output("anchor", ElementType::f32, 1);
    const View redo = k.output("redo", ElementType::i32, 1);

    const Range rows = k.blockRows(row.dim(0), kRowsPerProgram), hidden = k.whole(x.dim(1));
    const Tile from = rowNumbers(k, row, rows);

    const Tile xi = x.gather(from, hidden);
    const Tile logit = sum(xi * w.gather(label[rows], hidden), Axis::columns);

    k.store(chunk, rows, hidden, xi);
    k.store(target, rows, logit);
    k.store(anchor, rows, logit);
    k.store(redo, rows, select(from >= 0, integer(k, 1), 0));
  });
}

} // namespace tilewright::lce
