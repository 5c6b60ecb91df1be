#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include "compiler/dsl/build.h"
#include "compiler/dsl/random.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16, i32 = ElementType::i32,
                      i64 = ElementType::i64;

/// The kernel's IR, or the message of its compile error.
std::string build(std::function<void(KernelBuilder &)> body, const std::string &name = "k") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = buildKernel(defineKernel(name, "", std::move(body)), context);
  if (module.ok()) return irText(**module);
  EXPECT_EQ(module.status().kind(), StatusKind::compile) << module.status().message();
  return module.status().message();
}

// -----------------------------------------------------------------------------------------------------------
// What is built
// -----------------------------------------------------------------------------------------------------------

TEST(Dsl, VectorAdd) {
  EXPECT_EQ(build([](KernelBuilder &k) {
              View a = k.input("a", f32, 1), b = k.input("b", f32, 1), c = k.output("c", f32, 1);
              Range i = k.blockColumns(a.dim(0), 1024);
              Tile first = a[i], second = b[i];
              k.store(c, i, first + second);
            }),
            R"(module {
  func.func @k(%arg0: !tile.view<?xf32> {tile.name = "a"}, %arg1: !tile.view<?xf32> {tile.name = "b"}, %arg2: !tile.view<?xf32> {tile.name = "c", tile.written}) attributes {tile.grid = [array<i64: 0, 0, 1024>], tile.kernel} {
    %0 = tile.dim %arg0, 0 : !tile.view<?xf32>
    %1 = tile.program_id 0
    %c1024 = arith.constant 1024 : index
    %2 = arith.muli %1, %c1024 : index
    %3 = tile.load %arg0[%2] : !tile.view<?xf32> -> tensor<1x1024xf32>
    %4 = tile.load %arg1[%2] : !tile.view<?xf32> -> tensor<1x1024xf32>
    %5 = arith.addf %3, %4 : tensor<1x1024xf32>
    tile.store %5, %arg2[%2] : tensor<1x1024xf32>, !tile.view<?xf32>
    return
  }
}
)");
}

TEST(Dsl, RowSoftmaxOfWholeRows) {
  std::string ir = build([](KernelBuilder &k) {
    View x = k.input("x", bf16, 2), y = k.output("y", bf16, 2);
    Range rows = k.blockRows(x.dim(0), 8), columns = k.whole(x.dim(1));
    Tile z = x.at(rows, columns);
    EXPECT_EQ(z.rows(), 8);
    EXPECT_EQ(z.columns(), kWhole);
    Tile e = exp(z - max(z, Axis::columns));
    k.store(y, rows, columns, e / sum(e, Axis::columns));
  });
  EXPECT_THAT(ir, HasSubstr("size %3 : !tile.view<?x?xbf16> -> tensor<8x?xbf16>"));
  EXPECT_THAT(ir, HasSubstr("arith.extf %4 : tensor<8x?xbf16> to tensor<8x?xf32>"));
  EXPECT_THAT(ir, HasSubstr("tile.broadcast %6 size %3 : tensor<8x1xf32> -> tensor<8x?xf32>"));
  EXPECT_THAT(ir, HasSubstr("arith.truncf"));
}

TEST(Dsl, BroadcastsToTheLargerShape) {
  std::string ir = build([](KernelBuilder &k) {
    View x = k.input("x", f32, 2), row = k.input("row", f32, 1), y = k.output("y", f32, 2);
    auto [r, c] = k.block(x.dim(0), x.dim(1), 4, 16);
    Tile outer = row[r] * row[c];
    EXPECT_EQ(outer.rows(), 4);
    EXPECT_EQ(outer.columns(), 16);
    k.store(y, r, c, outer + 1);
  });
  EXPECT_THAT(ir, HasSubstr("tile.grid = [array<i64: 0, 0, 4>, array<i64: 0, 1, 16>]"));
  EXPECT_THAT(ir, HasSubstr("tensor<4x1xf32> -> tensor<4x16xf32>"));
  EXPECT_THAT(ir, HasSubstr("tensor<1x16xf32> -> tensor<4x16xf32>"));
  EXPECT_THAT(ir, HasSubstr("arith.constant dense<1.000000e+00> : tensor<1x1xf32>"));
}

