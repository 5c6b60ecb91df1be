#include <limits>

#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel forward(const ForwardSpec &spec) {
  const std::string type = elementName(spec.element);
  const std::string stored = spec.exponentials ? std::string(",e=") + elementName(*spec.exponentials) : "";
  return defineKernel("lce_forward", type + stored + "," + spec.block.str(), [spec](KernelBuilder &k) {
    const View x = k.input("xc", spec.element, 2), w = k.input("w", spec.element, 2);
    const View label = k.input("label", ElementType::i32, 1), anchor = k.input("anchor", ElementType::f32, 1);
    const View redo = k.input("redo", ElementType::i32, 1);
    const View sums = k.output("sums", ElementType::f32, 2), tops = k.output("tops", ElementType::f32, 2);
    View e, storedSums;
    if (spec.exponentials) {
      e = k.output("e", *spec.exponentials, 2);
      storedSums = k.output("stored", ElementType::f32, 2);
    }

    const auto [rows, classes] = k.block(x.dim(0), w.dim(0), spec.block.rows, spec.block.columns);
    const Range tile = k.range(Axis::columns, k.programId(1), 1);

    k.ifThen(k.toCondition(max(redo[rows], Axis::rows) > 0), [&, rows = rows, classes = classes] {
      const Tile z = dot(x.rows(rows), w.rows(classes).transpose());

      const Tile isClass = inside(k, classes, w.dim(0));
      const Tile isOther = isClass & (classes.positions() != label[rows]);
      const Tile others = select(isOther, exp(z - anchor[rows]), 0);

      k.store(sums, rows, tile, sum(others, Axis::columns));
      k.store(tops, rows, tile,
              max(select(isClass, z, -std::numeric_limits<double>::infinity()), Axis::columns));
      if (!spec.exponentials) return;

      const Tile stored = rounded(others, *spec.exponentials);
      k.store(e, rows, classes, stored);
      k.store(storedSums, rows, tile, sum(stored, Axis::columns));
    });
  });
}

} // namespace tilewright::lce
