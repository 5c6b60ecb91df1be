#include <functional>

#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

/// Σ of a term of each row over the run of equal labels that begins at a sorted position; `use` gets it where
/// there is one.
void sumOverRun(KernelBuilder &k, const View &order, const View &run, const Range &position,
                const std::function<Tile(const Range &row)> &ofRow,
                const std::function<void(const Tile &)> &use) {
  const Index begin = position.begin, length = k.toIndex(run[position]);
  const auto rowAt = [&](const Index &s) {
    return k.range(Axis::rows, k.toIndex(order[k.range(Axis::rows, s, 1)]), 1);
  };
  const Range head =
      rowAt(begin); // asked for beside the run, so that one wait less lies ahead of its numbers
  k.ifThen(length != 0, [&] {
    const std::vector<Tile> total =
        k.forRange(begin + 1, begin + length, 1, {ofRow(head)}, [&](Index s, const std::vector<Tile> &sum) {
          return std::vector<Tile>{sum[0] + ofRow(rowAt(s))};
        });
    use(total[0]);
  });
}

} // namespace

// Two warps have four vectors a thread on their way; what a program waits for ahead of them, one row number
// after the other, takes as long as they do.
CompileOptions oneHotSumOptions() {
  CompileOptions options;
  options.schedule.warps = 2;
  return options;
}

Kernel oneHotSum(const OneHotSumSpec &spec) {
  const bool ofClasses = spec.place == OneHotPlace::label;
  const std::string specialisation = std::string(elementName(spec.element)) +
                                     (ofClasses ? ",of classes," : ",") + std::to_string(spec.columns);
  return defineKernel("lce_one_hot_sum", specialisation, [spec, ofClasses](KernelBuilder &k) {
    const View x = k.input("x", spec.element, 2), number = k.input("row", ElementType::i32, 1);
    const View oneHot = k.input("one_hot", ElementType::f32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View slot = ofClasses ? k.input("slot", ElementType::i32, 1) : View();
    const View u = k.output("u", ElementType::f32, 2);

    const Index places = ofClasses ? slot.dim(0) : order.dim(0);
    const auto [place, hidden] = k.block(places, x.dim(1), 1, spec.columns);
    const auto sumFrom = [&, place = place, hidden = hidden](const Range &position) {
      sumOverRun(
          k, order, run, position,
          [&](const Range &row) {
            const Range from = k.range(Axis::rows, k.toIndex(number[row]), 1);
            return oneHot[row] * x.at(from, hidden);
          },
          [&](const Tile &total) { k.store(u, place, hidden, total); });
    };
    if (!ofClasses) return sumFrom(place);
    const Tile from = slot[place];
    k.ifThen(k.toCondition(from >= 0), [&] { sumFrom(k.range(Axis::rows, k.toIndex(from), 1)); });
  });
}

Kernel labelSums() {
  return defineKernel("lce_label_sums", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1),
               oneHot = k.input("one_hot", ElementType::f32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View sums = k.output("sums", ElementType::f32, 1);

    const Range position = k.blockRows(order.dim(0), 1);
    sumOverRun(
        k, order, run, position, [&](const Range &row) { return oneHot[row]; },
        [&](const Tile &total) { k.scatter(sums, label.gather(order[position]), total); });
  });
}

} // namespace tilewright::lce
