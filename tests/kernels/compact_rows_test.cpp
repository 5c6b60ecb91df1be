// Numbering the valid rows, with and without counts of blocks: against a plain loop.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include <gtest/gtest.h>

#include "compiler/base/integers.h"
#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/kernels.h"
#include "runtime/call_status.h"
#include "tests/support/device_tensor.h"
#include "tests/support/direct_launches.h"

namespace tilewright::test {
namespace {

using Labels = std::vector<int64_t>;
constexpr ElementType i32 = ElementType::i32, f32 = ElementType::f32;
constexpr int64_t kClasses = 50, kIgnored = 7, kHidden = 3, kSequence = 12345;

struct RowsMemory {
  DeviceTensor label, counts, starts, row, compactLabel, validCount, status, rowLoss, lse, dHidden;
  RowsMemory(Device &device, const Labels &labels, ElementType type) {
    const auto rows = static_cast<int64_t>(labels.size()), blocks = ceilDiv(rows, kCountedRows);
    const auto vector = [&](ElementType element, int64_t size) {
      auto tensor = DeviceTensor::vector(device, element, size);
      tensor.poison();
      return tensor;
    };
    label = DeviceTensor::vector(device, type, rows);
    label.setLabels(labels);
    counts = DeviceTensor::matrix(device, i32, 2, blocks, 5);
    counts.poison();
    starts = vector(i32, ceilDiv(blocks, kCountedBlocks) + 2);
    row = vector(i32, rows), compactLabel = vector(i32, rows), validCount = vector(i32, 1);
    status = vector(ElementType::i64, kCallStatusWords);
    rowLoss = vector(f32, rows), lse = vector(f32, rows);
    dHidden = DeviceTensor::matrix(device, f32, rows, kHidden, std::vector<double>(rows * kHidden, 5));
  }
};

class CompactRows : public testing::TestWithParam<std::string> {
protected:
  const DirectLaunches launches{GetParam()};
  Device &device = launches.device();
  std::mt19937 random{5};
  bool isFast() const { return GetParam() != "sm_80"; }

  Labels labels(int64_t rows) {
    std::uniform_int_distribution<int64_t> label(0, kClasses - 1);
    std::bernoulli_distribution isIgnored(0.2);
    Labels result(rows);
    for (int64_t &y : result)
      y = isIgnored(random) ? kIgnored : label(random);
    return result;
  }

  void run(const RowsMemory &m, bool counted) {
    const ElementType type = m.label.ref().element;
    std::vector<KernelArgument> arguments = {m.label.ref(), kIgnored, kClasses, kSequence};
    if (counted) {
      launches.launch(countRows(type), {m.label.ref(), kIgnored, kClasses, m.counts.ref()});
      launches.launch(scanRows(), {m.counts.ref(), m.starts.ref()});
      arguments.insert(arguments.end(), {m.counts.ref(), m.starts.ref()});
    }
    arguments.insert(arguments.end(), {m.row.ref(), m.compactLabel.ref(), m.validCount.ref(), m.status.ref(),
                                       m.rowLoss.ref(), m.lse.ref(), m.dHidden.ref()});
    launches.launch(compactRows({type, f32, counted}), arguments);
  }

  void check(const Labels &label, ElementType type, bool counted) {
    SCOPED_TRACE(testing::Message() << label.size() << " rows of " << elementName(type)
                                    << (counted ? ", counted" : ""));
    const RowsMemory m(device, label, type);
    run(m, counted);
    std::vector<double> row(label.size(), -1), compact(label.size(), -1), zeros(label.size(), 0), dHidden;
    int64_t valid = 0, firstBad = -1;
    for (std::size_t i = 0; i < label.size(); ++i) {
      const bool isClass = label[i] >= 0 && label[i] < kClasses, isValid = isClass && label[i] != kIgnored;
      if (!isClass && label[i] != kIgnored && firstBad < 0) firstBad = static_cast<int64_t>(i);
      dHidden.insert(dHidden.end(), kHidden, isValid ? 5 : 0);
      if (!isValid) continue;
      row[valid] = static_cast<double>(i);
      compact[valid++] = static_cast<double>(label[i]);
    }
    EXPECT_EQ(m.row.get(), row);
    EXPECT_EQ(m.compactLabel.get(), compact);
    EXPECT_EQ(m.validCount.get()[0], valid);
    EXPECT_EQ(m.rowLoss.get(), zeros);
    EXPECT_EQ(m.lse.get(), zeros);
    EXPECT_EQ(m.dHidden.get(), dHidden);
    EXPECT_TRUE(m.counts.gapsUntouched());
    expectStatus(m, label, firstBad);
  }

