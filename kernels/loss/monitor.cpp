#include <limits>

#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"
#include "kernels/loss_options.h"

namespace tilewright {

std::string RowOutputs::str() const {
  return std::string(entropy ? ",entropy" : "") + (best ? ",best" : "") + (monitored ? ",monitored" : "");
}

Kernel monitor() {
  return defineKernel("loss_monitor", "", [](KernelBuilder &k) {
    const auto rowInput = [&](const char *name, ElementType type = ElementType::f32) {
      return k.input(name, type, 1);
    };
    const View lse = rowInput("lse"), entropy = rowInput("entropy"), top = rowInput("top");
    const View norm = rowInput("norm"), argmax = rowInput("argmax", ElementType::i32);
    const View correct = rowInput("correct", ElementType::i32),
               validCount = rowInput("valid_count", ElementType::i32);
    const View monitored = k.output("monitored", ElementType::f32, 1);

    const Range rows = k.whole(lse.dim(0));
    const Tile some = first(k, validCount) > 0, n = validRows(k, validCount);
    const auto store = [&](Monitored quantity, const Tile &value) {
      k.store(monitored, k.range(Axis::rows, k.constant(static_cast<int64_t>(quantity)), 1), value);
    };
    const auto mean = [&](const Tile &x) { return sum(x, Axis::columns) / n; }; // other rows hold 0
    const Tile largest =
        max(select(argmax[rows] >= 0, top[rows], -std::numeric_limits<double>::infinity()), Axis::columns);
    store(Monitored::largestLogit, select(some, largest, 0));
    store(Monitored::meanLogitNorm, mean(norm[rows]));
    store(Monitored::meanEntropy, mean(entropy[rows]));
    store(Monitored::meanLseSquared, mean(lse[rows] * lse[rows]));
    store(Monitored::meanLse, mean(lse[rows]));
    store(Monitored::accuracy, mean(cast(correct[rows], ElementType::f32)));
  });
}

} // namespace tilewright
