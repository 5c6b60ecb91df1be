#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

std::string str(const CombineSpec &spec) {
  if (!spec.gradients) return "loss";
  return std::string(elementName(spec.gradients->element)) +
         ",e=" + elementName(spec.gradients->exponentials) + "," + spec.gradients->upstream.str();
}

} // namespace

Kernel combine(const CombineSpec &spec) {
  return defineKernel("lce_combine", str(spec), [spec](KernelBuilder &k) {
    const View sums = k.input("sums", ElementType::f32, 2), target = k.input("target", ElementType::f32, 1);
    const View anchor = k.input("anchor", ElementType::f32, 1), row = k.input("row", ElementType::i32, 1);
    const View rowLoss = k.output("row_loss", ElementType::f32, 1),
               lse = k.output("lse", ElementType::f32, 1);
    UpstreamParameters upstream;
    View stored, x, scale, oneHot, scaled;
    if (spec.gradients) {
      stored = k.input("stored", ElementType::f32, 2);
      upstream = declareUpstream(k, spec.gradients->upstream);
      x = k.input("xc", spec.gradients->element, 2);
      scale = k.output("scale", ElementType::f32, 1);
      oneHot = k.output("one_hot", ElementType::f32, 1);
      scaled = k.output("xs", spec.gradients->exponentials, 2);
    }

    const Range rows = k.blockRows(row.dim(0), kRowsPerProgram);
    const Tile to = rowNumbers(k, row, rows);
    const Range tiles = k.whole(sums.dim(1));
    const Tile others = sum(sums.at(rows, tiles), Axis::columns);
    const Tile distance = target[rows] - anchor[rows]; // 0 for a target anchor, but NaN for an infinite one

    const Tile rest = expm1(distance) + others; // Σ_j exp(z_j - a) - 1
    k.scatter(rowLoss, to, log1p(rest) - distance);
    k.scatter(lse, to, log1p(rest) + anchor[rows]);
    if (!spec.gradients) return;

    // Rounding E moved a row's mass from S to another number, which a factor of the row undoes: then the
    // weights of W's rows in dX sum to 0 as they should, so that what W's rows have in common cancels.
    const Tile storedOthers = sum(stored.at(rows, tiles), Axis::columns);
    const Tile mend = select(storedOthers > 0, others / storedOthers, 1.0);
    const Tile r = rowGradient(k, spec.gradients->upstream, upstream, to) / (rest + 1.0); // g v
    const Tile scaleOfE = r * mend;
    k.store(scale, rows, scaleOfE);
    k.store(oneHot, rows, -(r * others)); // 1 - p_y = S v
    const Range hidden = k.whole(x.dim(1));
    k.store(scaled, rows, hidden, scaleOfE * x.at(rows, hidden));
  });
}

} // namespace tilewright::lce
