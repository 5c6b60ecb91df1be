// Sorting a chunk's rows by label, in blocks that are merged or by counting, and the sums over its runs:
// against a plain sort.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "kernels/lce/gradient_kernels.h"
#include "kernels/lce/label_sort.h"
#include "tests/support/device_tensor.h"
#include "tests/support/direct_launches.h"

namespace tilewright::test {
namespace {

using Labels = std::vector<int64_t>;
constexpr ElementType i32 = ElementType::i32, f32 = ElementType::f32;

struct Sorted {
  Labels order, run, slot;
};

Sorted sortedByHand(const Labels &label, int64_t classes) {
  Sorted result{Labels(label.size()), Labels(label.size(), 0), Labels(classes, -1)};
  std::iota(result.order.begin(), result.order.end(), 0);
  std::stable_sort(result.order.begin(), result.order.end(),
                   [&](int64_t a, int64_t b) { return label[a] < label[b]; });
  for (std::size_t s = 0, head = 0; s < label.size(); ++s) {
    const int64_t mine = label[result.order[s]];
    if (s == 0 || label[result.order[s - 1]] != mine) head = s;
    if (mine < 0) continue;
    ++result.run[head];
    result.slot[mine] = static_cast<int64_t>(head);
  }
  return result;
}

/// A chunk's rows in the memory of a device.
struct SortMemory {
  DeviceTensor label, order, run, slot, blockLabels, blockRows;
  SortMemory(Device &device, const Labels &labels, int64_t classes) {
    const auto vector = [&](int64_t size) { return DeviceTensor::vector(device, i32, size); };
    const auto rows = static_cast<int64_t>(labels.size());
    label = DeviceTensor::vector(device, i32, labels);
    order = vector(rows), run = vector(rows), slot = vector(classes);
    blockLabels = vector(rows), blockRows = vector(rows);
    for (DeviceTensor *tensor : {&order, &run, &slot, &blockLabels, &blockRows})
      tensor->poison(); // slot is -1 then
  }
};

Labels integers(const DeviceTensor &tensor) {
  const std::vector<double> values = tensor.get();
  return Labels(values.begin(), values.end());
}

class LabelSort : public testing::TestWithParam<std::string> {
protected:
  const DirectLaunches launches{GetParam()};
  Device &device = launches.device();
  std::mt19937 random{5};
  bool isFast() const { return GetParam() != "sm_80"; }

  Labels labels(int64_t rows, int64_t classes, double ignored = 0.1) {
    std::uniform_int_distribution<int64_t> label(0, classes - 1);
    std::bernoulli_distribution isIgnored(ignored);
    Labels result(rows);
    for (int64_t &y : result)
      y = isIgnored(random) ? -1 : label(random);
    return result;
  }

  void count(const SortMemory &m) {
    launches.launch(lce::countLabels(), {m.label.ref(), m.order.ref(), m.run.ref(), m.slot.ref()});
  }

  void sort(const SortMemory &m) {
    const TargetKind target = launches.target();
    const std::vector<int64_t> merges = lce::planMerges(m.label.ref().sizes[0]);
    const DeviceTensor *labels[] = {&m.run, &m.blockLabels}, *rows[] = {&m.order, &m.blockRows};
    std::size_t pair = merges.size() % 2; // the last merge reads the second one
    launches.launch(lce::sortBlocks(), {m.label.ref(), labels[pair]->ref(), rows[pair]->ref()},
                    lce::sortBlocksOptions(target));
    for (std::size_t i = 0; i < merges.size(); ++i, pair = 1 - pair) {
      const bool isLast = i + 1 == merges.size();
      std::vector<KernelArgument> arguments = {labels[pair]->ref(), rows[pair]->ref()};
      if (isLast)
        arguments.insert(arguments.end(), {m.order.ref(), m.run.ref(), m.slot.ref()});
      else
        arguments.insert(arguments.end(), {labels[1 - pair]->ref(), rows[1 - pair]->ref()});
      launches.launch(lce::mergeBlocks({merges[i], isLast}), arguments, lce::mergeBlocksOptions(target));
    }
  }

  void check(const Labels &label, int64_t classes) {
    SCOPED_TRACE(testing::Message() << label.size() << " rows of " << classes << " classes");
    const Sorted want = sortedByHand(label, classes);
    for (const bool counts : {false, true}) {
      const SortMemory memory(device, label, classes);
      counts ? count(memory) : sort(memory);
      EXPECT_EQ(integers(memory.order), want.order) << (counts ? "counted" : "merged");
      EXPECT_EQ(integers(memory.run), want.run) << (counts ? "counted" : "merged");
      EXPECT_EQ(integers(memory.slot), want.slot) << (counts ? "counted" : "merged");
    }
  }

