// The functions of tiles against the C library in float64, as vectors (wide tiles) and as scalars (columns),
// on devices and as code for a GPU in the interpreter.

#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/jit.h"
#include "tests/support/device_tensor.h"
#include "tests/support/direct_launches.h"

namespace tilewright {
namespace {

using test::DeviceTensor;

struct Function {
  const char *name;
  Tile (*ofTile)(const Tile &);
  double (*ofNumber)(double);
  double low, high; ///< where it is checked
  double tolerance; ///< relative to max(|f|, floor)
  double floor = 0; ///< below it the error is absolute
};

double rsqrtOf(double x) { return 1 / std::sqrt(x); }

// Tolerances in units of 2⁻²⁴, half a unit in the last place of fp32.
constexpr double kUnit = 1.0 / (1 << 24);

const Function kFunctions[] = {
    {"exp", exp, std::exp, -87, 88.7, 4 * kUnit},      {"expm1", expm1, std::expm1, -20, 80, 16 * kUnit},
    {"log", log, std::log, 1e-30, 1e30, 4 * kUnit, 1}, {"log1p", log1p, std::log1p, -0.999, 1e6, 8 * kUnit},
    {"tanh", tanh, std::tanh, -12, 12, 16 * kUnit},    {"erf", erf, std::erf, -6, 6, 16 * kUnit, 1e-3},
    {"sqrt", sqrt, std::sqrt, 0, 1e30, 2 * kUnit},     {"rsqrt", rsqrt, rsqrtOf, 1e-30, 1e30, 4 * kUnit},
};

std::vector<float> samples(const Function &function) {
  std::vector<float> values;
  const int count = 20000;
  for (int i = 0; i <= count; ++i) {
    const double t = double(i) / count;
    values.push_back(float(function.low + t * (function.high - function.low)));
    // Small numbers of both signs too, evenly by exponent.
    const double small = std::exp2(-30 * t) * std::min(1.0, function.high);
    if (small >= function.low) values.push_back(float(small));
    if (-small >= function.low) values.push_back(float(-small));
  }
  return values;
}

Kernel mapKernel(const Function &function, bool wide) {
  const std::string name = std::string("map_") + function.name + (wide ? "_wide" : "_column");
  return defineKernel(name, "", [&function, wide](KernelBuilder &k) {
    const View x = k.input("x", ElementType::f32, 1), y = k.output("y", ElementType::f32, 1);
    const Range block = wide ? k.blockColumns(x.dim(0), 256) : k.blockRows(x.dim(0), 256);
    k.store(y, block, function.ofTile(x[block]));
  });
}

class Functions : public testing::TestWithParam<std::tuple<std::string, int, bool>> {
protected:
  const test::DirectLaunches launches{std::get<0>(GetParam())};
  const Function &function = kFunctions[std::get<1>(GetParam())];
  const bool wide = std::get<2>(GetParam());

  std::vector<double> map(const std::vector<float> &values) const {
    const DeviceTensor x = DeviceTensor::vector(launches.device(), ElementType::f32, values);
    DeviceTensor y = DeviceTensor::vector(launches.device(), ElementType::f32, int64_t(values.size()));
    y.poison();
    launches.launch(mapKernel(function, wide), {x.ref(), y.ref()});
    return y.get();
  }
};

TEST_P(Functions, AreAccurate) {
  const std::vector<float> values = samples(function);
  const std::vector<double> got = map(values);
  double worst = 0, where = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double want = function.ofNumber(values[i]);
    const double scale = std::max({std::abs(want), function.floor, 1e-37});
    const double error = std::abs(got[i] - want) / scale;
    if (!(error <= worst)) worst = error, where = values[i];
  }
  EXPECT_LE(worst, function.tolerance) << "at " << where << ", in units of 2^-24: " << worst / kUnit;
}

TEST_P(Functions, KeepTheirLimits) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {infinity, -infinity, std::nanf(""), 0.0f, 1e4f, -1e4f};
  const std::vector<double> got = map(values);
  for (size_t i = 0; i < values.size(); ++i) {
    const double want = float(function.ofNumber(values[i]));
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got[i])) << function.name << "(" << values[i] << ") = " << got[i];
    else if (std::isinf(want) || want == 0)
      EXPECT_EQ(got[i], want) << function.name << "(" << values[i] << ")";
    else
      EXPECT_NEAR(got[i] / want, 1, function.tolerance) << function.name << "(" << values[i] << ")";
  }
}

TEST(Rounded, IsWhatAStoreWrites) {
  auto runtime = test::openRuntime();
  const std::vector<float> values = {1, 1.00390625f, 1.01f, -3.14159f, 1e-40f, 65504, 1e30f};
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    const Kernel kernel = defineKernel("round", elementName(element), [element](KernelBuilder &k) {
      const View x = k.input("x", ElementType::f32, 1), y = k.output("y", ElementType::f32, 1);
      const Range block = k.blockColumns(x.dim(0), 64);
      k.store(y, block, rounded(x[block], element));
    });
    const DeviceTensor x = DeviceTensor::vector(runtime->device(), ElementType::f32, values);
    DeviceTensor y = DeviceTensor::vector(runtime->device(), ElementType::f32, int64_t(values.size()));
    const Status status = launch(*runtime, kernel, {x.ref(), y.ref()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(y.get()[i], test::rounded(values[i], element)) << values[i] << " " << elementName(element);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Functions,
                         testing::Combine(testing::ValuesIn(test::directDevices()),
                                          testing::Range(0, int(std::size(kFunctions))), testing::Bool()),
                         [](const auto &info) {
                           return std::get<0>(info.param) + "_" + kFunctions[std::get<1>(info.param)].name +
                                  (std::get<2>(info.param) ? "Wide" : "Column");
                         });

} // namespace
} // namespace tilewright
