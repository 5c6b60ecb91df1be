// The example kernels on sizes that fit no block, against float64: on the devices that are there through the
// calls that anybody's kernel goes through, and as code for GPUs in an interpreter.

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/examples/examples.h"
#include "kernels/examples/reference.h"
#include "kernels/jit.h"
#include "kernels/row_schedule.h"
#include "tests/support/device_tensor.h"
#include "tests/support/ptx_interpreter.h"

namespace tilewright::test {
namespace {

using Numbers = std::vector<double>;
using Sizes = std::pair<int64_t, int64_t>;

constexpr ElementType f32 = ElementType::f32;

bool isInterpreted(const std::string &where) { return where.rfind("sm_", 0) == 0; }

class Examples : public testing::TestWithParam<std::tuple<std::string, ElementType>> {
protected:
  const std::string where = std::get<0>(GetParam());
  const ElementType element = std::get<1>(GetParam());
  std::unique_ptr<Runtime> runtime = openRuntime(isInterpreted(where) ? "cpu" : where);
  Device &device = runtime->device();
  const Sizes sizes[4] = {{1, 1}, {7, 33}, {isInterpreted(where) ? 9 : 70, 1000}, {3, 5001}};
  std::mt19937 random{7};

  Numbers numbers(int64_t count) {
    std::normal_distribution<double> normal;
    Numbers values(count);
    for (double &value : values)
      value = rounded(normal(random), element);
    return values;
  }

