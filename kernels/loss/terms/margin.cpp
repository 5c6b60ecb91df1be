#include "kernels/loss/terms/terms.h"

namespace tilewright {
namespace {

/// Large margin cosine loss: z_ij = S (x_i·w_j / (|x_i| |w_j|) - m [j = y]). The norms are taken as constants
/// here; what they contribute to the gradients points along x_i (below) and along w_j (lce_normalise).
class MarginLogit final : public LogitTerm {
public:
  void declare(KernelBuilder &k) override {
    classNorm_ = k.input("class_norm", ElementType::f32, 1);
    scale_ = k.scalar("lmcl_scale");
    margin_ = k.scalar("lmcl_scaled_margin");
  }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    const Margin &m = values.margin;
    arguments.tensor(values.classNorm).number(m.scale).number(m.scale * m.margin);
  }
  Tile apply(const Tile &t, const LogitPlace &place) const override {
    const Tile z = t * rowRate(place) * place.perClass(classNorm_);
    if (!place.classes) return z - margin_;
    return select(place.classes->positions() == place.label, z - margin_, z);
  }
  Tile rowRate(const LogitPlace &place) const override { return scale_ * place.rowNorm; }
  Tile classRate(const Tile &, const LogitPlace &place) const override { return place.perClass(classNorm_); }

private:
  View classNorm_;
  Tile scale_, margin_;
};

/// With α_i = 1 / |x_i| and c_ij = S cos(x_i, w_j) = z_ij + S m [j = y], dx_i gets -α_i² (Σ_j dz_ij c_ij)
/// x_i.
class MarginGradient final : public RowTerm {
public:
  void declare(KernelBuilder &k) override { margin_ = k.scalar("lmcl_scaled_margin"); }
  void bind(const TermValues &values, StepArguments &arguments) const override {
    arguments.number(values.margin.scale * values.margin.margin);
  }
  void finish(const RowFacts &row, RowTotals &totals) const override {
    const auto sum = [&](RowSum s) { return row.sums[static_cast<int>(s)]; };
    const Tile a = row.shift, cosine = row.distance + a + margin_; // c_iy
    // The other classes: Σ p z and Σ p (z - a) z, then the target, then what all classes get alike.
    const Tile moment = row.v * sum(RowSum::moments);
    Tile q = factorOfP(totals) * (moment + a * row.other);
    if (totals.moment.valid()) addTo(q, totals.moment * (row.v * sum(RowSum::secondMoments) + a * moment));
    addTo(q, targetGradient(row, totals) * cosine);
    if (totals.uniform.valid())
      addTo(q, -(totals.uniform * (sum(RowSum::weighedLogits) + times(row.classWeight, margin_))));
    totals.self = -(row.rowNorm * row.rowNorm * q);
  }

private:
  Tile margin_;
};

} // namespace

std::unique_ptr<LogitTerm> marginTerm() { return std::make_unique<MarginLogit>(); }
std::unique_ptr<RowTerm> marginGradientTerm() { return std::make_unique<MarginGradient>(); }

} // namespace tilewright
