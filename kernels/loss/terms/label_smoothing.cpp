#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// loss_i = (1 - A) u_y (-log p_iy) + A (ū lse_i - Σ_c u_c z_ic / V), ū = Σ_c u_c / V. The gradient of the
/// second half is A ū p_ij - (A / V) u_j.
class LabelSmoothing final : public RowTerm {
public:
  void declare(KernelBuilder &k) override {
    smoothing_ = k.scalar("smoothing");
    perClass_ = k.scalar("smoothing_per_class");
  }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    const float a = values.options.labelSmoothing;
    arguments.number(a).number(a / static_cast<float>(values.classes));
  }
  void prepare(RowFacts &row) const override { row.weight = times(row.weight, 1.0 - smoothing_); }
  void add(const RowFacts &row, RowTotals &totals) const override {
    const Tile ofLse = times(row.meanWeight, smoothing_);
    const Tile logits = row.sums[static_cast<int>(RowSum::weighedLogits)];
    addTo(totals.loss, times(row.share, ofLse * row.lse - perClass_ * logits));
    if (!row.g.valid()) return;
    addTo(totals.mass, times(row.share, ofLse * row.g));
    addTo(totals.uniform, times(row.share, perClass_ * row.g));
  }

private:
  Tile smoothing_, perClass_;
};

} // namespace

std::unique_ptr<RowTerm> labelSmoothingTerm() { return std::make_unique<LabelSmoothing>(); }

} // namespace tilewright
