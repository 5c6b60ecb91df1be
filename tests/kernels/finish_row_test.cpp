// What the kernel of the losses makes of rows of E: one shift where blocks had their own, and factors by
// which a row's probabilities add up as they should, however E was rounded.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "kernels/lce/forward_kernels.h"
#include "tests/support/device_tensor.h"
#include "tests/support/direct_launches.h"

namespace tilewright::test {
namespace {

using Numbers = std::vector<double>;
constexpr ElementType bf16 = ElementType::bf16, f32 = ElementType::f32, i32 = ElementType::i32;
constexpr lce::Block kBlock{4, 4};
constexpr int64_t kRows = 12, kClasses = 201, kBlocks = 51;
constexpr int64_t kRetried = 5; ///< a row whose shift was wrong; all rows of its block were made again

bool isMadeAgain(int64_t row) { return row / kBlock.rows == kRetried / kBlock.rows; }

/// Rows of logits, and what the product of logits leaves of them.
struct Made {
  Numbers logits = Numbers(kRows * kClasses), label = Numbers(kRows), shift = Numbers(kRows);
  Numbers e = Numbers(kRows * kClasses), sums = Numbers(kRows * kBlocks), tops = Numbers(kRows * kBlocks);
  Numbers total = Numbers(kRows);

  explicit Made(double deviation) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal(0, deviation);
    std::uniform_int_distribution<int> anyClass(0, kClasses - 1);
    for (double &logit : logits)
      logit = static_cast<float>(normal(random));
    for (int64_t i = 0; i < kRows; ++i) {
      label[i] = anyClass(random);
      if (i == kRetried) target(i) = -100;
      shift[i] = target(i);
      // What was known before some rows were made again; of the others it still holds.
      total[i] = lce::kUnitOfE * others(i, shift[i]);
      for (int64_t block = 0; block < kBlocks; ++block)
        make(i, block);
    }
  }

  double &target(int64_t row) { return logits[row * kClasses + static_cast<int64_t>(label[row])]; }
  bool isOther(int64_t row, int64_t j) const { return j != static_cast<int64_t>(label[row]); }
  /// Σ exp(z - a) of the classes but the label.
  double others(int64_t row, double a) const {
    double sum = 0;
    for (int64_t j = 0; j < kClasses; ++j)
      if (isOther(row, j)) sum += std::exp(logits[row * kClasses + j] - a);
    return sum;
  }

private:
  void make(int64_t row, int64_t block) {
    const int64_t begin = block * kBlock.columns, end = std::min(begin + kBlock.columns, kClasses);
    double &top = tops[row * kBlocks + block];
    top = lce::kLeastShift;
    for (int64_t j = begin; j < end; ++j)
      if (isOther(row, j)) top = std::max(top, logits[row * kClasses + j]);
    const double from = isMadeAgain(row) ? top : shift[row];
    for (int64_t j = begin; j < end; ++j) {
      if (!isOther(row, j)) continue;
      const double exact = lce::kUnitOfE * std::exp(logits[row * kClasses + j] - from);
      sums[row * kBlocks + block] += exact;
      e[row * kClasses + j] = rounded(exact, bf16);
    }
  }
};

class FinishRow : public testing::TestWithParam<std::string> {
protected:
  const DirectLaunches launches{GetParam()};
  Device &device = launches.device();
  DeviceTensor e, shift, loss, lse, scale, oneHot;

  DeviceTensor vector(ElementType element, const Numbers &values) {
    return DeviceTensor::vector(device, element, values);
  }
  DeviceTensor result() { return DeviceTensor::vector(device, f32, kRows); }
  DeviceTensor blocks(const Numbers &values) {
    return DeviceTensor::matrix(device, f32, kRows, kBlocks, values);
  }
  DeviceTensor rowNumbers() {
    Numbers numbers(kRows);
    std::iota(numbers.begin(), numbers.end(), 0);
    return vector(i32, numbers);
  }

