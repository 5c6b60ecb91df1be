#include "tests/support/device_tensor.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compiler/number_formats.h"
#include "runtime/cpu/cpu_device.h"

namespace tilewright::test {
namespace {

void require(const Status &status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::abort();
}

template <typename T> T required(StatusOr<T> value) {
  require(value.status());
  return *std::move(value);
}

template <typename T> void append(std::vector<uint8_t> &bytes, T value) {
  const auto *begin = reinterpret_cast<const uint8_t *>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

void append(std::vector<uint8_t> &bytes, double value, ElementType element) {
  bytes.resize(bytes.size() + elementBytes(element));
  storeElement(element, value, &bytes[bytes.size() - elementBytes(element)]);
}

constexpr uint8_t kGap = 0xA5;

} // namespace

std::vector<std::string> testDevices() {
  std::vector<std::string> devices = {"cpu"};
  if (openDevice("cuda").ok()) devices.push_back("cuda");
  return devices;
}

std::unique_ptr<Runtime> openRuntime(const std::string &device, int threads) {
  Environment environment;
  environment.device = device;
  environment.threads = threads;
  if (device == "cpu") return std::make_unique<Runtime>(std::make_unique<CpuDevice>(threads), environment);
  return std::make_unique<Runtime>(required(openDevice(device)), environment);
}

DeviceTensor::DeviceTensor(Device &device, TensorRef shape) : device_(&device), ref_(shape) {
  const int64_t elements = ref_.rank == 1 ? ref_.sizes[0] : ref_.sizes[0] * ref_.rowStride;
  const std::size_t bytes = elements * elementBytes(ref_.element);
  buffer_ = required(device.allocate(bytes > 0 ? bytes : 1, nullptr));
  ref_.data = buffer_.data();
  require(device.fill(buffer_.data(), kGap, bytes, nullptr));
}

DeviceTensor DeviceTensor::vector(Device &device, ElementType element, int64_t size) {
  return {device, TensorRef::vector(nullptr, element, size)};
}

DeviceTensor DeviceTensor::matrix(Device &device, ElementType element, int64_t rows, int64_t columns,
                                  int64_t gap) {
  TensorRef shape = TensorRef::matrix(nullptr, element, rows, columns);
  shape.rowStride = columns + gap;
  return {device, shape};
}

void DeviceTensor::set(const std::vector<double> &values) {
  const int64_t columns = ref_.rank == 1 ? ref_.sizes[0] : ref_.sizes[1];
  const int64_t rows = ref_.rank == 1 ? 1 : ref_.sizes[0];
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      append(bytes, values[i * columns + j], ref_.element);
    if (ref_.rank == 2)
      bytes.resize(bytes.size() + (ref_.rowStride - columns) * elementBytes(ref_.element), kGap);
  }
  require(device_->copyToDevice(ref_.data, bytes.data(), bytes.size(), nullptr));
}

void DeviceTensor::setLabels(const std::vector<int64_t> &values) {
  std::vector<uint8_t> bytes;
  for (int64_t value : values)
    ref_.element == ElementType::i64 ? append(bytes, value) : append(bytes, static_cast<int32_t>(value));
  require(device_->copyToDevice(ref_.data, bytes.data(), bytes.size(), nullptr));
}

void DeviceTensor::poison() {
  const std::size_t size = elementBytes(ref_.element);
  if (ref_.rank == 1) return require(device_->fill(ref_.data, 0xFF, ref_.sizes[0] * size, nullptr));
  for (int64_t i = 0; i < ref_.sizes[0]; ++i)
    require(device_->fill(static_cast<char *>(ref_.data) + i * ref_.rowStride * size, 0xFF,
                          ref_.sizes[1] * size, nullptr));
}

std::vector<uint8_t> DeviceTensor::raw() const {
  const int64_t elements = ref_.rank == 1 ? ref_.sizes[0] : ref_.sizes[0] * ref_.rowStride;
  std::vector<uint8_t> bytes(elements * elementBytes(ref_.element));
  require(device_->copyToHost(bytes.data(), ref_.data, bytes.size(), nullptr));
  return bytes;
}

std::vector<uint8_t> DeviceTensor::bytes() const {
  if (ref_.rank == 1 || ref_.rowStride == ref_.sizes[1]) return raw();
  const std::vector<uint8_t> all = raw();
  const std::size_t size = elementBytes(ref_.element);
  std::vector<uint8_t> result;
  for (int64_t i = 0; i < ref_.sizes[0]; ++i) {
    const auto row = all.begin() + i * ref_.rowStride * size;
    result.insert(result.end(), row, row + ref_.sizes[1] * size);
  }
  return result;
}

std::vector<double> DeviceTensor::get() const {
  const std::vector<uint8_t> elements = bytes();
  const std::size_t size = elementBytes(ref_.element);
  std::vector<double> values;
  for (std::size_t i = 0; i < elements.size(); i += size)
    values.push_back(loadElement(ref_.element, &elements[i]));
  return values;
}

bool DeviceTensor::gapsUntouched() const {
  if (ref_.rank == 1) return true;
  const std::vector<uint8_t> all = raw();
  const std::size_t size = elementBytes(ref_.element), stride = ref_.rowStride * size;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i % stride >= ref_.sizes[1] * size && all[i] != kGap) return false;
  return true;
}

double rounded(double value, ElementType element) {
  uint8_t bytes[8];
  storeElement(element, value, bytes);
  return loadElement(element, bytes);
}

double norm(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

double relativeError(const std::vector<double> &got, const std::vector<double> &want, double floor) {
  if (got.size() != want.size()) return INFINITY;
  std::vector<double> difference(got.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    difference[i] = got[i] - want[i];
  const double error = norm(difference), size = std::max(norm(want), floor);
  return error == 0 ? 0 : error / size;
}

} // namespace tilewright::test