TEST(Dsl, StripsContractOverTheirViewsWholeAxis) {
  std::string ir = build([](KernelBuilder &k) {
    View x = k.input("x", bf16, 2), w = k.input("w", bf16, 2), e = k.input("e", f32, 2);
    View y = k.output("y", f32, 2);
    auto [r, c] = k.block(x.dim(0), w.dim(0), 32, 64);
    Range columns = c.along(Axis::columns);
    k.store(y, r, columns, dot(x.rows(r), w.rows(c.along(Axis::rows)).transpose()));
    k.store(y, r, columns, dot(x.rows(r), w.columns(columns)));
    k.store(y, r, columns, dot(e.columns(r.along(Axis::columns)).transpose(), w.columns(columns)));
  });
  EXPECT_THAT(ir,
              HasSubstr("contracting 1, %arg1[%5] contracting 1 : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> "
                        "-> tensor<32x64xf32>"));
  EXPECT_THAT(ir, HasSubstr("tile.contract %arg0[%3] contracting 1, %arg1[%5] contracting 0"));
  EXPECT_THAT(ir, HasSubstr("tile.contract %arg2[%3] contracting 0, %arg1[%5] contracting 0"));
}

TEST(Dsl, MasksGathersAndScatters) {
  std::string ir = build([](KernelBuilder &k) {
    View x = k.input("x", f32, 2), label = k.input("label", i64, 1), w = k.input("w", f32, 2);
    View y = k.output("y", f32, 2), picked = k.output("picked", f32, 1);
    Range rows = k.blockRows(x.dim(0), 8), columns = k.whole(x.dim(1));
    Tile z = x.at(rows, columns), index = cast(label[rows], i32);
    k.store(picked, rows, gather(logSoftmax(z), index));
    k.store(y, rows, columns,
            select(columns.positions() == index, z, 0) +
                scatter(w.gather(index, k.range(Axis::columns, k.constant(3), 1)), index, z));
    k.scatter(y, index, columns, z);
    k.scatter(picked, index, sum(z, Axis::columns));
    k.add(y, rows, k.range(Axis::columns, k.constant(0), 4), sum(z, Axis::columns));
  });
  EXPECT_THAT(ir, HasSubstr("arith.trunci"));
  EXPECT_THAT(ir, HasSubstr("tile.gather"));
  EXPECT_THAT(ir, HasSubstr("along 1 size %3 : tensor<1x?xi32>"));
  EXPECT_THAT(ir, HasSubstr("arith.cmpi eq"));
  EXPECT_THAT(ir, HasSubstr("tile.load_rows"));
  EXPECT_THAT(ir, HasSubstr("tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>"));
  EXPECT_THAT(ir, HasSubstr("tile.store_rows"));
  EXPECT_THAT(ir, HasSubstr("tile.reduce_add"));
}

TEST(Dsl, LoopsConditionsAndScalars) {
  std::string ir = build([](KernelBuilder &k) {
    View x = k.input("x", f32, 2), count = k.input("count", i32, 1), y = k.output("y", f32, 1);
    Index n = k.index("n");
    Tile scale = k.scalar("scale");
    Range rows = k.blockRows(n, 8);
    Index valid = k.toIndex(count[k.range(Axis::rows, k.constant(0), 1)]);
    k.ifThen(rows.begin < valid, [&] {
      View bounded = x.narrowed(0, valid);
      Tile zero = cast(rows.positions(), f32) * 0;
      auto body = [&](Index j, const std::vector<Tile> &carried) -> std::vector<Tile> {
        return {carried[0] + sum(bounded.at(rows, k.range(Axis::columns, j, 64)), Axis::columns)};
      };
      Tile total = k.forRange(k.constant(0), x.dim(1), 64, {zero}, body)[0];
      k.store(y, rows, total * scale + cast(k.toTile(valid / 2, i32), f32));
    });
    k.ifThen(k.toCondition(scale > 0), [&] { k.store(y, rows, scale); });
  });
  EXPECT_THAT(ir, HasSubstr("tile.grid = [array<i64: 3, 0, 8>]"));
  EXPECT_THAT(ir, HasSubstr("tile.splat %arg4 : f32 -> tensor<1x1xf32>"));
  EXPECT_THAT(ir, HasSubstr("tile.narrow %arg0, 0 to"));
  EXPECT_THAT(ir, HasSubstr("-> (tensor<8x1xf32>)"));
  EXPECT_THAT(ir, HasSubstr("arith.divui"));
  EXPECT_THAT(ir, HasSubstr("tile.extract"));
}