  /// As `rankLabels` gives it.
  Sorted ranked(const Labels &label, int64_t classes) {
    const SortMemory m(device, label, classes);
    launches.launch(lce::rankLabels(), {m.label.ref(), m.order.ref(), m.run.ref(), m.slot.ref()},
                    lce::rankLabelsOptions(launches.target()));
    return {integers(m.order), integers(m.run), integers(m.slot)};
  }
};

TEST_P(LabelSort, MatchesAPlainSort) {
  for (const int64_t classes : {1, 2, 15, 16, 64, 127, 128, 1000, 16384, 128256})
    check(labels(isFast() ? 4321 : 531, classes), classes);
}

// Around a step, a block, as many blocks as one merge takes, and one more.
TEST_P(LabelSort, OfAnyNumberOfRows) {
  const std::vector<int64_t> few = {1, 2, 31, 32, 33, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 4097};
  const std::vector<int64_t> more = {9217, 16383, 16384, 16385, 32767, 32768, 32769, 65537, 70000};
  for (const int64_t rows : few)
    check(labels(rows, 1000), 1000);
  for (const int64_t rows : more)
    if (isFast()) check(labels(rows, 300), 300);
}

TEST_P(LabelSort, OfLabelsThatAreAllAlike) {
  for (const int64_t rows : {700, 20000})
    if (rows == 700 || isFast())
      for (const int64_t label : {-1, 0, 63, 999})
        check(Labels(rows, label), 1000);
}

TEST_P(LabelSort, MatchesAllPairs) {
  for (const int64_t classes : {3, 500}) {
    const Labels label = labels(700, classes, 0.3);
    const Sorted want = sortedByHand(label, classes), got = ranked(label, classes);
    EXPECT_EQ(got.order, want.order);
    EXPECT_EQ(got.run, want.run);
    EXPECT_EQ(got.slot, want.slot);
    check(label, classes);
  }
}

TEST_P(LabelSort, OfAMillionRows) {
  if (!isFast()) GTEST_SKIP() << "the interpreter is slow";
  for (const int64_t classes : {64, 128256})
    check(labels(int64_t(1) << 20, classes), classes);
}

// Time would be 16 times as much if all pairs were compared.
TEST_P(LabelSort, TakesTimeInProportionToTheRows) {
  if (GetParam() != "cpu") GTEST_SKIP() << "measures the time of this processor";
  const auto seconds = [&](int64_t rows, const auto &sortRows) {
    double best = 1e9;
    for (int i = 0; i < 4; ++i) {
      const SortMemory memory(device, labels(rows, 1000), 1000);
      const std::clock_t begin = std::clock(); // of all threads, so that other work does not count
      sortRows(memory);
      best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const auto counts = [&](const SortMemory &memory) { count(memory); };
  const auto merges = [&](const SortMemory &memory) { sort(memory); };
  EXPECT_LT(seconds(int64_t(1) << 20, counts) / seconds(int64_t(1) << 18, counts), 8);
  EXPECT_LT(seconds(int64_t(1) << 18, merges) / seconds(int64_t(1) << 16, merges), 8);
}

TEST(LabelSortPlan, HasTheFewestMerges) {
  using Merges = std::vector<int64_t>;
  EXPECT_EQ(lce::planMerges(0), (Merges{1024}));
  EXPECT_EQ(lce::planMerges(32768), (Merges{1024}));
  EXPECT_EQ(lce::planMerges(32769), (Merges{1024, 32768}));
  EXPECT_EQ(lce::planMerges(1 << 20), (Merges{1024, 32768}));
  EXPECT_EQ(lce::planMerges((1 << 20) + 1), (Merges{1024, 32768, 1 << 20}));
}

INSTANTIATE_TEST_SUITE_P(Devices, LabelSort, testing::ValuesIn(directDevices()),
                         [](const auto &info) { return info.param; });

// ---- sums over runs ----

/// A sorted chunk of rows of X, which are every other row of all.
struct RunCase {
  int64_t rows, hidden, classes;
};

class RunSums : public LabelSort {
protected:
  std::vector<double> numbers(int64_t count) {
    std::normal_distribution<double> normal;
    std::vector<double> values(count);
    for (double &value : values)
      value = rounded(normal(random), f32);
    return values;
  }

  static std::vector<double> sumsByHand(const Labels &label, const std::vector<double> &x,
                                        const std::vector<double> &oneHot, const RunCase &of) {
    std::vector<double> sums(of.classes * of.hidden, 0);
    for (std::size_t i = 0; i < label.size(); ++i)
      for (int64_t h = 0; label[i] >= 0 && h < of.hidden; ++h)
        sums[label[i] * of.hidden + h] += oneHot[i] * x[2 * i * of.hidden + h];
    return sums;
  }

  void check(const Labels &label, const RunCase &of, int64_t columns) {
    SCOPED_TRACE(testing::Message() << of.rows << " rows of " << of.classes << " classes, H " << of.hidden);
    const SortMemory m(device, label, of.classes);
    sort(m);
    std::vector<double> x = numbers(2 * of.rows * of.hidden), oneHot = numbers(of.rows);
    Labels row(of.rows);
    for (int64_t i = 0; i < of.rows; ++i)
      row[i] = label[i] < 0 ? -1 : 2 * i;
    const std::vector<double> want = sumsByHand(label, x, oneHot, of);
    // Rows that are in no run, and gaps, must not matter.
    for (int64_t i = 0; i < of.hidden; ++i)
      x[of.hidden + i] = NAN;
    const auto x_ = DeviceTensor::matrix(device, f32, 2 * of.rows, of.hidden, x, 3);
    const auto row_ = DeviceTensor::vector(device, i32, row),
               oneHot_ = DeviceTensor::vector(device, f32, oneHot);
    const int64_t pieceCount = (of.rows + lce::kRunPiece - 1) / lce::kRunPiece;
    auto pieces = DeviceTensor::matrix(device, f32, pieceCount, of.hidden);
    pieces.poison();
    constexpr double kGain = 0.3;
    const auto gain = DeviceTensor::vector(device, f32, std::vector<double>{kGain});
    launches.launch(lce::oneHotPieces(f32, columns),
                    {x_.ref(), row_.ref(), oneHot_.ref(), m.label.ref(), m.order.ref(), m.run.ref(),
                     m.slot.ref(), pieces.ref()},
                    lce::oneHotSumOptions());
    const Labels slot = integers(m.slot);
    for (const lce::OneHotPlace place : {lce::OneHotPlace::label, lce::OneHotPlace::slot})
      for (const int64_t positions : {1, 8})
        for (const auto &[ofPieces, overGain] : {std::pair{false, false}, {true, false}, {true, true}}) {
          const bool ofClasses = place == lce::OneHotPlace::label;
          const int64_t first = ofClasses && positions == 8 ? of.classes / 2 : 0; // of a slice of the classes
          auto u = DeviceTensor::matrix(device, f32, ofClasses ? of.classes - first : of.rows, of.hidden);
          u.poison();
          std::vector<KernelArgument> arguments = {x_.ref(), row_.ref(), oneHot_.ref(), m.order.ref(),
                                                   m.run.ref()};
          if (ofClasses) arguments.insert(arguments.end(), {m.label.ref(), first});
          if (ofPieces) arguments.push_back(pieces.ref());
          if (overGain) arguments.push_back(gain.ref());
          arguments.push_back(u.ref());
          lce::OneHotSumSpec spec{f32, columns, positions, place};
          spec.ofPieces = ofPieces, spec.gain = overGain ? lce::Gain::given : lce::Gain::none;
          launches.launch(lce::oneHotSum(spec), arguments, lce::oneHotSumOptions());
          std::vector<double> got(want.size(), 0), wanted = want;
          std::fill_n(wanted.begin(), first * of.hidden, 0);
          const std::vector<double> sums = u.get();
          for (int64_t c = first; c < of.classes; ++c)
            for (int64_t h = 0; slot[c] >= 0 && h < of.hidden; ++h)
              got[c * of.hidden + h] =
                  (overGain ? kGain : 1) * sums[(ofClasses ? c - first : slot[c]) * of.hidden + h];
          EXPECT_LT(relativeError(got, wanted), 1e-5)
              << positions << " positions" << (ofPieces ? ", pieces" : "") << (overGain ? ", gain" : "");
        }
    checkLabelSums(m, label, oneHot, oneHot_, of.classes);
  }

  void checkLabelSums(const SortMemory &m, const Labels &label, const std::vector<double> &oneHot,
                      const DeviceTensor &oneHot_, int64_t classes) {
    std::vector<double> want(classes, 0);
    for (std::size_t i = 0; i < label.size(); ++i)
      if (label[i] >= 0) want[label[i]] += oneHot[i];
    auto pieces = DeviceTensor::vector(
        device, f32, (static_cast<int64_t>(label.size()) + lce::kRunPiece - 1) / lce::kRunPiece);
    pieces.poison();
    const auto sums = DeviceTensor::vector(device, f32, std::vector<double>(classes, 0));
    launches.launch(lce::labelPieces(),
                    {oneHot_.ref(), m.label.ref(), m.order.ref(), m.run.ref(), m.slot.ref(), pieces.ref()});
    launches.launch(lce::labelSumsOfPieces(),
                    {oneHot_.ref(), m.order.ref(), m.run.ref(), m.slot.ref(), pieces.ref(), sums.ref()});
    EXPECT_LT(relativeError(sums.get(), want), 1e-5);
  }
};

TEST_P(RunSums, OfShortAndLongRuns) {
  const RunCase few[] = {{1, 5, 1}, {511, 8, 3}, {512, 8, 1}, {513, 8, 1}, {1100, 20, 2}};
  for (const RunCase &of : few)
    check(labels(of.rows, of.classes), of, 64);
  const RunCase more[] = {{5000, 40, 3}, {9000, 70, 1000}, {20000, 16, 1}, {3000, 300, 16}};
  for (const RunCase &of : more)
    if (isFast()) check(labels(of.rows, of.classes), of, 64);
}

TEST_P(RunSums, OfRowsWithoutLabels) { check(Labels(600, -1), {600, 8, 4}, 64); }

INSTANTIATE_TEST_SUITE_P(Devices, RunSums, testing::ValuesIn(directDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
