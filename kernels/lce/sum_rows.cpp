#include "kernels/lce/accumulation.h"
#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

constexpr int64_t kRowsAtOnce = 8, kColumns = 256;
static_assert(kSummedRows % kRowsAtOnce == 0);

Kernel sumRows(const SumRowsSpec &spec) {
  const std::string specialisation = elementName(spec.element) + std::string(spec.factor ? ",factor" : "") +
                                     (spec.validRows ? ",valid rows" : "");
  return defineKernel("lce_sum_rows", specialisation, [spec](KernelBuilder &k) {
    const View m = k.input("m", spec.element, 2);
    const View factors = spec.factor ? k.input("factor", ElementType::f32, 1) : View();
    const View validCount = spec.validRows ? k.input("valid_count", ElementType::i32, 1) : View();
    const Index first = spec.validRows ? k.index("first") : Index();
    const View result = k.output("sum", ElementType::f32, 2);

    const auto [block, columns] = k.block(m.dim(0), m.dim(1), kSummedRows, kColumns);
    const Index count = spec.validRows ? chunkRows(k, validCount, first, m.dim(0)) : m.dim(0);
    const View counted = m.narrowed(0, count);
    const Index end = min(block.begin + kSummedRows, count);
    const auto body = [&, columns = columns](const Index &i, const std::vector<Tile> &sums) {
      const Range rows = k.range(Axis::rows, i, kRowsAtOnce);
      const Tile values = spec.factor ? factors[rows] * counted.at(rows, columns) : counted.at(rows, columns);
      return std::vector<Tile>{sums[0] + sum(values, Axis::rows)};
    };
    const Tile none = cast(columns.positions(), ElementType::f32) * 0.0;
    const Tile total = k.forRange(block.begin, end, kRowsAtOnce, {none}, body)[0];
    k.store(result, k.range(Axis::rows, k.programId(0), 1), columns, total);
  });
}

CompileOptions sumRowsOptions() {
  CompileOptions options;
  options.schedule.warps = 1;
  return options;
}

} // namespace tilewright::lce