TEST(Dsl, ElementsOfAnotherType) {
  std::string ir = build([](KernelBuilder &k) {
    View y = k.output("y", bf16, 2), wide = y.as(f32);
    Range rows = k.blockRows(wide.dim(0), 8), columns = k.range(Axis::columns, k.constant(0), 64);
    k.store(wide.narrowed(1, y.dim(1) / 2), rows, columns, y.at(rows, columns));
    EXPECT_EQ(wide.element(), f32);
    EXPECT_EQ(wide.rank(), 2);
  });
  EXPECT_THAT(ir, HasSubstr("tile.grid = [array<i64: 0, 0, 8>]")); // it has its parameter's rows
  EXPECT_THAT(ir, HasSubstr("tile.reinterpret %arg0 : !tile.view<?x?xbf16> to !tile.view<?x?xf32>"));
}

TEST(Dsl, IntegersAndTruthValues) {
  std::string ir = build([](KernelBuilder &k) {
    View a = k.input("a", i32, 1), y = k.output("y", i32, 1), z = k.output("z", i64, 1);
    Range r = k.blockRows(a.dim(0), 8);
    Tile t = a[r];
    k.store(y, r, select(((t < 3) & (t != -1)) | (t >= 7), -t, abs(t)) + min(t, max(t, t * 2)));
    k.store(z, r, cast(t, i64) + cast(sum(cast(t == 0, i32), Axis::rows), i64));
    k.store(y, r, cast(cast(t, f32) / 2, i32));
  });
  for (const char *op : {"arith.andi", "arith.ori", "arith.cmpi slt", "arith.cmpi ne", "arith.cmpi sge",
                         "arith.subi", "math.absi", "arith.minsi", "arith.maxsi", "arith.extsi",
                         "arith.extui", "arith.sitofp", "arith.fptosi", "tile.reduce sum"})
    EXPECT_THAT(ir, HasSubstr(op));
}

TEST(Dsl, BitsOfIntegers) {
  std::string ir = build([](KernelBuilder &k) {
    View a = k.input("a", i32, 1), wide = k.input("wide", i64, 1), y = k.output("y", i32, 1);
    View z = k.output("z", i64, 1);
    Range r = k.blockRows(a.dim(0), 8);
    Tile t = a[r];
    k.store(y, r, (((t << 3) >> t) ^ (t & 0xFFFFFFFF)) | shiftRightLogical(t, 31));
    k.store(y, r, mulHigh(t, 0xD2511F53));
    k.store(z, r, (wide[r] << 63) ^ (wide[r] >> wide[r]));
  });
  for (const char *op : {"arith.shli", "arith.shrsi", "arith.shrui", "arith.xori", "arith.andi", "arith.ori",
                         "dense<31> : tensor<1x1xi32>", "dense<63> : tensor<1x1xi64>",
                         "dense<-1> : tensor<1x1xi32>", "tile.mul_high"})
    EXPECT_THAT(ir, HasSubstr(op));
}

TEST(Dsl, RandomBits) {
  std::string ir = build([](KernelBuilder &k) {
    Index seed = k.index("seed");
    View y = k.output("y", f32, 2);
    auto [r, c] = k.block(y.dim(0), y.dim(1), 8, 64);
    k.store(y, r, c,
            uniform(philox({c.positions(), r.positions(), r.positions(), r.positions()},
                           {k.toTile(seed, i32), k.toTile(seed, i32)})[3]));
    k.store(y, r, c, uniform(randomBits(seed, c.positions())[0]));
  });
  EXPECT_THAT(ir, HasSubstr("tile.mul_high"));
  EXPECT_THAT(ir, HasSubstr("dense<5.96046448E-8>"));
}

