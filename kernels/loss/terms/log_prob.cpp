#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// loss_i += weight_i (-log p_iy).
class LogProb final : public RowTerm {
public:
  void declare(KernelBuilder &) override {}
  void bind(const TermValues &, StepArguments &) const override {}
  void add(const RowFacts &row, RowTotals &totals) const override {
    addTo(totals.loss, times(row.weight, row.nll));
    if (row.g.valid()) addTo(totals.pull, times(row.weight, row.g));
  }
};

} // namespace

std::unique_ptr<RowTerm> logProbTerm() { return std::make_unique<LogProb>(); }

} // namespace tilewright
