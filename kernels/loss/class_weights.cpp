#include <limits>

#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"
#include "runtime/call_status.h"

namespace tilewright {

Kernel rowWeights() {
  return defineKernel("loss_row_weights", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1);
    const View classWeight = k.input("class_weight", ElementType::f32, 1);
    const View rowWeight = k.output("row_weight", ElementType::f32, 1);

    const Range rows = k.blockRows(label.dim(0), 128);
    k.store(rowWeight, rows, classWeight.gather(rowNumbers(k, label, rows))); // no row has no weight
  });
}

Kernel weightFacts(bool mean) {
  return defineKernel("loss_weight_facts", mean ? "mean" : "", [mean](KernelBuilder &k) {
    const View rowWeight = k.input("row_weight", ElementType::f32, 1);
    const View classWeight = k.input("class_weight", ElementType::f32, 1);
    const View validCount = k.input("valid_count", ElementType::i32, 1);
    const Index sequence = k.index("sequence");
    const View facts = k.output("weight_facts", ElementType::f32, 1);
    const View status = k.output("status", ElementType::i64, 1);

    const auto place = [&](int64_t i) { return k.range(Axis::rows, k.constant(i), 1); };
    const Range classes = k.whole(classWeight.dim(0));
    const Tile weights = classWeight[classes];
    const Tile size = k.toTile(classWeight.dim(0), ElementType::i32);

    Tile share = number(k, 1);
    if (mean) {
      const Tile total = sum(rowWeight[k.whole(rowWeight.dim(0))], Axis::columns);
      share = select(total > 0, validRows(k, validCount) / total, 0);
    }
    k.store(facts, place(0), share);
    k.store(facts, place(1), sum(weights, Axis::columns) / cast(size, ElementType::f32));
    const Tile good = (weights >= 0) & (weights < std::numeric_limits<float>::infinity());
    const Tile firstBad = min(select(good, size, classes.positions()), Axis::columns);
    const Tile badPlace = cast(select(firstBad < size, firstBad + 1, 0), ElementType::i64);
    k.store(status, place(kBadClassPlace), badPlace);
    k.store(status, place(kWeightCheck), k.toTile(sequence, ElementType::i64) + badPlace);
  });
}

} // namespace tilewright
