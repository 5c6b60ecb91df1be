// Random kernels: what the CPU computes, and what an interpreter of PTX makes of the code for sm_80 and
// sm_90a, against a plain evaluation. All numbers are whole and small, so that results are equal. What a
// target refuses as its user's mistake is not compared. TILEWRIGHT_FUZZ_SEEDS=FIRST,COUNT runs others than a
// test run's.

#include <cstdlib>

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/fuzz/random_terms.h"
#include "tests/support/ptx_interpreter.h"

namespace tilewright::test {
namespace {

constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16, f16 = ElementType::f16,
                      i32 = ElementType::i32;
constexpr unsigned kSeeds = 100; ///< of each shape in a test run
constexpr double kBefore = 7;    ///< what outputs hold at first

/// One kernel, its tensors, and what it has to compute.
class Case {
public:
  Case(Shape shape, unsigned seed) : terms(shape, seed), in(makeInputs()), kernel(makeKernel(seed)) {
    fill();
    expected = expectedOutputs();
  }

  /// An empty text where the target computes what is expected, or refuses with a reason.
  std::string differenceOn(const std::string &name) {
    const Target target = *parseTarget(name);
    const StatusOr<Artifact> artifact = compile(kernel, target, options);
    if (!artifact.ok()) return isRefusal(artifact.status()) ? "" : artifact.status().message();
    ++compared;
    GuardedTensor y(f32, terms.allRows, terms.allColumns, gap), z = y;
    for (GuardedTensor *output : {&y, &z})
      forEach([&](int64_t i, int64_t j) { output->set(i, j, kBefore); });
    const Status status = launch(target, *artifact, y, z);
    if (!status.ok()) return status.message();
    std::string text;
    forEach([&](int64_t i, int64_t j) {
      const Outputs want = expected[i * terms.allColumns + j], found = {y.at(i, j), z.at(i, j)};
      if (text.empty() && !(found.y == want.y && found.z == want.z))
        text = "row " + std::to_string(i) + ", column " + std::to_string(j) + ": expected " +
               std::to_string(want.y) + " and " + std::to_string(want.z) + ", found " +
               std::to_string(found.y) + " and " + std::to_string(found.z);
    });
    const bool isIntact = y.isIntactAround() && z.isIntactAround();
    return text.empty() && !isIntact ? "writes outside its tensors" : text;
  }

  std::string text() const {
    const StatusOr<std::string> ir = emit(kernel, *parseTarget("sm_80"), options, Stage::tile);
    return ir.ok() ? *ir : ir.status().message();
  }

  static inline int compared = 0;

private:
  struct Outputs {
    double y = kBefore, z = kBefore;
  };

  static bool isRefusal(const Status &status) {
    return status.kind() == StatusKind::user || status.kind() == StatusKind::compile;
  }

  template <class F> void forEach(F f) const {
    for (int64_t i = 0; i < terms.allRows; ++i)
      for (int64_t j = 0; j < terms.allColumns; ++j)
        f(i, j);
  }

  GuardedTensor operand(int64_t positions, bool turned, ElementType element) {
    const int64_t gap = options.alignedMatrices ? 0 : terms.pick(3);
    return turned ? GuardedTensor(element, terms.depth, positions, gap)
                  : GuardedTensor(element, positions, terms.depth, gap);
  }

  Inputs makeInputs() {
    gap = terms.oneOf<int64_t>({0, 0, 1, 5});
    rowShift = terms.shift(), columnShift = terms.shift();
    const ElementType element = terms.oneOf({f32, bf16, f16}),
                      ofProducts = terms.oneOf({f32, bf16, bf16, f16});
    const bool leftTurned = terms.pick(3) == 0, rightTurned = terms.pick(3) == 0;
    drawSchedule(leftTurned || rightTurned);
    const int64_t rows = terms.allRows, columns = terms.allColumns;
    return {GuardedTensor(element, rows, columns, gap),
            GuardedTensor::vector(f32, columns),
            GuardedTensor::vector(i32, rows),
            operand(rows, leftTurned, ofProducts),
            operand(columns, rightTurned, ofProducts),
            leftTurned,
            rightTurned};
  }

  /// The promise of aligned matrices needs lengths that keep it.
  void drawSchedule(bool turned) {
    Schedule &schedule = options.schedule;
    schedule.nextIsProduct = terms.pick(4) == 0;
    schedule.runsBeside = terms.pick(4) == 0;
    if (terms.shape == Shape::rows) {
      schedule.rowBlock = terms.oneOf<int64_t>({0, 0, 64, 128, 256}),
      schedule.rowUnroll = terms.oneOf({0, 0, 1, 2});
      if (terms.pick(4) == 0) schedule.rowBytes = 4096;
      if (terms.pick(6) == 0) schedule.rowPartners = 2;
      return;
    }
    schedule.warps = terms.oneOf({0, 0, 0, 1, 2, 4, 8});
    if (terms.shape != Shape::products) return;
    schedule.stages = terms.oneOf({0, 0, 2, 3}), schedule.contractionStep = terms.oneOf({0, 0, 32, 64});
    schedule.rasterRows = terms.oneOf({0, 0, 2});
    options.alignedMatrices = !turned && terms.depth % 8 == 0 && gap == 0 && terms.allColumns % 8 == 0;
    if (options.alignedMatrices) terms.height = 128, schedule.warps = 0;
  }

