#include "compiler/dsl/random.h"
#include "kernels/examples/examples.h"

namespace tilewright {

Kernel dropout(ElementType element) {
  return defineKernel("dropout", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 1);
    const Tile p = k.scalar("p");
    const Index seed = k.index("seed");
    const View y = k.output("y", element, 1);

    const Tile scale = 1.0 / (1.0 - p);
    constexpr int64_t width = 1024;
    const Range block = k.blockColumns(x.dim(0), 4 * width);
    const FourWords bits = randomBits(seed, k.range(Axis::columns, block.begin, width).positions());
    for (int quarter = 0; quarter < 4; ++quarter) { // one draw makes a word for each
      const Range part = k.range(Axis::columns, block.begin + quarter * width, width);
      k.store(y, part, select(uniform(bits[quarter]) >= p, x[part] * scale, 0));
    }
  });
}

} // namespace tilewright