  /// `hasTotals`: of rows that were not made again, the sums of all blocks are known.
  void combine(const Made &made, bool hasTotals) {
    lce::CombineSpec spec{lce::CombineSpec::Gradients{bf16, bf16, {}}};
    spec.gradients->scalesRows = false;
    spec.finish = {kBlock, lce::OwnShifts::retried}, spec.hasTotals = hasTotals;
    e = DeviceTensor::matrix(device, bf16, kRows, kClasses, made.e), shift = vector(f32, made.shift);
    loss = result(), lse = result(), scale = result(), oneHot = result();
    const DeviceTensor total = vector(f32, made.total), sums = blocks(made.sums), tops = blocks(made.tops);
    const DeviceTensor range = vector(i32, {kRetried, kRetried + 1}), target = vector(f32, made.shift);
    const DeviceTensor row = rowNumbers(), label = vector(i32, made.label);
    const DeviceTensor valid = vector(i32, {static_cast<double>(kRows)});
    std::vector<KernelArgument> arguments = {total.ref(), e.ref(), sums.ref(), tops.ref(), range.ref()};
    if (!hasTotals) arguments = {sums.ref(), e.ref(), tops.ref(), range.ref()};
    for (const TensorRef &of : {target.ref(), shift.ref(), row.ref(), label.ref(), loss.ref(), lse.ref(),
                                valid.ref(), scale.ref(), oneHot.ref()})
      arguments.emplace_back(of);
    launches.launch(lce::combine(spec), arguments);
  }
};

TEST_P(FinishRow, MakesOneShiftOfThoseOfBlocks) {
  for (const bool hasTotals : {true, false}) {
    Made made(3);
    combine(made, hasTotals);
    const Numbers got = e.get(), shifts = shift.get(), losses = loss.get();
    for (int64_t i = 0; i < kRows; ++i) {
      SCOPED_TRACE(testing::Message() << "row " << i << (hasTotals ? ", with totals" : ""));
      const double *row = &got[i * kClasses], *before = &made.e[i * kClasses];
      const double target = made.target(i), mass = made.others(i, target);
      EXPECT_NEAR(losses[i], std::log1p(mass), 1e-6 * std::log1p(mass));
      if (!isMadeAgain(i)) {
        EXPECT_EQ(Numbers(row, row + kClasses), Numbers(before, before + kClasses));
        EXPECT_EQ(shifts[i], made.shift[i]);
        continue;
      }
      const double largest =
          *std::max_element(&made.logits[i * kClasses], &made.logits[i * kClasses] + kClasses);
      EXPECT_EQ(shifts[i], largest);
      for (int64_t j = 0; j < kClasses; ++j) {
        const double want =
            made.isOther(i, j) ? lce::kUnitOfE * std::exp(made.logits[i * kClasses + j] - largest) : 0;
        EXPECT_NEAR(row[j], want, 0x1.1p-7 * want) << j; // rounded twice
      }
    }
  }
}

// Of half a row's mass, or all of it, bf16 may lose or add 2^-8; of light blocks hardly anything. With a
// deviation of 8 the mass is in a few blocks, without any in all of them.
TEST_P(FinishRow, UndoesWhatRoundingDidToTheMassOfARow) {
  for (const double deviation : {0.0, 3.0, 8.0}) {
    Made made(deviation);
    combine(made, false);
    const Numbers got = e.get(), scales = scale.get(), targets = oneHot.get();
    for (int64_t i = 0; i < kRows; ++i) {
      double stored = 0;
      for (int64_t j = 0; j < kClasses; ++j)
        stored += got[i * kClasses + j];
      const double mass = made.others(i, made.target(i)), other = mass / (1 + mass);
      EXPECT_NEAR(scales[i] * stored, other, 0x1p-14 * other) << i << ", deviation " << deviation;
      EXPECT_NEAR(targets[i], -other, 1e-6 * other) << i;
    }
  }
}

TEST_P(FinishRow, JoinsTheSumsOfALossAlone) {
  Made made(3);
  lce::CombineSpec spec;
  spec.finish = {kBlock, lce::OwnShifts::retried, false};
  for (int64_t i = 0; i < kRows * kBlocks; ++i)
    if (!isMadeAgain(i / kBlocks)) made.tops[i] = std::numeric_limits<double>::quiet_NaN(); // nobody wrote it
  const DeviceTensor sums = blocks(made.sums), tops = blocks(made.tops);
  const DeviceTensor range = vector(i32, {kRetried, kRetried + 1}), label = vector(i32, made.label);
  const DeviceTensor row = rowNumbers(), target = vector(f32, made.shift);
  shift = vector(f32, made.shift), loss = result(), lse = result();
  launches.launch(lce::combine(spec), {sums.ref(), tops.ref(), range.ref(), target.ref(), shift.ref(),
                                       row.ref(), label.ref(), loss.ref(), lse.ref()});
  const Numbers losses = loss.get();
  for (int64_t i = 0; i < kRows; ++i) {
    const double mass = made.others(i, made.target(i));
    EXPECT_NEAR(losses[i], std::log1p(mass), 1e-6 * std::log1p(mass)) << i;
  }
}

/// What the product of logits leaves of rows of f16, of which every other one's shift is too small for some
/// of its blocks.
struct Raised {
  Numbers shift = Numbers(kRows), sums = Numbers(kRows * kBlocks), tops = Numbers(kRows * kBlocks);

