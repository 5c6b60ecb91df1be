#include "kernels/examples/examples.h"

namespace tilewright {

Kernel rowSoftmax(ElementType element) {
  return defineKernel("row_softmax", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 2);
    const View y = k.output("y", element, 2);

    const Range rows = k.blockRows(x.dim(0), 1);
    const Range columns = k.whole(x.dim(1)); // rows of any length; the compiler streams them

    k.store(y, rows, columns, exp(logSoftmax(x.at(rows, columns))));
  });
}

} // namespace tilewright
