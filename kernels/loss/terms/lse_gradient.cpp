#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// A gradient that arrives for lse_i: dlse_i/dz_ij = p_ij.
class LseGradient final : public RowTerm {
public:
  void declare(KernelBuilder &k) override { gradient_ = k.input("grad_lse", ElementType::f32, 1); }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    arguments.tensor(values.gradLse);
  }
  void add(const RowFacts &row, RowTotals &totals) const override {
    addTo(totals.mass, gradient_.gather(row.number));
  }

private:
  View gradient_;
};

} // namespace

std::unique_ptr<RowTerm> lseGradientTerm() { return std::make_unique<LseGradient>(); }

} // namespace tilewright
