#include "kernels/examples/examples.h"

namespace tilewright {

Kernel vectorAdd(ElementType element) {
  return defineKernel("vector_add", elementName(element), [element](KernelBuilder &k) {
    const View a = k.input("a", element, 1), b = k.input("b", element, 1);
    const View c = k.output("c", element, 1);

    const Range block = k.blockColumns(c.dim(0), 1024);

    k.store(c, block, a[block] + b[block]);
  });
}

} // namespace tilewright
