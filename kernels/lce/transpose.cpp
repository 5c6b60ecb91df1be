#include "kernels/lce/gradient_kernels.h"

namespace tilewright::lce {

Kernel transposeMatrix(ElementType element) {
  return defineKernel("lce_transpose", elementName(element), [element](KernelBuilder &k) {
    constexpr Block kBlock{64, 64};
    const View m = k.input("m", element, 2), t = k.output("t", element, 2);

    const auto [rows, columns] = k.block(m.dim(0), m.dim(1), kBlock.rows, kBlock.columns);
    const Range down = k.range(Axis::rows, columns.begin, columns.extent),
                across = k.range(Axis::columns, rows.begin, rows.extent);

    k.store(t, down, across, transpose(m.at(rows, columns)));
  });
}

} // namespace tilewright::lce
