#include "kernels/reference/row.h"

#include <algorithm>
#include <cmath>

namespace tilewright::reference {

RowLoss::RowLoss(const ReferenceOptions &options, int64_t classes)
    : o_(options), classes_(classes), smoothing_(options.labelSmoothing), weightSum_(0) {
  for (int64_t c = 0; c < classes; ++c)
    weightSum_ += weightOf(c);
}

void RowLoss::finishLogits(double *t, int64_t label) const {
  if (o_.lmcl) {
    t[label] -= o_.lmcl->margin;
    for (int64_t j = 0; j < classes_; ++j)
      t[j] *= o_.lmcl->scale;
    return;
  }
  for (int64_t j = 0; j < classes_; ++j) {
    t[j] = o_.logitScale * (t[j] + (o_.bias.empty() ? 0 : o_.bias[j]));
    if (o_.softcap) t[j] = *o_.softcap * std::tanh(t[j] / *o_.softcap);
  }
}

double RowLoss::slope(double z) const {
  if (o_.lmcl) return o_.lmcl->scale;
  const double share = o_.softcap ? z / *o_.softcap : 0;
  return o_.logitScale * (1 - share) * (1 + share);
}

Row RowLoss::evaluate(const double *z, int64_t label) const {
  Row row;
  row.argmax = std::max_element(z, z + classes_) - z;
  row.largest = z[row.argmax];
  double squares = 0;
  for (int64_t j = 0; j < classes_; ++j) {
    squares += z[j] * z[j];
    row.size = std::max(row.size, std::fabs(z[j]));
    if (j != label) row.others += std::exp(z[j] - row.largest);
  }
  row.norm = std::sqrt(squares);
  row.total = row.others + std::exp(z[label] - row.largest);
  row.lse = row.largest + std::log(row.total);
  for (int64_t j = 0; j < classes_; ++j)
    if (const double p = std::exp(z[j] - row.largest) / row.total) row.entropy += p * (row.lse - z[j]);
  row.main = mainOf(z, label, row);
  row.extra = o_.zLoss * row.lse * row.lse;
  return row;
}

double RowLoss::mainOf(const double *z, int64_t label, const Row &row) const {
  const double target = std::exp(z[label] - row.largest);
  if (o_.objective == Objective::prob) return -target / row.total;
  const double loss = row.others < target ? std::log1p(row.others / target) : row.lse - z[label]; // lse − z_y
  if (smoothing_ == 0) return weightOf(label) * loss;
  double all = 0;
  for (int64_t c = 0; c < classes_; ++c)
    all += weightOf(c) * (row.lse - z[c]);
  return (1 - smoothing_) * weightOf(label) * loss + smoothing_ / classes_ * all;
}

// With p_j − [j = y] = −(Σ_{k≠y} p_k) at the target:
//     ∂lse/∂z_j = p_j      ∂(lse − z_c)/∂z_j = p_j − [j = c]      ∂entropy/∂z_j = −p_j·(z_j − lse + entropy)
//     ∂(−p_y)/∂z_j = p_y·(p_j − [j = y])
void RowLoss::differentiate(double *z, int64_t label, const Row &row, const RowUpstream &upstream) const {
  const double targetShare = std::exp(z[label] - row.largest) / row.total;
  const double target =
      upstream.main * (o_.objective == Objective::prob ? targetShare : (1 - smoothing_) * weightOf(label));
  const double smooth = upstream.main * smoothing_ / classes_;
  const double lse = 2 * o_.zLoss * row.lse * upstream.extra + upstream.lse;
  for (int64_t j = 0; j < classes_; ++j) {
    const double p = std::exp(z[j] - row.largest) / row.total;
    double dz = target * (j == label ? -row.others / row.total : p) + lse * p;
    if (smooth != 0) dz += smooth * (weightSum_ * p - weightOf(j));
    if (upstream.entropy != 0 && p > 0) dz -= upstream.entropy * p * (z[j] - row.lse + row.entropy);
    z[j] = dz * slope(z[j]);
  }
}

} // namespace tilewright::reference
