#include "kernels/examples/examples.h"

namespace tilewright {

Kernel matmul(ElementType element, int64_t blockRows, int64_t blockColumns) {
  const std::string specialisation = elementName(element) + std::string(",") + std::to_string(blockRows) +
                                     "x" + std::to_string(blockColumns);
  return defineKernel("matmul", specialisation, [=](KernelBuilder &k) {
    const View a = k.input("a", element, 2), b = k.input("b", element, 2);
    const View c = k.output("c", element, 2);

    const auto [rows, columns] = k.block(a.dim(0), b.dim(1), blockRows, blockColumns);

    k.store(c, rows, columns, dot(a.rows(rows), b.columns(columns)));
  });
}

Kernel matmul(ElementType element) { return matmul(element, 128, 128); }

} // namespace tilewright