// -----------------------------------------------------------------------------------------------------------
// What is not
// -----------------------------------------------------------------------------------------------------------

/// A kernel with a mistake in it: the parameters below, this program's rows and columns, and what its message
/// says.
struct Scene {
  KernelBuilder &k;
  View x, v, label, y, half; ///< f32 matrix, f32 vector, i32 vector; outputs: f32 and bf16 matrix
  Range r, c, all;
};

struct Misuse {
  const char *name;
  std::function<void(Scene &)> body;
  const char *message;
};

void PrintTo(const Misuse &misuse, std::ostream *out) { *out << misuse.name; }

class DslMisuse : public ::testing::TestWithParam<Misuse> {};

TEST_P(DslMisuse, IsACompileError) {
  std::string message = build([](KernelBuilder &k) {
    View x = k.input("x", f32, 2), v = k.input("v", f32, 1), label = k.input("label", i32, 1);
    View y = k.output("y", f32, 2), half = k.output("half", bf16, 2);
    auto [r, c] = k.block(x.dim(0), x.dim(1), 8, 64);
    Scene scene{k, x, v, label, y, half, r, c, k.whole(x.dim(1))};
    GetParam().body(scene);
    // Whatever happened, a body runs on.
    Tile more = exp(x.at(r, c) + v[r]);
    k.store(y, r, c, more);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("kernel 'k': "), HasSubstr(GetParam().message)));
  EXPECT_THAT(message, HasSubstr("found"));
}

std::vector<Tile> twoTiles(Scene &s) { return {s.v[s.r], s.v[s.r]}; }

