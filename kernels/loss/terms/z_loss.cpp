#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// loss_i += Z lse_i². As dlse/dz_ij = p_ij, the gradient is one more factor of p_ij: 2 Z lse_i.
class ZLoss final : public RowTerm {
public:
  void declare(KernelBuilder &k) override { z_ = k.scalar("z_loss"); }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    arguments.number(values.options.zLoss);
  }
  void add(const RowFacts &row, RowTotals &totals) const override {
    addTo(totals.loss, z_ * row.lse * row.lse);
    if (row.g.valid()) addTo(totals.mass, row.g * (2.0 * z_) * row.lse);
  }

private:
  Tile z_;
};

} // namespace

std::unique_ptr<RowTerm> zLossTerm() { return std::make_unique<ZLoss>(); }

} // namespace tilewright
