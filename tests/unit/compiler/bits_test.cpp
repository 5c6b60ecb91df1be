// Operations on bits, and random numbers, by what each target's code computes: the CPU's by running it, GPUs'
// in an interpreter.

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "compiler/dsl/random.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/ptx_interpreter.h"

namespace tilewright {
namespace {

constexpr ElementType f32 = ElementType::f32, i32 = ElementType::i32, i64 = ElementType::i64;

class Bits : public testing::TestWithParam<const char *> {
protected:
  void expectRuns(const Kernel &kernel, ArgumentSpan arguments) {
    const Status status = run(kernel, arguments);
    ASSERT_TRUE(status.ok()) << status.message();
  }

private:
  Status run(const Kernel &kernel, ArgumentSpan arguments) {
    const Target target = *parseTarget(GetParam());
    TW_ASSIGN_OR_RETURN(const Artifact artifact, compile(kernel, target, {}));
    if (target.kind == TargetKind::nvptx) return test::interpretPtx(artifact, arguments);
    CpuDevice device;
    TW_ASSIGN_OR_RETURN(const auto loaded, device.load(artifact));
    return device.launch(*loaded, arguments, nullptr);
  }
};

template <class T> TensorRef vectorOf(std::vector<T> &values, ElementType element) {
  return TensorRef::vector(values.data(), element, int64_t(values.size()));
}

/// Numbers of all sizes and signs, and beside each another.
template <class T> std::pair<std::vector<T>, std::vector<T>> numbers() {
  std::vector<T> a = {0, 1, T(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()}, b;
  for (uint64_t x = 88172645463325252; a.size() < 100;) { // Marsaglia's xorshift
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    a.push_back(T(x >> (a.size() % 50)));
  }
  for (size_t i = 0; i < a.size(); ++i)
    b.push_back(a[(i * 37 + 2) % a.size()]);
  return {a, b};
}

template <class T> struct Operation {
  const char *name;
  std::function<Tile(const Tile &, const Tile &)> tile;
  std::function<T(T, T)> number;
};

template <class T> std::vector<Operation<T>> operations() {
  using U = std::make_unsigned_t<T>;
  constexpr U low = sizeof(T) * 8 - 1;
  return {
      {"and", [](auto a, auto b) { return a & b; }, [](T a, T b) { return T(a & b); }},
      {"or", [](auto a, auto b) { return a | b; }, [](T a, T b) { return T(a | b); }},
      {"xor", [](auto a, auto b) { return a ^ b; }, [](T a, T b) { return T(a ^ b); }},
      {"left", [](auto a, auto b) { return a << b; }, [](T a, T b) { return T(U(a) << (U(b) & low)); }},
      {"right", [](auto a, auto b) { return a >> b; }, [](T a, T b) { return T(a >> (U(b) & low)); }},
      {"logical", [](auto a, auto b) { return shiftRightLogical(a, b); },
       [](T a, T b) { return T(U(a) >> (U(b) & low)); }},
      {"left_by_3", [](auto a, auto) { return a << 3; }, [](T a, T) { return T(U(a) << 3); }},
      {"right_by_most", [=](auto a, auto) { return a >> int64_t(low); },
       [](T a, T) { return T(a < 0 ? -1 : 0); }},
      {"logical_by_9", [](auto a, auto) { return shiftRightLogical(a, 9); },
       [](T a, T) { return T(U(a) >> 9); }},
      {"constants", [](auto a, auto) { return ((a & 0xFFFF0000) | 5) ^ -2; },
       [](T a, T) { return T((a & T(0xFFFF0000)) | 5) ^ T(-2); }},
      {"rotated", [=](auto a, auto) { return (a << 13) | shiftRightLogical(a, int64_t(low) - 12); },
       [](T a, T) { return T(U(a) << 13 | U(a) >> (low - 12)); }},
  };
}

/// Each of them in a kernel of its own, which `run` launches.
template <class T, class Run>
void checkOperations(Run run, ElementType element, const std::vector<Operation<T>> &operations) {
  auto [a, b] = numbers<T>();
  for (const Operation<T> &operation : operations) {
    const Kernel kernel = defineKernel(operation.name, elementName(element), [&](KernelBuilder &k) {
      const View x = k.input("x", element, 1), y = k.input("y", element, 1), z = k.output("z", element, 1);
      const Range block = k.blockColumns(z.dim(0), 64);
      k.store(z, block, operation.tile(x[block], y[block]));
    });
    std::vector<T> found(a.size()), expected;
    run(kernel, {vectorOf(a, element), vectorOf(b, element), vectorOf(found, element)});
    for (size_t i = 0; i < a.size(); ++i)
      expected.push_back(operation.number(a[i], b[i]));
    EXPECT_EQ(found, expected) << operation.name;
  }
}

TEST_P(Bits, OperationsOfI32) {
  auto all = operations<int32_t>();
  all.push_back({"high", [](auto a, auto b) { return mulHigh(a, b); },
                 [](int32_t a, int32_t b) { return int32_t(uint64_t(uint32_t(a)) * uint32_t(b) >> 32); }});
  all.push_back({"high_of_constant", [](auto a, auto) { return mulHigh(a, 0xD2511F53); },
                 [](int32_t a, int32_t) { return int32_t(uint64_t(uint32_t(a)) * 0xD2511F53 >> 32); }});
  checkOperations<int32_t>(
      [&](const Kernel &kernel, ArgumentSpan arguments) { expectRuns(kernel, arguments); }, i32, all);
}

TEST_P(Bits, OperationsOfI64) {
  checkOperations<int64_t>(
      [&](const Kernel &kernel, ArgumentSpan arguments) { expectRuns(kernel, arguments); }, i64,
      operations<int64_t>());
}

TEST_P(Bits, OfTruthValues) {
  const Kernel kernel = defineKernel("exclusive", "", [](KernelBuilder &k) {
    const View x = k.input("x", i32, 1), y = k.output("y", i32, 1);
    const Range block = k.blockColumns(y.dim(0), 64);
    k.store(y, block, cast((x[block] > 1) ^ (x[block] > 2), i32));
  });
  std::vector<int32_t> x = {0, 1, 2, 3, 4}, y(5);
  expectRuns(kernel, {vectorOf(x, i32), vectorOf(y, i32)});
  EXPECT_THAT(y, testing::ElementsAre(0, 0, 1, 0, 0));
}

// Numbers that Random123's authors publish with it (kat_vectors, philox4x32 10).
TEST_P(Bits, PhiloxGivesTheWordsThatItsAuthorsPublish) {
  const Kernel kernel = defineKernel("philox", "", [](KernelBuilder &k) {
    const View counter = k.input("counter", i32, 2), key = k.input("key", i32, 2), y = k.output("y", i32, 2);
    const Range rows = k.blockRows(y.dim(0), 2);
    const auto word = [&](int i) { return k.range(Axis::columns, k.constant(i), 1); };
    const auto of = [&](const View &view, int i) { return view.at(rows, word(i)); };
    const FourWords x =
        philox({of(counter, 0), of(counter, 1), of(counter, 2), of(counter, 3)}, {of(key, 0), of(key, 1)});
    for (int i = 0; i < 4; ++i)
      k.store(y, rows, word(i), x[i]);
  });
  std::vector<uint32_t> counter(12, 0), key(6, 0), found(12);
  std::fill_n(counter.begin() + 4, 4, 0xffffffff), std::fill_n(key.begin() + 2, 2, 0xffffffff);
  const std::vector<uint32_t> pi = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0};
  std::copy_n(pi.begin(), 4, counter.begin() + 8), std::copy_n(pi.begin() + 4, 2, key.begin() + 4);
  const std::vector<uint32_t> expected = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8,
                                          0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd,
                                          0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  const auto matrix = [](auto &v) { return TensorRef::matrix(v.data(), i32, 3, int64_t(v.size()) / 3); };
  expectRuns(kernel, {matrix(counter), matrix(key), matrix(found)});
  EXPECT_EQ(found, expected);
}

// The mean of n such numbers has a standard deviation of √(1/12n), the share of a tenth of them one of
// √(0.09/n).
TEST_P(Bits, UniformNumbersLieEvenlyBetweenZeroAndOne) {
  const int64_t n = 4096;
  const Kernel kernel = defineKernel("uniform", "", [](KernelBuilder &k) {
    const Index seed = k.index("seed");
    const View y = k.output("y", f32, 2);
    const auto [rows, columns] = k.block(y.dim(0), y.dim(1), 1, 1024);
    k.store(y, rows, columns, uniform(randomBits(seed, columns.positions())[0]));
  });
  const auto draw = [&](int64_t seed) {
    std::vector<float> y(n, -1);
    expectRuns(kernel, {seed, TensorRef::matrix(y.data(), f32, 1, n)});
    return y;
  };
  const std::vector<float> y = draw(12345);
  double sum = 0;
  std::array<int, 10> tenths{};
  for (float value : y) {
    ASSERT_TRUE(value >= 0 && value < 1) << value;
    sum += value, ++tenths[size_t(value * 10)];
  }
  EXPECT_NEAR(sum / n, 0.5, 4 * std::sqrt(1.0 / 12 / n));
  for (int count : tenths)
    EXPECT_NEAR(double(count) / n, 0.1, 4 * std::sqrt(0.09 / n));
  EXPECT_EQ(draw(12345), y);
  EXPECT_NE(draw(12345 + (int64_t(1) << 32)), y); // all 64 bits of the seed count
}

INSTANTIATE_TEST_SUITE_P(All, Bits, testing::Values("cpu", "sm_80", "sm_90a"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace tilewright