const std::vector<Misuse> kMisuses = {
    {"LateParameter", [](Scene &s) { s.k.input("late", f32, 1); },
     "parameter 'late': expected parameters before"},
    {"SecondGrid", [](Scene &s) { s.k.blockRows(s.x.dim(0), 8); }, "block: expected one call"},
    {"ShapesThatDoNotMeet", [](Scene &s) { s.x.at(s.r, s.c) + s.v[s.k.range(Axis::columns, s.c.begin, 32)]; },
     "operator+: expected shapes that are equal or 1 along each axis, found 8x64 and 1x32"},
    {"LongMeetsStatic", [](Scene &s) { s.x.at(s.r, s.all) + s.x.at(s.r, s.c); }, "found 8xwhole and 8x64"},
    {"KindsThatDoNotMeet", [](Scene &s) { s.v[s.r] * s.label[s.r]; },
     "operator*: expected two tiles of one kind (see cast), found 8x1 f32 and 8x1 i32"},
    {"IntegerDivision", [](Scene &s) { s.label[s.r] / s.label[s.r]; },
     "operator/: expected a tile of f32, found 8x1 i32"},
    {"FractionBesideIntegers", [](Scene &s) { s.label[s.r] + 0.5; },
     "expected an integer beside a tile of 8x1 i32, found 0.5"},
    {"TooLargeBesideIntegers", [](Scene &s) { s.label[s.r] + 4e9; },
     "expected an integer beside a tile of 8x1 i32"},
    {"NanBesideIntegers", [](Scene &s) { s.label[s.r] == std::nan(""); }, "expected an integer beside"},
    {"FunctionOfIntegers", [](Scene &s) { exp(s.label[s.r]); }, "exp: expected a tile of f32, found 8x1 i32"},
    {"AndOfNumbers", [](Scene &s) { s.v[s.r] & s.v[s.r]; },
     "operator&: expected a tile of truth values or integers, found 8x1 f32"},
    {"XorOfTwoKinds", [](Scene &s) { (s.v[s.r] > 0) ^ s.label[s.r]; },
     "operator^: expected two tiles of one kind (see cast), found 8x1 truth values and 8x1 i32"},
    {"TooManyBitsBesideIntegers", [](Scene &s) { s.label[s.r] | 0x100000000; },
     "operator|: expected 32 bits beside a tile of 8x1 i32, found 4294967296"},
    {"BitsBesideTruthValues", [](Scene &s) { (s.v[s.r] > 0) & 1; },
     "operator&: expected a tile of integers, found 8x1 truth values"},
    {"ShiftedFloats", [](Scene &s) { s.v[s.r] << 1; },
     "operator<<: expected a tile of integers, found 8x1 f32"},
    {"ShiftedTruthValues", [](Scene &s) { shiftRightLogical(s.v[s.r] > 0, 1); },
     "shiftRightLogical: expected a tile of integers, found 8x1 truth values"},
    {"ShiftByTooMany", [](Scene &s) { s.label[s.r] >> 32; },
     "operator>>: expected from 0 to 31 bits, found 32"},
    {"ShiftByLessThanNone", [](Scene &s) { s.label[s.r] << -1; },
     "operator<<: expected from 0 to 31 bits, found -1"},
    {"ShiftByFloats", [](Scene &s) { s.label[s.r] << s.v[s.r]; },
     "operator<<: expected a tile of integers, found 8x1 f32"},
    {"ShiftOfNothing", [](Scene &s) { Tile() << s.label[s.r]; },
     "operator<<: expected operands that this kernel made"},
    {"MulHighOfWideIntegers", [](Scene &s) { mulHigh(cast(s.label[s.r], i64), 3); },
     "mulHigh: expected a tile of i32, found 8x1 i64"},
    {"RandomBitsOfFloats", [](Scene &s) { randomBits(s.r.begin, s.v[s.r]); },
     "expected a tile of integers, found 8x1 f32"},
    {"UniformOfFloats", [](Scene &s) { uniform(s.v[s.r]); },
     "shiftRightLogical: expected a tile of integers, found 8x1 f32"},
    {"SumOfTruthValues", [](Scene &s) { sum(s.v[s.r] > 0, Axis::rows); },
     "sum: expected a tile of numbers (see cast), found 8x1 truth values"},
    {"ComparedTruthValues", [](Scene &s) { (s.v[s.r] > 0) == (s.v[s.r] < 0); },
     "operator==: expected a tile of numbers, found 8x1 truth values"},
    {"SelectByNumbers", [](Scene &s) { select(s.v[s.r], s.v[s.r], 0); },
     "select: expected a tile of truth values as the condition, found 8x1 f32"},
    {"CastToSmallFloat", [](Scene &s) { cast(s.v[s.r], bf16); }, "cast: expected f32, i32 or i64"},
    {"FloatAsIndex", [](Scene &s) { gather(s.x.at(s.r, s.c), s.v[s.r]); },
     "gather: expected an index of 8x1 i32 (see cast), found 8x1 f32"},
    {"RowAsIndex", [](Scene &s) { s.x.gather(s.label[s.c], s.c); }, "gather: expected an index of 1x1 i32"},
    {"ScatterOfARow", [](Scene &s) { scatter(s.v[s.c], s.label[s.r], s.x.at(s.r, s.c)); },
     "scatter: expected one value for each row of 8x64, found 1x64 f32"},
    {"TransposedLong", [](Scene &s) { transpose(s.x.at(s.r, s.all)); },
     "transpose: expected a tile whose shape is known, found 8xwhole f32"},
    {"ProductOfUnequal", [](Scene &s) { dot(s.x.at(s.r, s.c), s.x.at(s.r, s.c)); },
     "dot: expected MxK and KxN tiles of known shape, found 8x64 and 8x64"},
    {"ProductOverARange", [](Scene &s) { dot(s.x.columns(s.c), s.x.rows(s.r)); },
     "dot: expected the columns of the left operand to be a whole axis, found a range"},
    {"ProductOverARangeOnTheRight", [](Scene &s) { dot(s.x.rows(s.r), s.x.rows(s.r)); },
     "dot: expected the rows of the right operand to be a whole axis, found a range"},
    {"ProductOfNoPart",
     [](Scene &s) {
       dot(s.x.rows(s.r), s.x.columns(s.c), {s.r.begin, 0});
     },
     "dot: expected a part of at least 1, found one of 0"},
    {"StripOfAVector", [](Scene &s) { dot(s.v.rows(s.r), s.x.columns(s.c)); },
     "dot: expected strips of views of rank 2"},
    {"WholeStrip", [](Scene &s) { dot(s.x.rows(s.all), s.x.columns(s.c)); },
     "dot: expected a strip whose rows"},
    {"MatrixBySubscript", [](Scene &s) { s.x[s.r]; },
     "operator[]: expected a view of rank 1, found a view of rank 2 of f32; give rows and columns"},
    {"VectorByTwoRanges", [](Scene &s) { s.v.at(s.r, s.c); },
     "at: expected a view of rank 2, found a view of rank 1"},
    {"RangesSwapped", [](Scene &s) { s.x.at(s.c, s.r); },
     "at: expected a range along rows, found one along columns"},
    {"WholeRows", [](Scene &s) { s.x.at(s.all.along(Axis::rows), s.c); }, "only columns may be whole"},
    {"WholePositionsAlongRows", [](Scene &s) { s.all.along(Axis::rows).positions(); },
     "positions: expected a whole range along columns"},
    {"EmptyRange", [](Scene &s) { s.k.range(Axis::rows, s.r.begin, 0); },
     "range: expected at least one position"},
    {"DimOfNoAxis", [](Scene &s) { s.v.dim(1); },
     "dim: expected an axis of a view of rank 1 of f32, found 1"},
    {"NarrowedAlongNoAxis", [](Scene &s) { s.v.narrowed(2, s.x.dim(0)); }, "narrowed: expected an axis"},
    {"StoreToAnInput", [](Scene &s) { s.k.store(s.v, s.r, s.v[s.r]); },
     "store: expected a view that is an output, found input 'v'"},
    {"StoreToANarrowedInput", [](Scene &s) { s.k.store(s.v.narrowed(0, s.x.dim(0)), s.r, s.v[s.r]); },
     "found input 'v'"},
    {"StoreToAReinterpretedInput", [](Scene &s) { s.k.store(s.v.as(i32), s.r, s.label[s.r]); },
     "found input 'v'"},
    {"StoreOfAnotherShape", [](Scene &s) { s.k.store(s.y, s.r, s.c, transpose(s.x.at(s.r, s.c))); },
     "store: expected a tile that broadcasts to 8x64, found 64x8 f32"},
    {"StoreOfIntegers", [](Scene &s) { s.k.store(s.y, s.r, s.c, s.label[s.r]); },
     "store: expected a tile that fits a view of rank 2 of f32 (see cast), found 8x1 i32"},
    {"AddToSmallFloats", [](Scene &s) { s.k.add(s.half, s.r, s.c, s.x.at(s.r, s.c)); },
     "add: expected a view of f32, i32 or i64, found a view of rank 2 of bf16"},
    {"ComputedGrid", [](Scene &s) { s.k.blockRows(s.x.dim(0) * 2, 8); }, "block: expected one call"},
    {"IndexOfATile", [](Scene &s) { s.k.toIndex(s.label[s.r]); },
     "toIndex: expected a 1x1 tile, found 8x1 i32"},
    {"ConditionOfANumber", [](Scene &s) { s.k.toCondition(s.v[s.r]); },
     "toCondition: expected a tile of truth values"},
    {"TileOfFloats", [](Scene &s) { s.k.toTile(s.r.begin, f32); }, "toTile: expected i32 or i64, found f32"},
    {"DivisionByZero", [](Scene &s) { s.r.begin / 0; },
     "operator/: expected a divisor of at least 1, found 0"},
    {"ProgramOfNoAxis", [](Scene &s) { s.k.programId(3); }, "programId: expected an axis of 0 to 2, found 3"},
    {"HandleWithoutValue", [](Scene &s) { s.v[s.r] + Tile(); },
     "operator+: expected operands that this kernel made"},
    {"RangeWithoutValue", [](Scene &s) { s.v[Range()]; },
     "operator[]: expected operands that this kernel made"},
    {"StepOfZero",
     [](Scene &s) {
       s.k.forRange(s.k.constant(0), s.x.dim(0), 0, {},
                    [](Index, const std::vector<Tile> &) { return std::vector<Tile>(); });
     },
     "forRange: expected a step of at least 1, found 0"},
    {"CarriedCountChanges",
     [](Scene &s) {
       auto carried = s.k.forRange(s.k.constant(0), s.x.dim(0), 1, {s.v[s.r]},
                                   [&](Index, const std::vector<Tile> &) { return twoTiles(s); });
       ASSERT_EQ(carried.size(), 1u);
     },
     "forRange: expected the body to return 1 tiles, found 2"},
    {"CarriedShapeChanges",
     [](Scene &s) {
       s.k.forRange(s.k.constant(0), s.x.dim(0), 1, {s.v[s.r]},
                    [&](Index, const std::vector<Tile> &) { return std::vector<Tile>{s.x.at(s.r, s.c)}; });
     },
     "forRange: expected carried tile 0 to stay 8x1 f32, found 8x64 f32"},
    {"CarriedLong",
     [](Scene &s) {
       s.k.forRange(s.k.constant(0), s.x.dim(0), 1, {s.x.at(s.r, s.all)},
                    [&](Index, const std::vector<Tile> &carried) { return carried; });
     },
     "forRange: expected carried tiles of known shape, found 8xwhole f32"},
    {"EscapesItsBlock",
     [](Scene &s) {
       Tile inner;
       s.k.ifThen(s.r.begin < s.c.begin, [&] { inner = s.v[s.r] + 1; });
       s.k.store(s.y, s.r, s.c, inner);
     },
     "store: expected operands that are visible here, found one from inside a loop or condition"},
};

