#include "kernels/lce/accumulation.h"
#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

constexpr int64_t kPartsAtOnce = 8, kBiasClasses = 256;

Kernel dBias(const DBiasSpec &spec) {
  using Mode = Accumulation::Mode;
  const std::string specialisation = std::string("db=") + elementName(spec.output) + "," +
                                     spec.accumulation.str() + (spec.uniform ? ",uniform" : "") +
                                     (spec.classFactor ? ",class factor" : "");
  return defineKernel("lce_db", specialisation, [spec](KernelBuilder &k) {
    const Mode mode = spec.accumulation.mode;
    const View parts = k.input("parts", ElementType::f32, 2);
    const View labelSums = k.input("label_sums", ElementType::f32, 1);
    const View uniform = spec.uniform ? k.input("uniform", ElementType::f32, 1) : View();
    const View classFactor = spec.classFactor ? k.input("class_factor", ElementType::f32, 1) : View();
    const View partial = mode == Mode::finish ? k.input("partial", ElementType::f32, 1) : View();
    const View db = k.output("db", spec.output, 1);

    const Range classes = k.blockColumns(parts.dim(1), kBiasClasses);
    const auto add = [&](const Index &i, const std::vector<Tile> &sums) {
      return std::vector<Tile>{sums[0] +
                               sum(parts.at(k.range(Axis::rows, i, kPartsAtOnce), classes), Axis::rows)};
    };
    Tile total = k.forRange(k.constant(0), parts.dim(0), kPartsAtOnce, {labelSums[classes]}, add)[0];
    if (spec.uniform) {
      const Tile ofRows = sum(uniform[k.whole(uniform.dim(0))], Axis::columns);
      total = total - (spec.classFactor ? classFactor[classes] * ofRows : ofRows);
    }
    if (mode == Mode::finish) total = total + partial[classes];
    if (mode == Mode::add || spec.accumulation.ontoOutput) total = total + db[classes];
    k.store(db, classes, total);
  });
}

} // namespace tilewright::lce
