#include <limits>

#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel sliceLabels() {
  return defineKernel("lce_slice_labels", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1);
    const Index first = k.index("first"), count = k.index("count");
    const View sliceLabel = k.output("slice_label", ElementType::i32, 1);

    const Range rows = k.blockRows(label.dim(0), 128);
    const Tile place = label[rows] - k.toTile(first, ElementType::i32);
    const Tile isHere = (place >= 0) & (place < k.toTile(count, ElementType::i32));
    const Tile valid = select(isHere, place, std::numeric_limits<int32_t>::max());
    k.store(sliceLabel, rows, select(label[rows] >= 0, valid, -1));
  });
}

} // namespace tilewright::lce
