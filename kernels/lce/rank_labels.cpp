#include <limits>

#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel rankLabels() {
  return defineKernel("lce_rank_labels", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1);
    const View order = k.output("order", ElementType::i32, 1), run = k.output("run", ElementType::i32, 1);
    const View slot = k.output("slot", ElementType::i32, 1);

    const Range rows = k.blockRows(label.dim(0), kRowsPerProgram), all = k.whole(label.dim(0));
    // Rows without a label come last.
    const auto key = [](const Tile &y) { return select(y >= 0, y, std::numeric_limits<int32_t>::max()); };
    const Tile mine = key(label[rows]), every = key(label[all]);

    // A row's rank is the number of rows before it in (label, row) order; ranks differ, so sorting is a
    // scatter.
    const Tile same = every == mine, earlier = all.positions() < rows.positions();
    const Tile rank = count(k, (every < mine) | (same & earlier));
    const Tile isHead = (label[rows] >= 0) & (count(k, same & earlier) == 0);

    const Tile to = select(inside(k, rows, label.dim(0)), rank, -1);
    k.scatter(order, to, rows.positions());
    k.scatter(run, to, select(isHead, count(k, same), 0));
    k.scatter(slot, select(isHead & (to >= 0), mine, -1), rank);
  });
}

} // namespace tilewright::lce
