#include "kernels/lce/phases/phases.h"

namespace tilewright::lce {
namespace {

/// E of a slice and what is made of it.
void emitSlice(Emitter &m, const Slice &slice) {
  const bool isKept = slice.where == Slice::Where::kept, isBorrowed = slice.where == Slice::Where::borrowed;
  const TensorId e = isKept ? tensor::keptE : isBorrowed ? tensor::borrowedE : tensor::sliceE;
  const TensorId u = isKept ? tensor::keptU : isBorrowed ? tensor::borrowedU : tensor::sliceU;
  m.forClasses({slice.first, slice.first + slice.count});
  if (!isKept) emitAgain(m, ProductKind::again, tensor::allX, e, slice.first, slice.count);
  emitClassGradients(m, e, u, isKept ? slice.first : 0, slice.count);
  m.forClasses({});
}

} // namespace

void emitKept(Emitter &m) {
  const bool scales = m.s.fixUp == FixUp::none;
  StepArguments arguments = m.arguments();
  arguments.tensor(tensor::e, {}, {0, m.c.keptClasses}).tensor(tensor::compactLabel);
  if (scales) arguments.tensor(tensor::scale);
  m.launch(m.kernel(keep({m.s.exponentials, kInPlaceBlock, scales}), Emitter::passOptions()),
           arguments.tensor(tensor::keptE));
}

void emitSecondPass(Emitter &m) {
  const auto copy = [&](ElementType type, TensorId to) {
    m.launch(m.kernel(copyRows(m.s.element, type)), m.arguments().tensors({tensor::hidden, tensor::row, to}));
  };
  copy(m.s.element, tensor::allX);
  if (m.s.dWeight && m.s.element != m.s.exponentials) copy(m.s.exponentials, tensor::xs);
  emitSort(m);
  for (const Slice &slice : m.c.slices(m.s))
    emitSlice(m, slice);
}

} // namespace tilewright::lce
