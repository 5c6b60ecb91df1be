#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// loss_i -= p_iy. As dp_iy/dz_ij = p_iy ([j = y] - p_ij), the gradient is that of -log p_iy times p_iy.
class Prob final : public RowTerm {
public:
  void declare(KernelBuilder &) override {}
  void bind(const TermValues &, StepArguments &) const override {}
  void add(const RowFacts &row, RowTotals &totals) const override {
    addTo(totals.loss, -row.probability);
    if (row.g.valid()) addTo(totals.pull, row.g * row.probability);
  }
};

} // namespace

std::unique_ptr<RowTerm> probTerm() { return std::make_unique<Prob>(); }

} // namespace tilewright
