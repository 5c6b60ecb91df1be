#pragma once

#include <cstdint>

#include "compiler/dsl/builder.h"
#include "compiler/options.h"
#include "compiler/target.h"

namespace tilewright::lce {

/// Sorting a chunk's rows by label, for chunks with many rows. `rankLabels` compares all pairs of rows, which
/// is one launch and the fastest for few rows. A radix sort takes several launches, and its time grows with
/// the number of rows.
///
/// The radix sort looks at one digit of label + 1 in each pass, the lowest digit first; -1 (no row) is the
/// key 0. A pass counts each block's digits (`countDigits`), turns the counts into the positions where a
/// block's rows of each digit go (`scanDigits`), and puts rows there in their order (`placeByDigit`). Behind
/// the last pass `findSegments` and `measureSegments` make `run` and `slot` of the sorted order. Every result
/// is the same as `rankLabels`'s.

constexpr int64_t kSortedBlock = 128; ///< rows of a block
constexpr int64_t kSortedGroup = 64;  ///< blocks of a group

/// Chunks with more rows than this are sorted by digits.
int64_t mostRankedRows(TargetKind target);

/// What the host has to know of a radix sort. Buffers are i32.
struct LabelSort {
  int64_t radix = 0;  ///< values of a digit, a power of two
  int passes = 0;     ///< digits of a key, at least 1
  int64_t blocks = 0; ///< rows of the buffer `counts`, blocks×radix
  int64_t groups = 0; ///< rows of the buffer `starts`, groups×radix
  /// Pass p sorts by key / divisor(p) modulo radix.
  int64_t divisor(int pass) const;
  /// Passes put their rows into `order` and `run` in turn, so that the last one's are in `order`.
  bool endsInOrder(int pass) const { return (passes - pass) % 2 == 1; }
};
/// Radix and passes follow from the classes alone: another number of rows needs no other kernels.
LabelSort planLabelSort(int64_t rows, int64_t classes);

/// One digit's pass. The first pass takes the rows in their own order, later ones in that of the pass before.
struct DigitSpec {
  int64_t radix;
  bool first;
};

/// counts[b] = how many rows of block b have each digit.
///
/// (label C, divisor[, order C], out counts B×D)
Kernel countDigits(const DigitSpec &spec);

/// starts[g] = how many rows of each digit the groups of blocks before g have. The last row of `starts` has,
/// of each digit, the number of rows with a smaller one.
///
/// (counts B×D, out starts (G+1)×D)
Kernel scanDigits(int64_t radix);

/// Rows by digit, and where digits are equal in the order in which they came.
///
/// (label C, divisor[, order C], counts B×D, starts (G+1)×D, out sorted C)
Kernel placeByDigit(const DigitSpec &spec);

/// slot[label] = the position in `order` where the label's rows begin (-1 beforehand); run = 0 everywhere.
///
/// (label C, order C, out run C, out slot V)
Kernel findSegments();

/// run[slot[label]] = the number of the label's rows.
///
/// (label C, order C, slot V, out run C)
Kernel measureSegments();

CompileOptions sortOptions(TargetKind target); ///< that suit these kernels

} // namespace tilewright::lce