  void expectStatus(const RowsMemory &m, const Labels &label, int64_t firstBad) {
    std::vector<double> want(kCallStatusWords, -1); // what is not written
    const bool isBad = firstBad >= 0;
    want[kBadRowPlace] = isBad ? static_cast<double>(firstBad + 1) : 0;
    want[kBadLabel] = isBad ? static_cast<double>(label[firstBad]) : 0;
    want[kLabelClasses] = isBad ? kClasses : 0;
    want[kLabelIgnoreIndex] = isBad ? kIgnored : 0;
    want[kLabelCheck] =
        kSequence + want[kBadRowPlace] + want[kBadLabel] + want[kLabelClasses] + want[kLabelIgnoreIndex];
    EXPECT_EQ(m.status.get(), want);
  }
};

// Around a program's block, a counted block, and a group of these.
TEST_P(CompactRows, NumbersAnyNumberOfRows) {
  const std::vector<int64_t> few = {1, 65, 513}, more = {63, 64, 511, 512, 1500, 16383, 16384, 16385, 40000};
  for (const bool counted : {false, true}) {
    for (const int64_t rows : few)
      check(labels(rows), rows % 2 ? ElementType::i64 : i32, counted);
    for (const int64_t rows : more)
      if (isFast()) check(labels(rows), rows % 2 ? ElementType::i64 : i32, counted);
  }
}

TEST_P(CompactRows, OfLabelsThatAreAllAlike) {
  for (const bool counted : {false, true})
    for (const int64_t label : {int64_t(0), kIgnored})
      check(Labels(isFast() ? 20000 : 700, label), i32, counted);
}

/// A chunk as linear cross entropy gathers it.
struct GatheredRows {
  DeviceTensor xc, target, shift, retry, rowRange;
  GatheredRows(Device &device, int64_t rows, int64_t hidden)
      : xc(DeviceTensor::matrix(device, ElementType::bf16, rows, hidden)),
        target(DeviceTensor::vector(device, f32, rows)), shift(DeviceTensor::vector(device, f32, rows)),
        retry(DeviceTensor::vector(device, i32, rows)), rowRange(DeviceTensor::vector(device, i32, 4)) {
    for (DeviceTensor *tensor : {&xc, &target, &shift, &retry, &rowRange})
      tensor->poison();
  }
};

// Linear cross entropy's kernel that copies rows numbers few of them, too.
TEST_P(CompactRows, AreGatheredAsTheyAreNumbered) {
  constexpr int64_t kWidth = 24;
  for (const int64_t rows : {1, 8, 37, 300}) {
    Labels label = labels(rows);
    if (rows == 37) label[20] = kClasses, label[30] = -1;
    if (rows == 8) std::fill(label.begin(), label.end(), kIgnored);
    SCOPED_TRACE(testing::Message() << rows << " rows");
    const auto randomMatrix = [&](int64_t count) {
      std::vector<double> values(count * kWidth);
      std::normal_distribution<double> normal;
      for (double &value : values)
        value = rounded(normal(random), ElementType::bf16);
      return DeviceTensor::matrix(device, ElementType::bf16, count, kWidth, values);
    };
    const DeviceTensor x = randomMatrix(rows), w = randomMatrix(kClasses);
    const RowsMemory first(device, label, ElementType::i64), together(device, label, ElementType::i64);
    const GatheredRows want(device, rows, kWidth), got(device, rows, kWidth);
    const auto addResults = [](std::vector<KernelArgument> &arguments, const GatheredRows &to) {
      for (const DeviceTensor *tensor : {&to.xc, &to.target, &to.shift, &to.retry, &to.rowRange})
        arguments.push_back(tensor->ref());
    };

    run(first, false);
    lce::GatherRowsSpec spec{ElementType::bf16};
    std::vector<KernelArgument> arguments = {x.ref(), w.ref(), first.row.ref(), first.compactLabel.ref()};
    addResults(arguments, want);
    launches.launch(lce::gatherRows(spec), arguments);

    spec.compaction = {ElementType::i64, f32};
    arguments = {x.ref(), w.ref(), together.label.ref(), kIgnored, kClasses, kSequence};
    for (const DeviceTensor *tensor : {&together.row, &together.compactLabel, &together.validCount,
                                       &together.status, &together.rowLoss, &together.lse, &together.dHidden})
      arguments.push_back(tensor->ref());
    addResults(arguments, got);
    launches.launch(lce::gatherRows(spec), arguments);

    for (const auto member :
         {&RowsMemory::row, &RowsMemory::compactLabel, &RowsMemory::validCount, &RowsMemory::status,
          &RowsMemory::rowLoss, &RowsMemory::lse, &RowsMemory::dHidden})
      EXPECT_EQ((together.*member).get(), (first.*member).get());
    for (const auto member : {&GatheredRows::xc, &GatheredRows::target, &GatheredRows::shift,
                              &GatheredRows::retry, &GatheredRows::rowRange})
      EXPECT_EQ((got.*member).get(), (want.*member).get());
  }
}

TEST_P(CompactRows, ReportsTheFirstBadLabel) {
  const int64_t rows = isFast() ? 33000 : 610;
  for (const bool counted : {false, true})
    for (const int64_t place : {int64_t(0), int64_t(600), rows - 1}) {
      Labels label = labels(rows);
      label[place] = place % 2 ? kClasses : -3;
      label[rows - 1] = 1000;
      check(label, ElementType::i64, counted);
    }
}

TEST_P(CompactRows, OfAMillionRows) {
  if (!isFast()) GTEST_SKIP() << "the interpreter is slow";
  check(labels((int64_t(1) << 20) + 3), ElementType::i64, true);
}

// Time would be 16 times as much if each program read all labels.
TEST_P(CompactRows, TakesTimeInProportionToTheRows) {
  if (GetParam() != "cpu") GTEST_SKIP() << "measures the time of this processor";
  const auto seconds = [&](int64_t rows) {
    const RowsMemory memory(device, labels(rows), ElementType::i64);
    double best = 1e9;
    for (int i = 0; i < 4; ++i) {
      const std::clock_t begin = std::clock(); // of all threads, so that other work does not count
      run(memory, true);
      best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  EXPECT_LT(seconds(int64_t(1) << 20) / seconds(int64_t(1) << 18), 8);
}

TEST_P(CompactRows, ChecksClassWeights) {
  const std::vector<double> good(300, 0.5);
  const DeviceTensor rowWeight = DeviceTensor::vector(device, f32, std::vector<double>(9, 0.25));
  const DeviceTensor validCount = DeviceTensor::vector(device, i32, Labels{9});
  for (const auto &[place, weight] :
       {std::pair<int64_t, double>{-1, 0}, {0, -1}, {257, INFINITY}, {299, NAN}}) {
    SCOPED_TRACE(testing::Message() << "class " << place << " has " << weight);
    std::vector<double> weights = good;
    if (place >= 0) weights[place] = weights[299] = weight;
    const DeviceTensor classWeight = DeviceTensor::vector(device, f32, weights);
    const DeviceTensor facts = DeviceTensor::vector(device, f32, int64_t(2));
    DeviceTensor status = DeviceTensor::vector(device, ElementType::i64, int64_t(kCallStatusWords));
    status.poison();
    launches.launch(weightFacts(true), {rowWeight.ref(), classWeight.ref(), validCount.ref(), kSequence,
                                        facts.ref(), status.ref()});
    std::vector<double> want(kCallStatusWords, -1);
    want[kBadClassPlace] = static_cast<double>(place + 1);
    want[kWeightCheck] = static_cast<double>(kSequence + place + 1);
    EXPECT_EQ(status.get(), want);
    EXPECT_EQ(facts.get()[0], 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CompactRows, testing::ValuesIn(directDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