INSTANTIATE_TEST_SUITE_P(All, DslMisuse, ::testing::ValuesIn(kMisuses),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Dsl, GridSizesComeFromArguments) {
  EXPECT_THAT(build([](KernelBuilder &k) { k.blockRows(k.index("n") * 2, 8); }),
              HasSubstr("block: expected a dim of a view parameter or an index parameter as the size"));
  EXPECT_THAT(build([](KernelBuilder &k) { k.blockRows(k.index("n"), 0); }),
              HasSubstr("block: expected at least one position, found 0"));
  EXPECT_THAT(build([](KernelBuilder &k) {
                View x = k.input("x", f32, 2);
                k.blockRows(x.narrowed(0, x.dim(1)).dim(0), 8);
              }),
              HasSubstr("block: expected a dim of a view parameter"));
}

TEST(Dsl, Names) {
  auto nothing = [](KernelBuilder &) {};
  EXPECT_THAT(build(nothing, "two words"), HasSubstr("C identifier, found 'two words'"));
  EXPECT_THAT(build(nothing, ""), HasSubstr("C identifier, found ''"));
  EXPECT_THAT(build(nullptr), HasSubstr("expected a body, found none"));
  EXPECT_THAT(build([](KernelBuilder &k) { k.input("a b", f32, 1); }), HasSubstr("letters, digits and _"));
  EXPECT_THAT(build([](KernelBuilder &k) { k.input("a", f32, 3); }),
              HasSubstr("expected rank 1 or 2, found 3"));
  EXPECT_THAT(build([](KernelBuilder &k) {
                k.input("a", f32, 1);
                k.scalar("a");
              }),
              HasSubstr("expected a name of its own for each parameter, found 'a' twice"));
}

TEST(Dsl, HandlesOfAnotherKernel) {
  std::string message;
  build([&](KernelBuilder &outer) {
    Tile foreign = outer.scalar("a");
    message = build([&](KernelBuilder &k) {
      View y = k.output("y", f32, 1);
      k.store(y, k.blockRows(y.dim(0), 8), foreign);
    });
  });
  EXPECT_THAT(message,
              HasSubstr("store: expected operands that this kernel made, found one of another kernel"));
}

TEST(Dsl, TheFirstMistakeIsReported) {
  EXPECT_THAT(build([](KernelBuilder &k) {
                View x = k.input("x", f32, 1);
                x.dim(1);
                exp(x[Range()]);
              }),
              AllOf(HasSubstr("dim: "), Not(HasSubstr("operator[]"))));
}

TEST(Dsl, HandlesOfNobodyStayEmpty) {
  EXPECT_FALSE(exp(Tile() + Tile()).valid());
  EXPECT_FALSE((Index() / 2 + Index()).valid());
  EXPECT_FALSE(View().dim(0).valid());
  EXPECT_FALSE(dot(Strip(), Strip()).valid());
  EXPECT_EQ(View().rank(), 0);
}

} // namespace
} // namespace tilewright