  void fill() {
    std::mt19937 random(terms.pick(1 << 30));
    const auto draw = [&](GuardedTensor &tensor, int64_t low, int64_t high) {
      for (int64_t i = 0; i < tensor.rows(); ++i)
        for (int64_t j = 0; j < tensor.columns(); ++j)
          tensor.set(i, j, static_cast<double>(low + static_cast<int64_t>(random() % (high - low + 1))));
    };
    for (GuardedTensor *tensor : {&in.x, &in.b, &in.left, &in.right})
      draw(*tensor, -3, 3);
    draw(in.label, -2, terms.allColumns + 2);
  }

  Kernel makeKernel(unsigned seed) {
    first = terms.terms.back(), second = terms.any();
    return defineKernel("fuzz", std::to_string(seed), [this](KernelBuilder &k) {
      const auto matrix = [&](const char *name, const GuardedTensor &tensor) {
        return k.input(name, tensor.matrix().element, 2);
      };
      const View x = matrix("x", in.x), b = k.input("b", f32, 1), label = k.input("label", i32, 1);
      const View left = matrix("left", in.left), right = matrix("right", in.right);
      const View y = k.output("y", f32, 2), z = k.output("z", f32, 2);
      const Index row = k.index("row"), column = k.index("column");
      Building building{k, x, b, label, left, right, in.leftTurned, in.rightTurned, {}, {}};
      building.rows = k.blockRows(y.dim(0), terms.height);
      building.rows.begin = building.rows.begin + row;
      building.columns =
          terms.shape == Shape::rows ? k.whole(x.dim(1)) : k.range(Axis::columns, column, terms.width);
      const Tile zero = x.at(building.rows, building.columns) * 0.0;
      k.store(y, building.rows, building.columns, zero + first->tile(building));
      if (terms.shape == Shape::rows)
        k.store(z, building.rows, building.columns, zero + second->tile(building));
      else
        k.add(z, building.rows, building.columns, zero + second->tile(building));
    });
  }

  Status launch(const Target &target, const Artifact &artifact, GuardedTensor &y, GuardedTensor &z) {
    const std::vector<KernelArgument> arguments = {in.x.matrix(),    in.b.vector(),     in.label.vector(),
                                                   in.left.matrix(), in.right.matrix(), y.matrix(),
                                                   z.matrix(),       rowShift,          columnShift};
    if (target.kind == TargetKind::nvptx) return interpretPtx(artifact, arguments);
    CpuDevice device;
    TW_ASSIGN_OR_RETURN(const auto loaded, device.load(artifact));
    return device.launch(*loaded, arguments, nullptr);
  }

  std::vector<Outputs> expectedOutputs() {
    std::vector<Outputs> all(terms.allRows * terms.allColumns);
    const double before = terms.shape == Shape::rows ? 0 : kBefore;
    for (int64_t begin = 0; begin < terms.allRows; begin += terms.height) {
      const Place place{begin + rowShift, columnShift};
      for (int64_t r = 0; r < terms.height; ++r)
        for (int64_t c = 0; c < terms.width; ++c) {
          const int64_t i = place.row + r, j = place.column + c;
          if (i < 0 || i >= terms.allRows || j < 0 || j >= terms.allColumns) continue;
          all[i * terms.allColumns + j] = {first->value(in, place, r, c),
                                           before + second->value(in, place, r, c)};
        }
    }
    return all;
  }

  RandomTerms terms;
  CompileOptions options;
  int64_t gap = 0, rowShift = 0, columnShift = 0;
  Inputs in;
  TermRef first, second; ///< what is stored, and what is added
  Kernel kernel;
  std::vector<Outputs> expected;
};

class Fuzz : public testing::TestWithParam<Shape> {};

TEST_P(Fuzz, EveryTargetComputesWhatAPlainEvaluationGives) {
  unsigned first = 0, count = kSeeds;
  if (const char *seeds = std::getenv("TILEWRIGHT_FUZZ_SEEDS")) std::sscanf(seeds, "%u,%u", &first, &count);
  Case::compared = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    Case one(GetParam(), seed);
    for (const char *target : {"cpu", "sm_80", "sm_90a"})
      EXPECT_EQ(one.differenceOn(target), "") << "seed " << seed << " on " << target << "\n" << one.text();
  }
  RecordProperty("compared", Case::compared);
  EXPECT_GT(Case::compared, static_cast<int>(2 * count)) << "most are refused";
}

std::string nameOf(const testing::TestParamInfo<Shape> &info) {
  return info.param == Shape::blocks ? "blocks" : info.param == Shape::products ? "products" : "rows";
}

INSTANTIATE_TEST_SUITE_P(All, Fuzz, testing::Values(Shape::blocks, Shape::products, Shape::rows), nameOf);

} // namespace
} // namespace tilewright::test
