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

/// Split-K of the chunk's last rows: products of parts of the classes side by side, and their sum. Where all
/// rows are in parts, swapped operands gain, too; behind whole tiles of 4096×2304×122753 an H200 lost 4 %.
void tail(Emitter &m, DHiddenSpec total, CompileOptions options, const RowWindow &rows) {
  const int tag = tagOf(ProductKind::dHidden);
  options.schedule.rasterRows = static_cast<int>(m.c.tailRows() / total.block.rows);
  options.schedule.swapsOperands = rows.first == 0 && swapsOperands(m, total);
  total.parts = m.c.tail.parts;
  const int parts =
      m.kernel(dHiddenParts({m.s.element, m.s.exponentials, total.block, total.parts, total.transposed}),
               options, tag);
  StepArguments arguments = m.arguments();
  arguments.tensor(tensor::e, rows).tensor(total.transposed ? tensor::wt : tensor::weight);
  arguments.tensor(tensor::row, rows).tensor(tensor::products);
  total.block = m.target == TargetKind::cpu ? kTotalBlockOnCpu : kTotalBlock;
  total.transposed = false; // it takes sums of products
  const int sum = m.kernel(dHidden(total), {}, tag);
  Step &products = m.launch(parts, arguments);
  products.tag = tag, products.skippedWithout = 0;
  Step &added = m.launch(sum, hiddenArguments(m, tensor::products, {}, rows));
  added.tag = tag, added.skippedWithout = 2;
}

} // namespace

void emitHiddenGradient(Emitter &m) {
  DHiddenSpec spec{m.s.element,       m.s.exponentials,     *m.s.dHidden,
                   m.c.dHidden.block, m.s.isUniformRankOne, m.s.terms.margin};
  spec.transposed = m.has(tensor::wt);
  const CompileOptions options = m.optionsFor(ProductKind::dHidden);
  const int64_t head = m.c.hasTail() ? m.c.tail.begin : RowWindow().end;
  const RowWindow rows = {0, head};
  if (head > 0) {
    CompileOptions whole = options;
    whole.schedule.swapsOperands = swapsOperands(m, spec);
    Step &step = m.launch(m.kernel(dHidden(spec), whole, tagOf(ProductKind::dHidden)),
                          hiddenArguments(m, tensor::e, rows, rows));
    step.tag = tagOf(ProductKind::dHidden), step.skippedWithout = 0;
  }
  if (m.c.hasTail()) tail(m, spec, options, {head});
}

} // namespace tilewright::lce
