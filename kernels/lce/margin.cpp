// What large margin cosine loss needs beside the kernels of the plain one.

#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel rowNorms(ElementType element, bool classWeight) {
  const std::string specialisation = elementName(element) + std::string(classWeight ? ",weights" : "");
  return defineKernel("lce_row_norms", specialisation, [element, classWeight](KernelBuilder &k) {
    const View w = k.input("w", element, 2);
    const View weight = classWeight ? k.input("class_weight", ElementType::f32, 1) : View();
    const View norm = k.output("norm", ElementType::f32, 1);
    const View factor = classWeight ? k.output("class_factor", ElementType::f32, 1) : View();

    const Range classes = k.blockRows(w.dim(0), kRowsPerProgram);
    const Tile inverse = inverseNorm(k, w.at(classes, k.whole(w.dim(1))));
    k.store(norm, classes, inverse);
    if (classWeight) k.store(factor, classes, inverse * weight[classes]);
  });
}

// A row is read twice; by itself it is still in the cache the second time.
constexpr int64_t kNormalisedRows = 1;

Kernel normalise(const NormaliseSpec &spec) {
  const std::string specialisation = std::string(elementName(spec.element)) +
                                     ",dw=" + elementName(spec.output) + (spec.inPlace ? ",in place" : "") +
                                     (spec.accumulate ? ",accumulate" : "");
  return defineKernel("lce_normalise", specialisation, [spec](KernelBuilder &k) {
    const View w = k.input("w", spec.element, 2), norm = k.input("class_norm", ElementType::f32, 1);
    const View g = spec.inPlace ? View() : k.input("g", ElementType::f32, 2);
    const View dw = k.output("dw", spec.output, 2);

    const Range classes = k.blockRows(w.dim(0), kNormalisedRows), hidden = k.whole(w.dim(1));
    const Tile wj = w.at(classes, hidden), gradient = (spec.inPlace ? dw : g).at(classes, hidden);
    const Tile along = sum(wj * gradient, Axis::columns) * norm[classes] * norm[classes];
    const Tile across = gradient - along * wj;
    k.store(dw, classes, hidden, spec.accumulate ? across + dw.at(classes, hidden) : across);
  });
}

} // namespace tilewright::lce
