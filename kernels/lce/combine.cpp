#include "kernels/dsl_helpers.h"
#include "kernels/lce/kernels.h"

namespace tilewright::lce {
namespace {

std::string str(const CombineSpec &spec) {
  if (!spec.gradients) return "loss";
  constexpr const char *upstreams[] = {"one", "scalar", "rows"};
  const auto &g = *spec.gradients;
  return std::string(elementName(g.element)) + ",e=" + elementName(g.exponentials) + (g.mean ? ",mean" : "") +
         ",g=" + upstreams[static_cast<int>(g.upstream)];
}

} // namespace

Kernel combine(const CombineSpec &spec) {
  return defineKernel("lce_combine", str(spec), [spec](KernelBuilder &k) {
    const View sums = k.input("sums", ElementType::f32, 2), target = k.input("target", ElementType::f32, 1);
    const View anchor = k.input("anchor", ElementType::f32, 1), row = k.input("row", ElementType::i32, 1);
    const View rowLoss = k.output("row_loss", ElementType::f32, 1),
               lse = k.output("lse", ElementType::f32, 1);
    View summary, gradOutput, x, scale, oneHot, scaled;
    if (spec.gradients) {
      summary = k.input("summary", ElementType::i32, 1);
      if (spec.gradients->upstream != Upstream::one) gradOutput = k.input("grad_output", ElementType::f32, 1);
      x = k.input("xc", spec.gradients->element, 2);
      scale = k.output("scale", ElementType::f32, 1);
      oneHot = k.output("one_hot", ElementType::f32, 1);
      scaled = k.output("xs", spec.gradients->exponentials, 2);
    }

    const Range rows = k.blockRows(row.dim(0), kRowsPerProgram);
    const Tile to = rowNumbers(k, row, rows);
    const Tile others = sum(sums.at(rows, k.whole(sums.dim(1))), Axis::columns);
    const Tile distance = target[rows] - anchor[rows]; // 0 for a target anchor, but NaN for an infinite one

    const Tile rest = expm1(distance) + others; // Σ_j exp(z_j - a) - 1
    k.scatter(rowLoss, to, log1p(rest) - distance);
    k.scatter(lse, to, log1p(rest) + anchor[rows]);
    if (!spec.gradients) return;

    Tile g = number(k, 1);
    if (spec.gradients->upstream == Upstream::scalar) g = first(k, gradOutput);
    if (spec.gradients->upstream == Upstream::rows) g = gradOutput.gather(to);
    if (spec.gradients->mean) g = g / cast(max(first(k, summary), integer(k, 1)), ElementType::f32);
    const Tile r = g / (rest + 1.0); // g v
    k.store(scale, rows, r);
    k.store(oneHot, rows, -(r * others)); // 1 - p_y = S v
    const Range hidden = k.whole(x.dim(1));
    k.store(scaled, rows, hidden, r * x.at(rows, hidden));
  });
}

} // namespace tilewright::lce
