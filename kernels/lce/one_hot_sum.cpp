#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel oneHotSum(ElementType element, int64_t columns) {
  const std::string specialisation = std::string(elementName(element)) + "," + std::to_string(columns);
  return defineKernel("lce_one_hot_sum", specialisation, [element, columns](KernelBuilder &k) {
    const View x = k.input("xc", element, 2), oneHot = k.input("one_hot", ElementType::f32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View u = k.output("u", ElementType::f32, 2);

    const auto [position, hidden] = k.block(order.dim(0), x.dim(1), 1, columns);
    const Index begin = position.begin, length = k.toIndex(run[position]);
    const auto term = [&, hidden = hidden](const Index &s) {
      const Range row = k.range(Axis::rows, k.toIndex(order[k.range(Axis::rows, s, 1)]), 1);
      return oneHot[row] * x.at(row, hidden);
    };

    k.ifThen(length != 0, [&, position = position, hidden = hidden] {
      const std::vector<Tile> total =
          k.forRange(begin + 1, begin + length, 1, {term(begin)}, [&](Index s, const std::vector<Tile> &sum) {
            return std::vector<Tile>{sum[0] + term(s)};
          });
      k.store(u, position, hidden, total[0]);
    });
  });
}

} // namespace tilewright::lce
