#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

// What is less is below f16's range and, as a gradient, next to nothing; and the targets' part of dW, which
// is over the gain, may be up to 2^67.
constexpr double kLeastGain = 0x1p-60;

Tile gainOf(KernelBuilder &k, const View &scale, const View &largest) {
  const Range all = k.whole(scale.dim(0));
  const Tile unit = 0x1p-14 * max(abs(scale[all]) * largest[all], Axis::columns);
  return select(unit < kLeastGain, kLeastGain, unit); // NaN stays
}

Kernel rowsGain() {
  return defineKernel("lce_rows_gain", "", [](KernelBuilder &k) {
    const View scale = k.input("scale", ElementType::f32, 1),
               largest = k.input("largest", ElementType::f32, 1);
    const View gain = k.output("gain", ElementType::f32, 1);
    storeFirst(k, gain, gainOf(k, scale, largest));
  });
}

CompileOptions rowsGainOptions(TargetKind target) {
  CompileOptions options;
  if (target == TargetKind::cpu) return options;
  options.schedule.warps = 8;
  options.schedule.rowBlock = 2048;
  return options;
}

Kernel scaleRows(const ScaleRowsSpec &spec) {
  const bool makes = spec.gain == Gain::made;
  const std::string specialisation = std::string(elementName(spec.element)) + (makes ? ",makes gain" : "");
  return defineKernel("lce_scale_rows", specialisation, [spec, makes](KernelBuilder &k) {
    const View scale = k.input("scale", ElementType::f32, 1);
    const View from = k.input(makes ? "largest" : "gain", ElementType::f32, 1);
    const View x = k.input("xc", spec.element, 2), scaled = k.output("xs", spec.element, 2);
    const View made = makes ? k.output("gain", ElementType::f32, 1) : View();

    const Range rows = k.blockRows(x.dim(0), kRowsPerProgram), hidden = k.whole(x.dim(1));
    const Tile gain = makes ? gainOf(k, scale, from) : first(k, from);
    k.store(scaled, rows, hidden, scale[rows] / gain * x.at(rows, hidden));
    if (makes) k.ifThen(rows.begin == k.constant(0), [&] { storeFirst(k, made, gain); });
  });
}

} // namespace tilewright::lce
