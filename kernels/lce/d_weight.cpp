#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

namespace {

/// Valid rows of the chunk that begins at the `begin`-th valid row, at most `capacity`.
Index chunkRows(KernelBuilder &k, const View &summary, const Index &begin, const Index &capacity) {
  const Index valid = k.toIndex(first(k, summary));
  return max(min(valid - begin, capacity), k.constant(0));
}

} // namespace

Kernel dWeight(const DWeightSpec &spec) {
  using Mode = DWeightSpec::Mode;
  constexpr const char *modes[] = {"store", "add", "finish"};
  const std::string specialisation = std::string("e=") + elementName(spec.exponentials) +
                                     ",dw=" + elementName(spec.output) + "," +
                                     modes[static_cast<int>(spec.mode)] + "," + spec.block.str();
  return defineKernel("lce_dw", specialisation, [spec](KernelBuilder &k) {
    const View e = k.input("e", spec.exponentials, 2), xs = k.input("xs", spec.exponentials, 2);
    const View u = k.input("u", ElementType::f32, 2), slot = k.input("slot", ElementType::i32, 1);
    const View summary = k.input("summary", ElementType::i32, 1);
    const Index begin = k.index("first");
    const View partial = spec.mode == Mode::finish ? k.input("partial", ElementType::f32, 2) : View();
    const View dw = k.output("dw", spec.output, 2);

    const auto [classes, hidden] = k.block(e.dim(1), xs.dim(1), spec.block.rows, spec.block.columns);
    const Index rows = chunkRows(k, summary, begin, e.dim(0));
    const auto part = [&, classes = classes, hidden = hidden] {
      const Tile product =
          dot(e.narrowed(0, rows).columns(classes).transpose(), xs.narrowed(0, rows).columns(hidden));
      return product + u.gather(slot[classes], hidden);
    };

    switch (spec.mode) {
    case Mode::store:
      k.store(dw, classes, hidden, part());
      break;
    case Mode::add:
      k.ifThen(rows != 0, [&, classes = classes, hidden = hidden] { k.add(dw, classes, hidden, part()); });
      break;
    case Mode::finish:
      k.store(dw, classes, hidden, partial.at(classes, hidden) + part());
      break;
    }
  });
}

} // namespace tilewright::lce
