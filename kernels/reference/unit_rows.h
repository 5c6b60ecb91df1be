#pragma once

#include <cstdint>
#include <vector>

namespace tilewright::reference {

/// The rows of a matrix divided by their lengths; rows shorter than 1e-12 by that.
class UnitRows {
public:
  UnitRows(const std::vector<double> &matrix, int64_t columns);
  const std::vector<double> &values() const { return values_; }

  /// A gradient by the unit rows to one by the matrix, in place: d_i ← (d_i − x̂_i·(x̂_i·d_i)) / |x_i|.
  void pullBack(std::vector<double> &gradient) const;

private:
  int64_t columns_;
  std::vector<double> values_, lengths_;
};

} // namespace tilewright::reference
