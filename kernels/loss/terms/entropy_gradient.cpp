#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// A gradient that arrives for the entropy h_i = lse_i - Σ_j p_ij z_ij:
///     dh_i/dz_ij = -p_ij (z_ij - lse_i + h_i) = p_ij ((lse_i - a_i - h_i) - (z_ij - a_i)).
class EntropyGradient final : public RowTerm {
public:
  void declare(KernelBuilder &k) override { gradient_ = k.input("grad_entropy", ElementType::f32, 1); }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    arguments.tensor(values.gradEntropy);
  }
  void add(const RowFacts &row, RowTotals &totals) const override {
    const Tile g = gradient_.gather(row.number);
    addTo(totals.mass, g * (row.logMass - row.entropy));
    addTo(totals.moment, -g);
  }

private:
  View gradient_;
};

} // namespace

std::unique_ptr<RowTerm> entropyGradientTerm() { return std::make_unique<EntropyGradient>(); }

} // namespace tilewright
