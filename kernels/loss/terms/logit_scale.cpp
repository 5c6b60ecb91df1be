#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// z = S t.
class LogitScale final : public LogitTerm {
public:
  void declare(KernelBuilder &k) override { scale_ = k.scalar("logit_scale"); }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    arguments.number(values.options.logitScale);
  }
  Tile apply(const Tile &t, const LogitPlace &) const override { return scale_ * t; }
  Tile rowRate(const LogitPlace &) const override { return scale_; }

private:
  Tile scale_;
};

} // namespace

std::unique_ptr<LogitTerm> logitScaleTerm() { return std::make_unique<LogitScale>(); }

} // namespace tilewright
