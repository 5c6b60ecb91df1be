#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel logits(const LogitsSpec &spec) {
  const std::string specialisation = std::string(elementName(spec.element)) +
                                     ",z=" + elementName(spec.output) + spec.terms.logitStr() + "," +
                                     spec.block.str();
  return defineKernel("lce_logits", specialisation, [spec](KernelBuilder &k) {
    const View x = k.input("x", spec.element, 2), w = k.input("w", spec.element, 2);
    const View rowNorm = spec.terms.margin ? k.input("row_norm", ElementType::f32, 1) : View();
    LogitTerms terms(spec.terms);
    terms.declare(k);
    const View z = k.output("z", spec.output, 2);

    const auto [rows, classes] = k.block(x.dim(0), w.dim(0), spec.block.rows, spec.block.columns);
    LogitPlace place{rows, classes, integer(k, -1), {}}; // no label: no class gets a margin
    if (spec.terms.margin) place.rowNorm = rowNorm[rows];
    k.store(z, rows, classes, terms.logit(dot(x.rows(rows), w.rows(classes).transpose()), place));
  });
}

} // namespace tilewright::lce
