#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace tilewright::test {

/// The devices that kernel tests run on.
std::vector<std::string> testDevices();

/// A runtime on a device, without a cache on disk; on the CPU with this many threads (0: one per core). Ends
/// the test program when there is none.
std::unique_ptr<Runtime> openRuntime(const std::string &device = "cpu", int threads = 0);

/// A tensor in a device's memory with the means to fill and read it. Values are rounded to its element type.
/// Rows may lie apart; what lies between them is checked to stay untouched. A failing device ends the test
/// program.
class DeviceTensor {
public:
  DeviceTensor() = default;
  static DeviceTensor vector(Device &device, ElementType element, int64_t size);
  static DeviceTensor matrix(Device &device, ElementType element, int64_t rows, int64_t columns,
                             int64_t gap = 0);

  template <typename T>
  static DeviceTensor vector(Device &device, ElementType element, const std::vector<T> &values) {
    DeviceTensor tensor = vector(device, element, static_cast<int64_t>(values.size()));
    tensor.set(std::vector<double>(values.begin(), values.end()));
    return tensor;
  }
  template <typename T>
  static DeviceTensor matrix(Device &device, ElementType element, int64_t rows, int64_t columns,
                             const std::vector<T> &values, int64_t gap = 0) {
    DeviceTensor tensor = matrix(device, element, rows, columns, gap);
    tensor.set(std::vector<double>(values.begin(), values.end()));
    return tensor;
  }

  const TensorRef &ref() const { return ref_; }
  operator const TensorRef &() const { return ref_; }

  void set(const std::vector<double> &values);
  void setLabels(const std::vector<int64_t> &values); ///< exact for every i64
  void poison();                                      ///< every byte 0xFF: NaN, or -1
  std::vector<double> get() const;
  std::vector<uint8_t> bytes() const; ///< of the elements, for comparisons bit by bit
  bool gapsUntouched() const;

private:
  DeviceTensor(Device &device, TensorRef shape);
  std::vector<uint8_t> raw() const;

  Device *device_ = nullptr;
  Buffer buffer_;
  TensorRef ref_;
};

/// A number as an element type holds it.
double rounded(double value, ElementType element);

/// ‖got − want‖ / max(‖want‖, floor); NaN where either has one.
double relativeError(const std::vector<double> &got, const std::vector<double> &want, double floor = 0);
double norm(const std::vector<double> &values);

} // namespace tilewright::test
