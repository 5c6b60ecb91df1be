#include "kernels/examples/examples.h"

namespace tilewright {
namespace {

constexpr ElementType f32 = ElementType::f32;

Tile zeros(const Range &range) { return cast(range.positions(), f32) * 0.0; }

} // namespace

Kernel layerNormGradient(ElementType element, int64_t width, int64_t rows) {
  const std::string specialisation =
      elementName(element) + std::string(",") + std::to_string(rows) + "x" + std::to_string(width);
  return defineKernel("layer_norm_gradient", specialisation, [=](KernelBuilder &k) {
    const View dy = k.input("dy", element, 2), x = k.input("x", element, 2),
               gain = k.input("gain", element, 1), mean = k.input("mean", f32, 1),
               scale = k.input("scale", f32, 1);
    const View dx = k.output("dx", element, 2), dGain = k.output("d_gain_parts", f32, 2),
               dBias = k.output("d_bias_parts", f32, 2);

    const Range block = k.blockRows(x.dim(0), rows), columns = k.range(Axis::columns, k.constant(0), width);
    const Tile size = cast(k.toTile(x.dim(1), ElementType::i32), f32);
    const Index end = min(block.begin + rows, x.dim(0));
    const auto eachRow = [&](Index i, const std::vector<Tile> &sums) -> std::vector<Tile> {
      const Range row = k.range(Axis::rows, i, 1);
      const Tile normalised = (x.at(row, columns) - mean[row]) * scale[row], upstream = dy.at(row, columns);
      const Tile g = upstream * gain[columns]; // 0 behind the row's end
      const Tile along = sum(g * normalised, Axis::columns) / size, across = sum(g, Axis::columns) / size;
      k.store(dx, row, columns, (g - normalised * along - across) * scale[row]);
      return {sums[0] + upstream * normalised, sums[1] + upstream};
    };
    const auto sums = k.forRange(block.begin, end, 1, {zeros(columns), zeros(columns)}, eachRow);

    const Range part = k.range(Axis::rows, k.programId(0), 1);
    k.store(dGain, part, columns, sums[0]);
    k.store(dBias, part, columns, sums[1]);
  });
}

Kernel layerNormGradient(ElementType element) { return layerNormGradient(element, 1024, 32); }

Kernel layerNormGradientSums(ElementType element) {
  return defineKernel("layer_norm_gradient_sums", elementName(element), [element](KernelBuilder &k) {
    const View gains = k.input("d_gain_parts", f32, 2), biases = k.input("d_bias_parts", f32, 2);
    const View dGain = k.output("d_gain", element, 1), dBias = k.output("d_bias", element, 1);

    constexpr int64_t rows = 32;
    const Range columns = k.blockColumns(dGain.dim(0), 32);
    const Tile zero = zeros(k.range(Axis::rows, k.constant(0), rows)) + zeros(columns);
    const auto eachBlock = [&](Index i, const std::vector<Tile> &sums) -> std::vector<Tile> {
      const Range block = k.range(Axis::rows, i, rows);
      return {sums[0] + gains.at(block, columns), sums[1] + biases.at(block, columns)};
    };
    const auto sums = k.forRange(k.constant(0), gains.dim(0), rows, {zero, zero}, eachBlock);
    k.store(dGain, columns, sum(sums[0], Axis::rows));
    k.store(dBias, columns, sum(sums[1], Axis::rows));
  });
}

} // namespace tilewright
