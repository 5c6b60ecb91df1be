#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// z = x·w + b. Its gradient is a sum over rows, of the lce_db kernel.
class Bias final : public LogitTerm {
public:
  explicit Bias(ElementType element) : element_(element) {}
  void declare(KernelBuilder &k) override { bias_ = k.input("bias", element_, 1); }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    arguments.tensor(values.bias);
  }
  Tile apply(const Tile &t, const LogitPlace &place) const override { return t + place.perClass(bias_); }

private:
  ElementType element_;
  View bias_;
};

} // namespace

std::unique_ptr<LogitTerm> biasTerm(ElementType element) { return std::make_unique<Bias>(element); }

} // namespace tilewright
