#include "tests/gpu/product_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "compiler/number_formats.h"
#include "kernels/lce/plan.h"
#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

namespace tilewright::test {
namespace {

constexpr int64_t kPeriod = 1048573; ///< elements; prime, so that no two rows of a matrix agree
constexpr double kFlushed = 30 * 0.6931471805599453;              ///< E below exp(-this) is stored as zero
constexpr double kFlushedShare = 0.86, kFlushedQuantile = 1.0803; ///< of a normal distribution
constexpr double kPeakedSpread = 4;                               ///< of the logits' standard deviations

int64_t bytesOf(ElementType element) { return static_cast<int64_t>(elementBytes(element)); }

char *at(const TensorRef &tensor, int64_t row, int64_t column) {
  return static_cast<char *>(tensor.data) + (row * tensor.rowStride + column) * bytesOf(tensor.element);
}

} // namespace

StatusOr<ProductData::Item> ProductData::makeMatrix(ElementType element, int64_t rows, int64_t columns,
                                                    const std::function<double()> &draw,
                                                    bool asExponentials) const {
  const int64_t step = 16 / bytesOf(element);
  const int64_t stride =
      asExponentials ? lce::paddedStride(columns, element) : (columns + step - 1) / step * step;
  const int64_t bytes = rows * stride * bytesOf(element), periodBytes = kPeriod * bytesOf(element);
  Item item;
  TW_ASSIGN_OR_RETURN(item.buffer, device_.allocate(bytes, nullptr));
  item.ref = TensorRef::matrix(item.buffer.data(), element, rows, columns);
  item.ref.rowStride = stride;
  if (!draw) return item;
  std::vector<char> period(periodBytes);
  for (int64_t i = 0; i < kPeriod; ++i) {
    storeElement(element, draw(), &period[i * bytesOf(element)]);
    item.values.push_back(loadElement(element, &period[i * bytesOf(element)]));
  }
  for (int64_t begin = 0; begin < bytes; begin += periodBytes)
    TW_RETURN_IF_ERROR(device_.copyToDevice(static_cast<char *>(item.buffer.data()) + begin, period.data(),
                                            std::min(periodBytes, bytes - begin), nullptr));
  return item;
}

StatusOr<ProductData::Item> ProductData::makeVector(ElementType element, int64_t size,
                                                    const std::function<double(int64_t)> &value) const {
  Item item;
  std::vector<char> bytes(size * bytesOf(element));
  for (int64_t i = 0; i < size; ++i) {
    storeElement(element, value(i), &bytes[i * bytesOf(element)]);
    item.values.push_back(loadElement(element, &bytes[i * bytesOf(element)]));
  }
  TW_ASSIGN_OR_RETURN(item.buffer, device_.allocate(bytes.size(), nullptr));
  item.ref = TensorRef::vector(item.buffer.data(), element, size);
  TW_RETURN_IF_ERROR(device_.copyToDevice(item.buffer.data(), bytes.data(), bytes.size(), nullptr));
  return item;
}

StatusOr<ProductData::Item> ProductData::make(const std::string &name) const {
  const auto [N, H, V] = shape_;
  constexpr ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(name)));
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto scaled = [&](double deviation) { return [&, deviation] { return deviation * normal(random); }; };
  const auto exponential = [&] { return std::exp(normal(random)); };
  const auto peaked = [&] {
    return uniform(random) < kFlushedShare ? 0 : std::exp(-kFlushed * uniform(random));
  };
  const double spread = peaked_ ? kPeakedSpread : 1;
  const double shift = peaked_ ? kFlushed + kFlushedQuantile * spread : 0;
  // The row sums of the logits' exponentials lie within fp32's range by far.
  if (name == "xc") return makeMatrix(element_, N, H, scaled(1));
  if (name == "w") return makeMatrix(element_, V, H, scaled(spread / std::sqrt(H)));
  if (name == "wt") return makeMatrix(element_, H, V, scaled(1 / std::sqrt(H)));
  if (name == "bias") return makeVector(element_, V, [](int64_t i) { return (i % 17 - 8) / 16.0; });
  if (name == "e" && peaked_) return makeMatrix(element_, N, V, peaked, true);
  if (name == "e" || name == "e_random") return makeMatrix(element_, N, V, exponential, true);
  if (name == "xs") return makeMatrix(element_, N, H, scaled(1 / std::sqrt(N)));
  if (name == "u") return makeMatrix(f32, N, H, scaled(1));
  if (name == "logits") return makeMatrix(element_, N, V, nullptr, true);
  if (name == "dx") return makeMatrix(element_, N, H, nullptr);
  if (name == "dw") return makeMatrix(element_, V, H, nullptr);
  if (name == "dw32") return makeMatrix(f32, V, H, nullptr);
  if (name == "label") return makeVector(i32, N, [V = V](int64_t i) { return i * 7919 % V; });
  if (name == "shift") return makeVector(f32, N, [=](int64_t i) { return shift + i % 8 / 16.0; });
  if (name == "row_range") return makeVector(i32, 2, [N = N](int64_t i) { return i * N; });
  if (name == "row") return makeVector(i32, N, [](int64_t i) { return i; });
  if (name == "scale") return makeVector(f32, N, [](int64_t i) { return 0.5 + i % 16 / 16.0; });
  if (name == "one_hot") return makeVector(f32, N, [](int64_t i) { return i % 32 / 16.0 - 1; });
  // One class in eight occurs.
  if (name == "slot") return makeVector(i32, V, [N = N](int64_t j) { return j % 8 ? -1 : j / 8 % N; });
  if (name == "valid_count") return makeVector(i32, 2, [N = N](int64_t i) { return i ? -1 : N; });
  return internalError("no tensor is called '" + name + "'");
}

StatusOr<TensorRef> ProductData::tensor(const std::string &name) {
  if (!items_.count(name)) {
    TW_ASSIGN_OR_RETURN(items_[name], make(name));
  }
  return items_[name].ref;
}

double ProductData::matrix(const std::string &name, int64_t row, int64_t column) const {
  const Item &item = items_.at(name);
  return item.values[(row * item.ref.rowStride + column) % kPeriod];
}

double ProductData::vector(const std::string &name, int64_t index) const {
  return items_.at(name).values[index];
}

StatusOr<std::vector<double>> ProductData::download(const TensorRef &tensor, int64_t row, int64_t column,
                                                    int64_t count) {
  std::vector<char> bytes(count * bytesOf(tensor.element));
  TW_RETURN_IF_ERROR(device_.copyToHost(bytes.data(), at(tensor, row, column), bytes.size(), nullptr));
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(loadElement(tensor.element, &bytes[i * bytesOf(tensor.element)]));
  return values;
}

StatusOr<int64_t> ProductData::unwritten(const TensorRef &tensor, unsigned char poison) {
  constexpr int64_t kStep = 61; // no block is so low, and no block's rows are all met or all missed
  const std::vector<char> pattern(bytesOf(tensor.element), static_cast<char>(poison));
  std::vector<char> bytes(tensor.sizes[1] * pattern.size());
  int64_t found = 0;
  for (int64_t row = 0; row < tensor.sizes[0]; row += kStep) {
    TW_RETURN_IF_ERROR(device_.copyToHost(bytes.data(), at(tensor, row, 0), bytes.size(), nullptr));
    for (std::size_t i = 0; i < bytes.size(); i += pattern.size())
      found += std::memcmp(&bytes[i], pattern.data(), pattern.size()) == 0;
  }
  return found;
}

} // namespace tilewright::test
