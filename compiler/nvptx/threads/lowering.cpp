#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

Lowering::Lowering(func::FuncOp kernel, const LoweringOptions &options, Emitter &emitter)
    : kernel(kernel), options_(options), layouts_(kernel), memory_(kernel), e(emitter), order_(e, layouts_),
      chip_(e, order_), elements_(*this) {}

void Lowering::begin(func::FuncOp lowered, Num sharedMemory) {
  chip_.beginAt(sharedMemory);
  bindParameters(lowered);
  teamEntry = e.i32(0).value;
}

void Lowering::bindParameters(func::FuncOp lowered) {
  unsigned next = 0;
  auto word = [&] { return e.num(lowered.getArgument(next++)); };
  for (BlockArgument argument : kernel.getArguments()) {
    if (auto type = dyn_cast<tile::ViewType>(argument.getType())) {
      MemoryView view{argument, word(), {}, {nullptr, {}}, type.getElement()};
      for (int64_t axis = 0; axis < type.getRank(); ++axis)
        view.sizes.push_back(word());
      if (type.getRank() == 2) view.rowStride = word();
      views.try_emplace(argument, view);
    } else {
      Num value = word();
      scalars.map(argument, argument.getType().isF32() ? value.value : e.toIndex(value));
    }
  }
}

Num Lowering::threadPosition(const AxisMap &map) {
  Value &known = threadPositions[&map];
  if (known) return e.num(known);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointAfterValue(teamEntry);
  const Num position = positionOf(map, e.thread());
  known = position.value;
  return position;
}

Num Lowering::positionOf(const AxisMap &map, Num thread) {
  Num position = e.i32(0);
  for (size_t i = 0; i < map.bits.size();) { // bits in a row that move by powers of two are one field
    size_t end = i + 1;
    while (end < map.bits.size() && map.bits[end].bit == map.bits[i].bit + int(end - i) &&
           map.bits[end].stride == map.bits[i].stride << (end - i))
      ++end;
    Num field = (thread >> map.bits[i].bit) & ((int64_t(1) << (end - i)) - 1);
    position = position + field * map.bits[i].stride;
    i = end;
  }
  return position;
}

Num Lowering::position(const AxisMap &map, int64_t reg) { return threadPosition(map) + map.offsets[reg]; }

std::optional<Num> Lowering::presentRows(Operation *load) const {
  const auto found = present.find(load);
  return found == present.end() ? std::nullopt : std::optional(found->second);
}

void Lowering::forgetPositions() {
  e.threadId = teamEntry = e.pinned(e.threadId);
  threadPositions.clear();
}

} // namespace tilewright::nvptx
