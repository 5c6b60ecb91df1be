// dX by tensor cores that take W from the left and E from the right: the same numbers, bit by bit.

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/lce/gradient_kernels.h"
#include "tests/support/device_tensor.h"
#include "tests/support/direct_launches.h"
#include "tests/support/ptx_assembler.h"

namespace tilewright::test {
namespace {

using Numbers = std::vector<double>;
constexpr ElementType bf16 = ElementType::bf16, f32 = ElementType::f32, i32 = ElementType::i32;
constexpr lce::Block kBlocks[] = {{256, 192}, {128, 256}, {192, 256}, {256, 128}};
constexpr int64_t kRows = 300, kValid = 290, kHidden = 200, kClasses = 136; ///< ragged ends in two tiles each

/// A chunk's E and what dX takes beside it. Rows go to where they came from, the last first.
struct Chunk {
  Numbers e, w, label, scale, oneHot, row;

  Chunk() {
    std::mt19937 random(11);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < kRows * kClasses; ++i)
      e.push_back(rounded(std::exp(normal(random)) / 256, bf16));
    for (int64_t i = 0; i < kClasses * kHidden; ++i)
      w.push_back(rounded(normal(random), bf16));
    for (int64_t i = 0; i < kRows; ++i) {
      const bool isValid = i < kValid;
      label.push_back(isValid ? static_cast<double>(random() % kClasses) : -1);
      row.push_back(isValid ? static_cast<double>(kRows - 1 - i) : -1);
      scale.push_back(0.5 + i % 16 / 16.0), oneHot.push_back(i % 32 / 16.0 - 1);
    }
  }

  double dx(int64_t i, int64_t h) const {
    double product = 0;
    for (int64_t j = 0; j < kClasses; ++j)
      product += e[i * kClasses + j] * w[j * kHidden + h];
    return scale[i] * product + oneHot[i] * w[static_cast<int64_t>(label[i]) * kHidden + h];
  }
};

CompileOptions optionsOf(bool swaps) {
  CompileOptions options;
  options.alignedMatrices = true;
  options.schedule.roles = Schedule::WarpRoles::cooperative;
  options.schedule.clusterCtas = 2, options.schedule.swapsOperands = swaps;
  return options;
}

/// What dX and its parts take of a chunk, in the interpreter's memory.
struct Operands {
  const DirectLaunches launches{"sm_90a"};
  Device &device = launches.device();
  const DeviceTensor e, w, row;

  explicit Operands(const Chunk &chunk)
      : e(DeviceTensor::matrix(device, bf16, kRows, kClasses, chunk.e)),
        w(DeviceTensor::matrix(device, bf16, kClasses, kHidden, chunk.w)),
        row(DeviceTensor::vector(device, i32, chunk.row)) {}
};

DeviceTensor dxOf(const Chunk &chunk, bool swaps, ElementType output, const lce::Block &block) {
  const Operands o(chunk);
  const DeviceTensor label = DeviceTensor::vector(o.device, i32, chunk.label),
                     scale = DeviceTensor::vector(o.device, f32, chunk.scale),
                     oneHot = DeviceTensor::vector(o.device, f32, chunk.oneHot);
  DeviceTensor dx = DeviceTensor::matrix(o.device, output, kRows, kHidden);
  dx.poison();
  o.launches.launch(lce::dHidden({bf16, bf16, output, block}),
                    {o.e.ref(), o.w.ref(), label.ref(), scale.ref(), oneHot.ref(), o.row.ref(), dx.ref()},
                    optionsOf(swaps));
  return dx;
}

TEST(SwappedOperands, GiveTheSameGradient) {
  const Chunk chunk;
  for (const ElementType output : {bf16, f32})
    for (const lce::Block &block : kBlocks) {
      SCOPED_TRACE(block.str() + " " + elementName(output));
      const DeviceTensor swapped = dxOf(chunk, true, output, block);
      EXPECT_EQ(swapped.bytes(), dxOf(chunk, false, output, block).bytes());
      const Numbers got = swapped.get();
      const double tolerance = output == bf16 ? 0x1p-8 : 1e-5;
      for (int64_t i = 0; i < kValid; ++i)
        for (int64_t h = 0; h < kHidden; ++h) {
          const double want = chunk.dx(i, h);
          ASSERT_NEAR(got[(kRows - 1 - i) * kHidden + h], want, tolerance * std::fabs(want) + 1e-5)
              << i << " " << h;
        }
      for (int64_t to = 0; to < kRows - kValid; ++to)
        ASSERT_TRUE(std::isnan(got[to * kHidden])) << "row " << to << " is nobody's";
    }
}

/// Products of three parts of the classes.
DeviceTensor partsOf(const Chunk &chunk, bool swaps, const lce::Block &block) {
  constexpr int64_t kParts = 3;
  const Operands o(chunk);
  const int64_t rows = (kRows + block.rows - 1) / block.rows * block.rows;
  DeviceTensor products = DeviceTensor::matrix(o.device, f32, kParts * rows, kHidden);
  products.poison();
  o.launches.launch(lce::dHiddenParts({bf16, bf16, block, kParts}),
                    {o.e.ref(), o.w.ref(), o.row.ref(), products.ref()}, optionsOf(swaps));
  return products;
}

TEST(SwappedOperands, GiveTheSameParts) {
  const Chunk chunk;
  for (const lce::Block &block : kBlocks)
    EXPECT_EQ(partsOf(chunk, true, block).bytes(), partsOf(chunk, false, block).bytes()) << block.str();
}

TEST(SwappedOperands, AssembleWithoutSpills) {
  const std::string assembler = findPtxAssembler();
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
  for (const lce::Block &block : kBlocks)
    for (const Kernel &kernel :
         {lce::dHidden({bf16, bf16, bf16, block}), lce::dHidden({bf16, bf16, f32, block}),
          lce::dHiddenParts({bf16, bf16, block, 11})}) {
      const auto artifact = compile(kernel, *parseTarget("sm_90a"), optionsOf(true), {});
      ASSERT_TRUE(artifact.ok()) << artifact.status().message();
      EXPECT_EQ(faultsOfAssembled(assembler, artifact->assembly, "sm_90a"), "") << block.str();
    }
}

} // namespace
} // namespace tilewright::test
