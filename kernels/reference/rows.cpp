#include "kernels/reference/rows.h"

#include <algorithm>
#include <cmath>

#include "compiler/base/parallel.h"

namespace tilewright::reference {

Rows::Rows(const int64_t *label, int64_t rows, int64_t classes, const ReferenceOptions &options)
    : label_(label), count_(rows), classes_(classes), options_(options), loss_(options, classes),
      rows_(rows) {
  double weights = 0;
  for (int64_t i = 0; i < rows; ++i)
    if (isValid(i)) ++result.validRows, weights += loss_.weightOf(label[i]);
  if (options.reduction != Reduction::mean) return;
  mainDivisor_ = weights;
  extraDivisor_ = result.validRows;
}

void Rows::chunk(double *t, int64_t first, int64_t count) {
  parallelFor(count, [&](int64_t i) {
    double *row = t + i * classes_;
    const int64_t label = label_[first + i];
    if (!isValid(first + i)) return std::fill(row, row + classes_, 0.0);
    loss_.finishLogits(row, label);
    rows_[first + i] = loss_.evaluate(row, label);
    if (options_.gradients) loss_.differentiate(row, label, rows_[first + i], upstream(first + i));
  });
}

RowUpstream Rows::upstream(int64_t row) const {
  const auto of = [&](const std::vector<double> &g, double absent) {
    return g.empty() ? absent : g.size() == 1 ? g[0] : g[row];
  };
  const double g = of(options_.gradOutput, 1);
  return {mainDivisor_ == 0 ? 0 : g / mainDivisor_, g / extraDivisor_, of(options_.gradLse, 0),
          of(options_.gradEntropy, 0)};
}

double Rows::reduce() const {
  double main = 0, extra = 0;
  for (const Row &row : rows_)
    main += row.main, extra += row.extra;
  return (mainDivisor_ == 0 ? 0 : main / mainDivisor_) + (extraDivisor_ == 0 ? 0 : extra / extraDivisor_);
}

void Rows::monitor() {
  const auto quantity = [&](Monitored which) -> double & {
    return result.monitored[static_cast<int>(which)];
  };
  double largest = -INFINITY;
  for (int64_t i = 0; i < count_; ++i) {
    if (!isValid(i)) continue;
    const Row &row = rows_[i];
    const double share = 1.0 / result.validRows;
    largest = std::max(largest, row.largest);
    quantity(Monitored::meanLogitNorm) += share * row.norm;
    quantity(Monitored::meanEntropy) += share * row.entropy;
    quantity(Monitored::meanLseSquared) += share * row.lse * row.lse;
    quantity(Monitored::meanLse) += share * row.lse;
    quantity(Monitored::accuracy) += share * result.correct[i];
  }
  if (result.validRows > 0) quantity(Monitored::largestLogit) = largest;
}

ReferenceResult Rows::finish() {
  for (int64_t i = 0; i < count_; ++i) {
    const Row &row = rows_[i];
    result.lse.push_back(row.lse), result.entropy.push_back(row.entropy);
    result.argmax.push_back(row.argmax), result.correct.push_back(isValid(i) && row.argmax == label_[i]);
    result.logitSize = std::max(result.logitSize, row.size);
    if (options_.reduction == Reduction::none) result.loss.push_back(row.main + row.extra);
  }
  if (options_.reduction != Reduction::none) result.loss = {reduce()};
  monitor();
  return std::move(result);
}

} // namespace tilewright::reference
