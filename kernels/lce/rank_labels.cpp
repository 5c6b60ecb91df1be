#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

// Labels are compared as fast by two warps as by eight, and reductions over a CTA of two cost less.
CompileOptions rankLabelsOptions(TargetKind target) {
  CompileOptions options;
  if (target == TargetKind::cpu) return options;
  options.schedule.warps = 2;
  options.schedule.rowBlock = 256;
  options.schedule.rowUnroll = 1;
  return options;
}

LabelRanks::LabelRanks(KernelBuilder &k)
    : order(k.output("order", ElementType::i32, 1)), run(k.output("run", ElementType::i32, 1)),
      slot(k.output("slot", ElementType::i32, 1)) {}

void LabelRanks::store(KernelBuilder &k, const View &label, const Range &rows) const {
  const Range across = rows.along(Axis::columns);
  const View before = label.narrowed(0, rows.begin);
  const Tile mine = label[rows], neighbours = label[across];
  const Tile every = label[k.whole(label.dim(0))], previous = before[k.whole(before.dim(0))];

  // A row's rank is the number of rows before it in (label, row) order, in which rows without a label come
  // first; ranks differ, so sorting is a scatter. Each of N² pairs of labels costs two comparisons or
  // three, and none of rows.
  const Tile same = every == mine, isEarlier = across.positions() < rows.positions();
  const Tile earlier = count(k, previous == mine) + count(k, (neighbours == mine) & isEarlier);
  const Tile rank = count(k, every < mine) + earlier;
  const Tile isHead = (mine >= 0) & (earlier == 0);

  const Tile to = select(inside(k, rows, label.dim(0)), rank, -1);
  k.scatter(order, to, rows.positions());
  k.scatter(run, to, select(isHead, count(k, same), 0));
  k.scatter(slot, select(isHead & (to >= 0), mine, -1), rank);
}

Kernel rankLabels() {
  return defineKernel("lce_rank_labels", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1);
    const LabelRanks ranks(k);
    ranks.store(k, label, k.blockRows(label.dim(0), kRowsPerProgram));
  });
}

} // namespace tilewright::lce
