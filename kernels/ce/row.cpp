#include <limits>

#include "kernels/ce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::ce {

// The target is kept apart from the other classes' sum s of exp(z - top), so that a loss near 0 and its
// gradient keep their digits: with m the row's largest logit,
//     1 + rest = Σ_j exp(z_j - m),    loss = log1p(rest) - (z_y - m),    1 - p_y = s exp(top - m) / (1 +
//     rest).
Kernel row(const RowSpec &spec) {
  std::string specialisation = elementName(spec.element);
  if (spec.gradient)
    specialisation +=
        std::string(",dz=") + elementName(spec.gradient->output) + "," + spec.gradient->upstream.str();
  return defineKernel("ce_row", specialisation, [spec](KernelBuilder &k) {
    const View logits = k.input("logits", spec.element, 2);
    const View row = k.input("row", ElementType::i32, 1), label = k.input("label", ElementType::i32, 1);
    const View rowLoss = k.output("row_loss", ElementType::f32, 1),
               lse = k.output("lse", ElementType::f32, 1);
    const UpstreamParameters upstream =
        spec.gradient ? declareUpstream(k, spec.gradient->upstream) : UpstreamParameters();
    const View gradient = spec.gradient ? k.output("dlogits", spec.gradient->output, 2) : View();

    const Range one = k.blockRows(row.dim(0), 1), classes = k.whole(logits.dim(1));
    const Tile from = row[one], y = label[one];

    k.ifThen(k.toCondition(from >= 0), [&] {
      const Tile z = logits.gather(from, classes);
      const Tile isOther = classes.positions() != y;
      const Tile others = select(isOther, z, std::numeric_limits<float>::lowest());
      const Tile top = max(others, Axis::columns), s = sum(exp(others - top), Axis::columns);
      const Tile target = gather(z, y);

      const Tile m = max(top, target), mass = s * exp(top - m);
      const Tile rest = expm1(target - m) + mass;
      k.scatter(rowLoss, from, log1p(rest) - (target - m));
      k.scatter(lse, from, log1p(rest) + m);
      if (!spec.gradient) return;

      const Tile scale = rowGradient(k, spec.gradient->upstream, upstream, from) / (rest + 1.0);
      k.scatter(gradient, from, classes, select(isOther, scale * exp(z - m), -(scale * mass)));
    });
  });
}

} // namespace tilewright::ce
