#include <limits>

#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel sampleClasses(ElementType element, std::optional<ElementType> bias) {
  const std::string specialisation =
      elementName(element) + (bias ? std::string(",bias=") + elementName(*bias) : "");
  return defineKernel("lce_sample_classes", specialisation, [element, bias](KernelBuilder &k) {
    const ElementType i32 = ElementType::i32;
    const View w = k.input("w", element, 2), label = k.input("label", i32, 1);
    const View rowRange = k.input("row_range", i32, 1);
    const View biases = bias ? k.input("bias", *bias, 1) : View();
    const View sample = k.output("sample", element, 2), sampleLabel = k.output("sample_label", i32, 1);
    const View sampleBias = bias ? k.output("sample_bias", *bias, 1) : View();

    const Range rows = k.blockRows(sample.dim(0), kRowsPerProgram), hidden = k.whole(w.dim(1));
    const Tile valid = rowRange[k.range(Axis::rows, k.constant(1), 1)];
    const Index apart = max(k.toIndex(valid) / sample.dim(0), k.constant(1));
    const Tile place = rows.positions() * k.toTile(apart, i32);
    const Tile chosen = select(place < valid, label.gather(place), -1);

    k.store(sample, rows, hidden, w.gather(chosen, hidden));
    k.store(sampleLabel, rows, chosen);
    if (bias) k.store(sampleBias, rows, biases.gather(chosen));
  });
}

Kernel sampleTops(const SampleTopsSpec &spec) {
  const std::string specialisation =
      std::string(elementName(spec.element)) + spec.terms.logitStr() + "," + spec.block.str();
  return defineKernel("lce_sample_tops", specialisation, [spec](KernelBuilder &k) {
    const View x = k.input("xc", spec.element, 2), sample = k.input("sample", spec.element, 2);
    const View label = k.input("label", ElementType::i32, 1);
    const View sampleLabel = k.input("sample_label", ElementType::i32, 1);
    const LogitTerms terms(spec.terms);
    terms.declare(k);
    const View tops = k.output("top", ElementType::f32, 1);

    const auto [rows, classes] = k.block(x.dim(0), sample.dim(0), spec.block.rows, spec.block.columns);
    const LogitPlace place{rows, classes, label[rows], {}};
    const Tile z = terms.logit(dot(x.rows(rows), sample.rows(classes).transpose()), place);
    const Tile isOther = (sampleLabel[classes] >= 0) & (sampleLabel[classes] != label[rows]);
    const Tile top = max(select(isOther, z, -std::numeric_limits<double>::infinity()), Axis::columns);
    k.store(tops, rows, asShift(k, top));
  });
}

} // namespace tilewright::lce
