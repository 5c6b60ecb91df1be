#pragma once

#include <cstdint>
#include <vector>

#include "kernels/reference/row.h"

namespace tilewright::reference {

/// The losses of all rows, one call a chunk; `finish` reduces them.
class Rows {
public:
  Rows(const int64_t *label, int64_t rows, int64_t classes, const ReferenceOptions &options);

  /// Raw logits of rows [first, first + count) to losses and, when wanted, to gradients in their place.
  void chunk(double *t, int64_t first, int64_t count);
  ReferenceResult finish();

  ReferenceResult result;

private:
  bool isValid(int64_t row) const { return label_[row] != options_.ignoreIndex; }
  RowUpstream upstream(int64_t row) const;
  double reduce() const;
  void monitor();

  const int64_t *label_;
  const int64_t count_, classes_;
  const ReferenceOptions &options_;
  const RowLoss loss_;
  double mainDivisor_ = 1, extraDivisor_ = 1;
  std::vector<Row> rows_;
};

} // namespace tilewright::reference
