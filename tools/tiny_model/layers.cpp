#include "tools/tiny_model/layers.h"

namespace tilewright {
namespace {

constexpr int64_t kRows = 64, kColumns = 64; // of one program's block
constexpr ElementType f32 = ElementType::f32;

} // namespace

Kernel denseTanh() {
  return defineKernel("dense_tanh", "f32 64x64", [](KernelBuilder &k) {
    const View x = k.input("x", f32, 2), w = k.input("w", f32, 2), b = k.input("b", f32, 1);
    const View h = k.output("h", f32, 2);
    const auto [rows, columns] = k.block(x.dim(0), w.dim(0), kRows, kColumns);
    k.store(h, rows, columns, tanh(dot(x.rows(rows), w.rows(columns).transpose()) + b[columns]));
  });
}

Kernel tanhBackward() {
  return defineKernel("tanh_backward", "f32 64x64", [](KernelBuilder &k) {
    const View dh = k.input("dh", f32, 2), h = k.input("h", f32, 2);
    const View dz = k.output("dz", f32, 2);
    const auto [rows, columns] = k.block(h.dim(0), h.dim(1), kRows, kColumns);
    const Tile y = h.at(rows, columns);
    k.store(dz, rows, columns, dh.at(rows, columns) * (1 - y * y));
  });
}

Kernel denseBackwardInput() {
  return defineKernel("dense_backward_input", "f32 64x64", [](KernelBuilder &k) {
    const View dz = k.input("dz", f32, 2), w = k.input("w", f32, 2);
    const View dx = k.output("dx", f32, 2);
    const auto [rows, columns] = k.block(dz.dim(0), w.dim(1), kRows, kColumns);
    k.store(dx, rows, columns, dot(dz.rows(rows), w.columns(columns)));
  });
}

Kernel denseBackwardWeight() {
  return defineKernel("dense_backward_weight", "f32 64x64", [](KernelBuilder &k) {
    const View dz = k.input("dz", f32, 2), x = k.input("x", f32, 2);
    const View dw = k.output("dw", f32, 2);
    const auto [rows, columns] = k.block(dz.dim(1), x.dim(1), kRows, kColumns);
    k.store(dw, rows, columns, dot(dz.columns(rows.along(Axis::columns)).transpose(), x.columns(columns)));
  });
}

Kernel denseBackwardBias() {
  return defineKernel("dense_backward_bias", "f32 64x64", [](KernelBuilder &k) {
    const View dz = k.input("dz", f32, 2);
    const View db = k.output("db", f32, 1);
    const Range columns = k.blockColumns(dz.dim(1), kColumns);
    const auto blockSum = [&](const Index &row) { // rows past the end read as zero
      return sum(dz.at(k.range(Axis::rows, row, kRows), columns), Axis::rows);
    };
    const auto addBlock = [&](Index row, const std::vector<Tile> &carried) {
      return std::vector<Tile>{carried[0] + blockSum(row)};
    };
    const Tile first = blockSum(k.constant(0));
    k.store(db, columns, k.forRange(k.constant(kRows), dz.dim(0), kRows, {first}, addBlock)[0]);
  });
}

} // namespace tilewright
