#include "kernels/lce/accumulation.h"
#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

// E is read once more, row after row of a few cache lines.
constexpr int64_t kBiasRows = 8, kBiasClasses = 256;

Kernel dBias(const DBiasSpec &spec) {
  using Mode = Accumulation::Mode;
  const std::string specialisation =
      std::string("e=") + elementName(spec.exponentials) + ",db=" + elementName(spec.output) + "," +
      spec.accumulation.str() + (spec.uniform ? ",uniform" : "") + (spec.classFactor ? ",class factor" : "");
  return defineKernel("lce_db", specialisation, [spec](KernelBuilder &k) {
    const Mode mode = spec.accumulation.mode;
    View e = k.input("e", spec.exponentials, 2), label = k.input("label", ElementType::i32, 1);
    View scale = k.input("scale", ElementType::f32, 1), oneHot = k.input("one_hot", ElementType::f32, 1);
    const View summary = k.input("summary", ElementType::i32, 1);
    const Index begin = k.index("first");
    View uniform = spec.uniform ? k.input("uniform", ElementType::f32, 1) : View();
    const View classFactor = spec.classFactor ? k.input("class_factor", ElementType::f32, 1) : View();
    const View partial = mode == Mode::finish ? k.input("partial", ElementType::f32, 1) : View();
    const View db = k.output("db", spec.output, 1);

    const Range classes = k.blockColumns(e.dim(1), kBiasClasses);
    const Index count = chunkRows(k, summary, begin, e.dim(0));
    for (View *view : {&e, &label, &scale, &oneHot, &uniform})
      if (view->valid()) *view = view->narrowed(0, count);

    const auto body = [&](const Index &i, const std::vector<Tile> &sums) {
      const Range rows = k.range(Axis::rows, i, kBiasRows);
      const Tile isTarget = classes.positions() == label[rows];
      Tile gradient = scale[rows] * e.at(rows, classes) + select(isTarget, oneHot[rows], 0);
      if (spec.uniform)
        gradient = gradient - (spec.classFactor ? classFactor[classes] * uniform[rows] : uniform[rows]);
      return std::vector<Tile>{sums[0] + sum(gradient, Axis::rows)};
    };
    const Tile none = cast(classes.positions(), ElementType::f32) * 0.0;
    Tile total = k.forRange(k.constant(0), count, kBiasRows, {none}, body)[0];
    if (mode == Mode::finish) total = total + partial[classes];
    if (mode == Mode::add || spec.accumulation.ontoOutput) total = total + db[classes];
    k.store(db, classes, total);
  });
}

} // namespace tilewright::lce
