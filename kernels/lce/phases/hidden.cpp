#include <utility>

#include "kernels/lce/phases/phases.h"

namespace tilewright::lce {
namespace {

/// `product` is E, or what its products add up from; `rows` of a chunk's.
StepArguments hiddenArguments(const Emitter &m, TensorId product, const RowWindow &ofProduct,
                              const RowWindow &rows) {
  StepArguments arguments = m.arguments();
  arguments.tensor(product, ofProduct).tensor(tensor::weight);
  if (product == tensor::e) arguments.tensor(tensor::wt);
  for (const TensorId id : {tensor::compactLabel, tensor::scale, tensor::oneHot, tensor::row})
    arguments.tensor(id, rows);
  if (m.s.isUniformRankOne) arguments.tensor(tensor::uniform, rows).tensor(tensor::classSum);
  if (m.s.terms.margin) arguments.tensor(tensor::self, rows).tensor(tensor::xc, rows);
  return arguments.tensor(tensor::dHidden);
}

/// Whether the tensor cores take W as their left operand and E as their right one, which they read more
/// often. E's numbers are all above 0 and of much the same size, so that fewer bits change from one to the
/// next, which takes less power. With both ways in turn dX alone took up to 4 % less (`product_bench`,
/// 2026-11-27 and 28; compiler/nvptx/MEASUREMENTS.md).
bool swapsOperands(const Emitter &m, const DHiddenSpec &spec) {
  constexpr int64_t kDeep = 24 << 10; // classes
  const bool isMeasured =
      m.c.dHidden.roles == Schedule::WarpRoles::cooperative && !spec.uniform && !spec.self;
  return isMeasured && elementBytes(spec.exponentials) == 2 && m.s.classes >= kDeep;
}

DHiddenSpec specOf(const Emitter &m) {
  DHiddenSpec spec{m.s.element,       m.s.exponentials,     *m.s.dHidden,
                   m.c.dHidden.block, m.s.isUniformRankOne, m.s.terms.margin};
  spec.transposed = m.has(tensor::wt);
  return spec;
}

RowWindow rowsInParts(const Emitter &m) { return {m.c.hiddenTileRows()}; }

void launchHidden(Emitter &m, Kernel kernel, const CompileOptions &options, const StepArguments &arguments,
                  int skippedWithout) {
  const int tag = tagOf(ProductKind::dHidden);
  Step &step = m.launch(m.kernel(std::move(kernel), options, tag), arguments);
  step.tag = tag, step.skippedWithout = skippedWithout;
}

} // namespace

void emitHiddenTiles(Emitter &m) {
  if (!m.s.dHidden || m.c.hiddenTileRows() == 0) return;
  const DHiddenSpec spec = specOf(m);
  const RowWindow rows = {0, m.c.hiddenTileRows()};
  CompileOptions options = m.optionsFor(ProductKind::dHidden);
  options.schedule.swapsOperands = swapsOperands(m, spec);
  launchHidden(m, dHidden(spec), options, hiddenArguments(m, tensor::e, rows, rows), 0);
}

// Where all rows are in parts, swapped operands gain, too; of rows behind whole tiles they do not.
void emitHiddenParts(Emitter &m) {
  const DHiddenSpec spec = specOf(m);
  const RowWindow rows = rowsInParts(m);
  CompileOptions options = m.optionsFor(ProductKind::dHidden);
  options.schedule.rasterRows = static_cast<int>(m.c.tailRows() / spec.block.rows);
  options.schedule.swapsOperands = rows.first == 0 && swapsOperands(m, spec);
  const DHiddenPartsSpec parts{m.s.element, m.s.exponentials, spec.block, m.c.tail.parts, spec.transposed};
  StepArguments arguments = m.arguments();
  arguments.tensor(tensor::e, rows).tensor(spec.transposed ? tensor::wt : tensor::weight);
  arguments.tensor(tensor::row, rows).tensor(tensor::products);
  launchHidden(m, dHiddenParts(parts), options, arguments, 0);
}

void emitHiddenTotal(Emitter &m) {
  DHiddenSpec spec = specOf(m);
  spec.parts = m.c.tail.parts;
  spec.block = m.target == TargetKind::cpu ? kTotalBlockOnCpu : kTotalBlock;
  spec.transposed = false; // it takes sums of products
  CompileOptions options;
  options.schedule.runsBeside = partsOrder(m.s, m.c) == PartsOrder::aroundWeight;
  launchHidden(m, dHidden(spec), options, hiddenArguments(m, tensor::products, {}, rowsInParts(m)), 2);
}

} // namespace tilewright::lce
