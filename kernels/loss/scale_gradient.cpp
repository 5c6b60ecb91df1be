#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"

namespace tilewright {

Kernel scaleGradient(ElementType element, bool inPlace) {
  const std::string place = inPlace ? ",in place" : "";
  return defineKernel(
      "loss_scale_gradient", elementName(element) + place, [element, inPlace](KernelBuilder &k) {
        // Few programs, as most often none has anything to do: an H200 takes 20 µs to begin 32000 of them.
        constexpr int64_t kRows = 64, kRowsAtOnce = 16, kColumns = 512;
        const View gradient = inPlace ? View() : k.input("gradient", element, 2);
        const View scale = k.input("scale", ElementType::f32, 1);
        const View scaled = k.output("scaled", element, 2);

        const auto [rows, columns] = k.block(scaled.dim(0), scaled.dim(1), kRows, kColumns);
        const Tile factor = scale[k.range(Axis::rows, k.constant(0), 1)];
        const View from = inPlace ? scaled : gradient;
        const Index end = min(rows.begin + kRows, scaled.dim(0));
        const auto store = [&, rows = rows, columns = columns] {
          k.forRange(rows.begin, end, kRowsAtOnce, {}, [&](const Index &i, const std::vector<Tile> &) {
            const Range some = k.range(Axis::rows, i, kRowsAtOnce);
            k.store(scaled, some, columns, factor * from.at(some, columns));
            return std::vector<Tile>();
          });
        };
        if (inPlace)
          k.ifThen(k.toCondition(factor != 1), store);
        else
          store();
      });
}

} // namespace tilewright