  explicit Raised(const Made &made) {
    for (int64_t i = 0; i < kRows; ++i) {
      const double largest = *std::max_element(&made.tops[i * kBlocks], &made.tops[i * kBlocks] + kBlocks);
      shift[i] = static_cast<float>(largest - (i % 2 ? 1 : lce::kMostAboveShift + 1));
      for (int64_t block = 0; block < kBlocks; ++block) {
        const double top = made.tops[i * kBlocks + block];
        double &from = tops[i * kBlocks + block];
        from = top > shift[i] + lce::kMostAboveShift ? top : shift[i];
        const int64_t begin = block * kBlock.columns, end = std::min(begin + kBlock.columns, kClasses);
        for (int64_t j = begin; j < end; ++j)
          if (made.isOther(i, j))
            sums[i * kBlocks + block] += lce::kUnitOfRaised * std::exp(made.logits[i * kClasses + j] - from);
      }
    }
  }
};

// E of a row whose blocks have one shift stays what it is, and its scale undoes E's unit; else E is yet to
// become the gradient in the row's unit.
TEST_P(FinishRow, JoinsBlocksWhoseShiftsMayBeRaised) {
  constexpr ElementType f16 = ElementType::f16;
  Made made(3);
  const Raised raised(made);
  lce::CombineSpec spec{lce::CombineSpec::Gradients{f16, f16, {}, lce::FixUp::rescale, false}};
  spec.finish = {kBlock, lce::OwnShifts::raised, false};
  const DeviceTensor sums = blocks(raised.sums), tops = blocks(raised.tops);
  const DeviceTensor row = rowNumbers(), label = vector(i32, made.label), target = vector(f32, made.shift);
  const DeviceTensor valid = vector(i32, {static_cast<double>(kRows)}), unit = result(), factor = result();
  shift = vector(f32, raised.shift), loss = result(), lse = result(), scale = result(), oneHot = result();
  launches.launch(lce::combine(spec),
                  {sums.ref(), tops.ref(), target.ref(), shift.ref(), row.ref(), label.ref(), loss.ref(),
                   lse.ref(), valid.ref(), unit.ref(), scale.ref(), oneHot.ref(), factor.ref()});
  const Numbers shifts = shift.get(), losses = loss.get(), units = unit.get(), scales = scale.get(),
                targets = oneHot.get(), factors = factor.get();
  for (int64_t i = 0; i < kRows; ++i) {
    SCOPED_TRACE(testing::Message() << "row " << i);
    const double mass = made.others(i, made.target(i)), other = mass / (1 + mass);
    const double *from = &raised.tops[i * kBlocks];
    EXPECT_EQ(shifts[i], *std::max_element(from, from + kBlocks));
    EXPECT_NEAR(losses[i], std::log1p(mass), 1e-6 * std::log1p(mass));
    EXPECT_NEAR(targets[i], -other, 1e-6 * other);
    const double unitOfE = i % 2 ? lce::kUnitOfE / lce::kUnitOfRaised : 0;
    EXPECT_EQ(units[i], unitOfE);
    const double e = i % 2 ? lce::kUnitOfRaised : lce::kUnitOfE * factors[i];
    EXPECT_NEAR(scales[i] * e * made.others(i, shifts[i]), other, 1e-5 * other);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FinishRow, testing::ValuesIn(directDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
