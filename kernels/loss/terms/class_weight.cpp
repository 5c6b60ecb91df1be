#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// A row's weight is u_y; a mean divides by Σ u_y instead of the number of rows, which `share` mends.
class ClassWeight final : public RowTerm {
public:
  void declare(KernelBuilder &k) override {
    weight_ = k.input("class_weight", ElementType::f32, 1);
    facts_ = k.input("weight_facts", ElementType::f32, 1);
  }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    arguments.tensors({values.classWeight, values.weightFacts});
  }
  void prepare(RowFacts &row) const override {
    const auto fact = [&](int64_t i) { return facts_[row.k->range(Axis::rows, row.k->constant(i), 1)]; };
    row.share = fact(0);
    row.meanWeight = fact(1);
    row.classWeight = weight_.gather(row.label);
    row.weight = times(row.weight, row.share * row.classWeight);
  }

private:
  View weight_, facts_;
};

} // namespace

std::unique_ptr<RowTerm> classWeightTerm() { return std::make_unique<ClassWeight>(); }

} // namespace tilewright
