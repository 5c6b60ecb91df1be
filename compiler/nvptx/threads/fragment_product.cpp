#include "compiler/nvptx/threads/fragment_product.h"

namespace tilewright::nvptx {

using namespace mlir;

void addFragments(Emitter &e, const MmaInstruction &instruction, const AccumulatorBlock &block,
                  ValueRange left, ValueRange right) {
  const auto &[depth, type] = instruction;
  SmallVector<Value> operands(left);
  operands.append(right.begin(), right.end());
  for (int64_t i = 0; i < 4; ++i)
    operands.push_back(block[i]);
  SmallVector<Type> results(4, e.b.getF32Type());
  auto next = e.ptx(results,
                    "mma.sync.aligned.m16n8k" + std::to_string(depth) + ".row.col.f32." + type + "." + type +
                        ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
                    "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", operands, false);
  for (int64_t i = 0; i < 4; ++i)
    block[i] = next[i];
}

} // namespace tilewright::nvptx
