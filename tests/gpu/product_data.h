#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace tilewright::test {

struct ProductShape {
  int64_t rows = 0, hidden = 0, classes = 0;
};

/// The tensors of linear cross entropy's products, by the names that the kernels' parameters have, made when
/// first asked for. Inputs repeat a few numbers, at a period that is prime, so that gigabytes are set up in
/// a moment and the host knows every element without a copy. Rows lie a multiple of 16 bytes apart.
class ProductData {
public:
  /// Peaked: as of a trained model, 86 % of e lie below 2^-30 and are zero.
  ProductData(Device &device, ProductShape shape, ElementType element, bool peaked)
      : device_(device), shape_(shape), element_(element), peaked_(peaked) {}

  /// Beside the parameters: `e_random` is e of data that is not peaked, `logits` what a forward product
  /// writes, `dw32` an accumulator.
  StatusOr<TensorRef> tensor(const std::string &name);

  /// An element of an input, as the device holds it.
  double matrix(const std::string &name, int64_t row, int64_t column) const;
  double vector(const std::string &name, int64_t index) const;

  /// `count` elements of row `row`, from `column` on, from the device.
  StatusOr<std::vector<double>> download(const TensorRef &tensor, int64_t row, int64_t column, int64_t count);
  /// Elements of one row in 61 whose bytes are all `poison`.
  StatusOr<int64_t> unwritten(const TensorRef &tensor, unsigned char poison);

  Device &device() const { return device_; }
  const ProductShape &shape() const { return shape_; }
  ElementType element() const { return element_; }

private:
  struct Item {
    Buffer buffer;
    TensorRef ref;
    std::vector<double> values; ///< one period of a matrix, all of a vector
  };

  StatusOr<Item> make(const std::string &name) const;
  /// `asExponentials`: rows as far apart as those of E in a call.
  StatusOr<Item> makeMatrix(ElementType element, int64_t rows, int64_t columns,
                            const std::function<double()> &draw, bool asExponentials = false) const;
  StatusOr<Item> makeVector(ElementType element, int64_t size,
                            const std::function<double(int64_t)> &value) const;

  Device &device_;
  const ProductShape shape_;
  const ElementType element_;
  const bool peaked_;
  std::map<std::string, Item> items_;
};

} // namespace tilewright::test
