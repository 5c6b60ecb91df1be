#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

constexpr int64_t kRowsAtOnce = 8, kColumns = 256;
static_assert(kSummedRows % kRowsAtOnce == 0);

Kernel sumRows(ElementType element, bool factor) {
  const std::string specialisation = elementName(element) + std::string(factor ? ",factor" : "");
  return defineKernel("lce_sum_rows", specialisation, [element, factor](KernelBuilder &k) {
    const View m = k.input("m", element, 2);
    const View factors = factor ? k.input("factor", ElementType::f32, 1) : View();
    const View result = k.output("sum", ElementType::f32, 2);

    const auto [block, columns] = k.block(m.dim(0), m.dim(1), kSummedRows, kColumns);
    const Index end = min(block.begin + kSummedRows, m.dim(0));
    const auto body = [&, columns = columns](const Index &i, const std::vector<Tile> &sums) {
      const Range rows = k.range(Axis::rows, i, kRowsAtOnce);
      const Tile values = factor ? factors[rows] * m.at(rows, columns) : m.at(rows, columns);
      return std::vector<Tile>{sums[0] + sum(values, Axis::rows)};
    };
    const Tile none = cast(columns.positions(), ElementType::f32) * 0.0;
    const Tile total = k.forRange(block.begin, end, kRowsAtOnce, {none}, body)[0];
    k.store(result, k.range(Axis::rows, k.programId(0), 1), columns, total);
  });
}

} // namespace tilewright::lce
