#include "kernels/examples/examples.h"

namespace tilewright {

Kernel layerNorm(ElementType element) {
  return defineKernel("layer_norm", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 2), gain = k.input("gain", element, 1),
               bias = k.input("bias", element, 1);
    const Tile epsilon = k.scalar("epsilon");
    const View y = k.output("y", element, 2), mean = k.output("mean", ElementType::f32, 1),
               scale = k.output("scale", ElementType::f32, 1);

    const Range rows = k.blockRows(x.dim(0), 1), columns = k.whole(x.dim(1));
    const Tile size = cast(k.toTile(x.dim(1), ElementType::i32), ElementType::f32);

    const Tile row = x.at(rows, columns), average = sum(row, Axis::columns) / size;
    const Tile centred = row - average;
    const Tile variance = sum(centred * centred, Axis::columns) / size;
    const Tile inverse = rsqrt(variance + epsilon);

    k.store(y, rows, columns, centred * inverse * gain[columns] + bias[columns]);
    k.store(mean, rows, average);
    k.store(scale, rows, inverse);
  });
}

} // namespace tilewright