  void run(const Kernel &kernel, const std::vector<KernelArgument> &arguments,
           const CompileOptions &options = {}) {
    const Status status = tryToRun(kernel, arguments, options);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void expectClose(const DeviceTensor &got, const Numbers &want) {
    EXPECT_LE(relativeError(got.get(), want), got.ref().element == f32 ? 1e-6 : 3e-3);
    EXPECT_TRUE(got.gapsUntouched());
  }

  /// How `bench --kernel` compiles a kernel that reads rows of so many numbers more than once.
  CompileOptions onChip(int64_t columns, RowWork work) const {
    constexpr int64_t kSharedBytes = 163 << 10; // of sm_80; sm_90 has more
    const Target target = isInterpreted(where) ? *parseTarget(where) : device.target();
    CompileOptions options;
    if (const auto schedule = rowOnChip(columns * elementBytes(element), element, target, kSharedBytes, work))
      options.schedule = *schedule;
    return options;
  }

  DeviceTensor empty(int64_t size, ElementType type = f32) {
    DeviceTensor tensor = DeviceTensor::vector(device, type, size);
    tensor.poison();
    return tensor;
  }
  DeviceTensor empty(int64_t rows, int64_t columns, ElementType type, int64_t gap = 0) {
    DeviceTensor tensor = DeviceTensor::matrix(device, type, rows, columns, gap);
    tensor.poison();
    return tensor;
  }

private:
  Status tryToRun(const Kernel &kernel, const std::vector<KernelArgument> &arguments,
                  const CompileOptions &options) {
    if (isInterpreted(where)) {
      TW_ASSIGN_OR_RETURN(const Artifact artifact, compile(kernel, *parseTarget(where), options));
      return interpretPtx(artifact, arguments);
    }
    TW_ASSIGN_OR_RETURN(const KernelHandle loaded, jit(*runtime, kernel, options));
    return device.launch(*loaded, arguments, nullptr);
  }
};

TEST_P(Examples, VectorAdd) {
  for (int64_t n : {1, 31, 1024, 5000}) {
    const Numbers a = numbers(n), b = numbers(n);
    const auto da = DeviceTensor::vector(device, element, a), db = DeviceTensor::vector(device, element, b);
    const auto dc = empty(n, element);
    run(vectorAdd(element), {da.ref(), db.ref(), dc.ref()});
    Numbers want(n);
    for (int64_t i = 0; i < n; ++i)
      want[i] = a[i] + b[i];
    expectClose(dc, want);
  }
}

TEST_P(Examples, RowSoftmax) {
  for (auto [rows, columns] : sizes) {
    Numbers x = numbers(rows * columns), want(rows * columns);
    for (double &value : x)
      value *= 32; // exact in every type
    const auto dx = DeviceTensor::matrix(device, element, rows, columns, x, 3);
    const auto dy = empty(rows, columns, element, 2);
    run(rowSoftmax(element), {dx.ref(), dy.ref()});
    for (int64_t i = 0; i < rows; ++i)
      examples::softmaxRow(&x[i * columns], columns, &want[i * columns]);
    expectClose(dy, want);
  }
}

// What is kept is x / (1 - p), the rest is 0.
// Rows that fit a GPU's chip, in CTAs of a cluster, too.
TEST_P(Examples, RowSoftmaxOnChip) {
  const int64_t rows = 3, columns = 20011;
  Numbers x = numbers(rows * columns), want(rows * columns);
  const auto dx = DeviceTensor::matrix(device, element, rows, columns, x, 5);
  const auto dy = empty(rows, columns, element, 5);
  run(rowSoftmax(element), {dx.ref(), dy.ref()}, onChip(columns, RowWork::light));
  for (int64_t i = 0; i < rows; ++i)
    examples::softmaxRow(&x[i * columns], columns, &want[i * columns]);
  expectClose(dy, want);
}

TEST_P(Examples, Dropout) {
  const float p = 0.25;
  for (int64_t n : {1, 1025, 10000})
    for (int64_t seed : {int64_t(0), (int64_t(7) << 32) + 123}) {
      const Numbers x = numbers(n);
      const auto dx = DeviceTensor::vector(device, element, x);
      const auto dy = empty(n, element);
      run(dropout(element), {dx.ref(), p, seed, dy.ref()});
      Numbers want(n);
      int64_t kept = 0;
      for (int64_t i = 0; i < n; ++i)
        if (examples::isKept(i, p, seed)) want[i] = x[i] / (1 - double(p)), ++kept;
      expectClose(dy, want);
      const Numbers found = dy.get();
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(found[i] == 0, want[i] == 0) << i;
      const double count = static_cast<double>(n);
      if (n > 1) {
        EXPECT_NEAR(kept / count, 1 - p, 4 * std::sqrt(p * (1 - p) / count));
      }
    }
}

struct LayerNormCase {
  Numbers x, gain, bias, y, mean, scale;
  std::vector<examples::RowMoments> moments;
};

LayerNormCase layerNormCase(Numbers x, Numbers gain, Numbers bias, double epsilon) {
  LayerNormCase one{std::move(x), std::move(gain), std::move(bias), {}, {}, {}, {}};
  const int64_t columns = one.gain.size();
  one.y.resize(one.x.size());
  for (size_t at = 0; at < one.x.size(); at += columns) {
    one.moments.push_back(examples::momentsOf(&one.x[at], columns, epsilon));
    one.mean.push_back(one.moments.back().mean), one.scale.push_back(one.moments.back().scale);
    examples::layerNormRow(&one.x[at], one.gain.data(), one.bias.data(), columns, one.moments.back(),
                           &one.y[at]);
  }
  return one;
}

TEST_P(Examples, LayerNorm) {
  const float epsilon = 1e-5f;
  const auto check = [&](int64_t rows, int64_t columns, const CompileOptions &options) {
    const LayerNormCase one =
        layerNormCase(numbers(rows * columns), numbers(columns), numbers(columns), epsilon);
    const auto x = DeviceTensor::matrix(device, element, rows, columns, one.x, 5);
    const auto gain = DeviceTensor::vector(device, element, one.gain);
    const auto bias = DeviceTensor::vector(device, element, one.bias);
    const auto y = empty(rows, columns, element, 5), mean = empty(rows), scale = empty(rows);
    run(layerNorm(element), {x.ref(), gain.ref(), bias.ref(), epsilon, y.ref(), mean.ref(), scale.ref()},
        options);
    expectClose(y, one.y);
    EXPECT_LE(relativeError(mean.get(), one.mean, norm(one.x) / std::sqrt(double(columns))), 1e-6);
    expectClose(scale, one.scale);
  };
  for (auto [rows, columns] : sizes)
    check(rows, columns, {});
  for (const int64_t columns : {4091, 20011}) // with the gap, rows begin at multiples of 16 bytes
    check(3, columns, onChip(columns, RowWork::heavy));
}

TEST_P(Examples, LayerNormGradient) {
  constexpr int64_t rowsOfAProgram = 4;
  for (auto [rows, columns, width] :
       {std::array<int64_t, 3>{1, 1, 1}, {7, 33, 64}, {10, 1000, 1024}, {2, 5001, 8192}}) {
    const LayerNormCase one =
        layerNormCase(numbers(rows * columns), numbers(columns), numbers(columns), 1e-5);
    const Numbers dy = numbers(rows * columns);
    const auto dyHere = DeviceTensor::matrix(device, element, rows, columns, dy, 1);
    const auto x = DeviceTensor::matrix(device, element, rows, columns, one.x);
    const auto gain = DeviceTensor::vector(device, element, one.gain);
    const auto mean = DeviceTensor::vector(device, f32, one.mean),
               scale = DeviceTensor::vector(device, f32, one.scale);
    const int64_t parts = (rows + rowsOfAProgram - 1) / rowsOfAProgram;
    const auto dx = empty(rows, columns, element, 3), gainParts = empty(parts, columns, f32),
               biasParts = empty(parts, columns, f32);
    run(layerNormGradient(element, width, rowsOfAProgram),
        {dyHere.ref(), x.ref(), gain.ref(), mean.ref(), scale.ref(), dx.ref(), gainParts.ref(),
         biasParts.ref()});
    const auto dGain = empty(columns, element), dBias = empty(columns, element);
    run(layerNormGradientSums(element), {gainParts.ref(), biasParts.ref(), dGain.ref(), dBias.ref()});

    Numbers wantX(rows * columns), wantGain(columns), wantBias(columns);
    for (int64_t i = 0, at = 0; i < rows; ++i, at += columns)
      examples::layerNormGradientRow(&dy[at], &one.x[at], one.gain.data(), columns, one.moments[i],
                                     &wantX[at], wantGain.data(), wantBias.data());
    expectClose(dGain, wantGain);
    expectClose(dBias, wantBias);
    EXPECT_LE(relativeError(dx.get(), wantX, norm(dy) * 0.1), element == f32 ? 1e-6 : 3e-3);
    EXPECT_TRUE(dx.gapsUntouched());
  }
}

/// m, n, k.
const std::array<int64_t, 3> kProducts[] = {{1, 1, 1}, {37, 131, 70}, {130, 200, 513}};

/// Σ_l a_il b_lj.
Numbers product(const Numbers &a, const Numbers &b, int64_t m, int64_t n, int64_t k) {
  Numbers c(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

TEST_P(Examples, Matmul) {
  for (auto [m, n, k] : kProducts) {
    const Numbers a = numbers(m * k), b = numbers(k * n);
    const auto da = DeviceTensor::matrix(device, element, m, k, a, 1);
    const auto db = DeviceTensor::matrix(device, element, k, n, b);
    const auto dc = empty(m, n, element, 7);
    run(matmul(element), {da.ref(), db.ref(), dc.ref()});
    expectClose(dc, product(a, b, m, n, k));
  }
}

// Of rows at multiples of 16 bytes, which Hopper copies by TMA and multiplies by wgmma.
TEST_P(Examples, MatmulOfAlignedMatrices) {
  CompileOptions options;
  options.alignedMatrices = true;
  const int64_t m = 130, n = 136, k = 88;
  const Numbers a = numbers(m * k), b = numbers(k * n);
  const auto da = DeviceTensor::matrix(device, element, m, k, a);
  const auto db = DeviceTensor::matrix(device, element, k, n, b);
  const auto dc = empty(m, n, element);
  run(matmul(element), {da.ref(), db.ref(), dc.ref()}, options);
  expectClose(dc, product(a, b, m, n, k));
}

TEST_P(Examples, MatmulBiasGelu) {
  for (auto [m, n, k] : kProducts) {
    const Numbers x = numbers(m * k), w = numbers(k * n), bias = numbers(n);
    const auto dx = DeviceTensor::matrix(device, element, m, k, x, 1);
    const auto dw = DeviceTensor::matrix(device, element, k, n, w);
    const auto dbias = DeviceTensor::vector(device, element, bias);
    const auto dy = empty(m, n, element, 7);
    run(matmulBiasGelu(element), {dx.ref(), dw.ref(), dbias.ref(), dy.ref()});
    Numbers want = product(x, w, m, n, k);
    for (int64_t i = 0; i < m * n; ++i) {
      const double t = want[i] + bias[i % n];
      want[i] = t / 2 * (1 + std::erf(t / std::sqrt(2)));
    }
    expectClose(dy, want);
  }
}

// Positions and rows that fit no block, of several heads.
TEST_P(Examples, Attention) {
  const int64_t heads = 2;
  for (auto [size, headSize, causal] : {std::tuple<int64_t, int64_t, bool>{1, 64, true},
                                        {150, 64, true},
                                        {isInterpreted(where) ? 70 : 203, 128, false},
                                        {64, 64, false}}) {
    const int64_t count = heads * size * headSize;
    const Numbers q = numbers(count), keys = numbers(count), v = numbers(count);
    const auto dq = DeviceTensor::matrix(device, element, heads * size, headSize, q);
    const auto dk = DeviceTensor::matrix(device, element, heads * size, headSize, keys, 8);
    const auto dv = DeviceTensor::matrix(device, element, heads * size, headSize, v, 1);
    const float scale = 1 / std::sqrt(float(headSize));
    Numbers want(count);
    for (int64_t i = 0; i < heads * size; ++i) {
      const int64_t head = i / size * size * headSize, seen = causal ? i % size + 1 : size;
      examples::attentionRow(&q[i * headSize], &keys[head], &v[head], seen, headSize, scale,
                             &want[i * headSize]);
    }
    for (const int64_t rows : {64, 128}) {
      const auto o = empty(heads * size, headSize, element, 3);
      run(rows == 64 ? attention(element, headSize, causal) : attention(element, headSize, causal, rows, 64),
          {dq.ref(), dk.ref(), dv.ref(), size, heads, scale, o.ref()});
      expectClose(o, want);
    }
  }
}

std::vector<std::string> places() {
  std::vector<std::string> places = testDevices();
  places.insert(places.end(), {"sm_80", "sm_90a"});
  return places;
}

INSTANTIATE_TEST_SUITE_P(
    All, Examples,
    testing::Combine(testing::ValuesIn(places()),
                     testing::Values(ElementType::f32, ElementType::bf16, ElementType::f16)),
    [](const auto &info) { return std::get<0>(info.param) + "_" + elementName(std::get<1>(info.param)); });

} // namespace
} // namespace tilewright::test
