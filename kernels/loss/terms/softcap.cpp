#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// z = C tanh(t / C), dz/dt = 1 - (z / C)².
class Softcap final : public LogitTerm {
public:
  void declare(KernelBuilder &k) override {
    cap_ = k.scalar("softcap");
    inverse_ = k.scalar("softcap_inverse");
  }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    const float cap = values.options.softcap.value_or(1);
    arguments.number(cap).number(1 / cap);
  }
  Tile apply(const Tile &t, const LogitPlace &) const override { return cap_ * tanh(inverse_ * t); }
  Tile classRate(const Tile &z, const LogitPlace &) const override {
    const Tile share = inverse_ * z;
    return 1.0 - share * share;
  }

private:
  Tile cap_, inverse_;
};

} // namespace

std::unique_ptr<LogitTerm> softcapTerm() { return std::make_unique<Softcap>(); }

} // namespace tilewright
