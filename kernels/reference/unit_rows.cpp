#include "kernels/reference/unit_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tilewright::reference {
namespace {

constexpr double kShortest = 1e-12;

} // namespace

UnitRows::UnitRows(const std::vector<double> &matrix, int64_t columns) : columns_(columns), values_(matrix) {
  for (auto row = values_.begin(); row != values_.end(); row += columns) {
    lengths_.push_back(std::sqrt(std::inner_product(row, row + columns, row, 0.0)));
    for (int64_t k = 0; k < columns; ++k)
      row[k] /= std::max(lengths_.back(), kShortest);
  }
}

void UnitRows::pullBack(std::vector<double> &gradient) const {
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    double *d = &gradient[i * columns_];
    const double *unit = &values_[i * columns_];
    // Below the limit the divisor does not depend on the row.
    const double along = lengths_[i] > kShortest ? std::inner_product(d, d + columns_, unit, 0.0) : 0;
    for (int64_t k = 0; k < columns_; ++k)
      d[k] = (d[k] - along * unit[k]) / std::max(lengths_[i], kShortest);
  }
}

} // namespace tilewright::reference
