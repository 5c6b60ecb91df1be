#pragma once

#include <cstdint>
#include <vector>

#include "compiler/dsl/builder.h"
#include "compiler/options.h"
#include "compiler/target.h"

namespace tilewright::lce {

/// Sorting a chunk's rows by label. Whichever way, rows without a label (-1) come first, and rows of one
/// label are in the order in which they come; `run[s]` is the number of a label's rows where they begin at
/// position s, and 0 elsewhere; `slot[label]` is that s, and must be -1 beforehand.
///
/// - Few rows are all compared with one another (`rankLabels`), which is one launch.
/// - A GPU sorts many rows in blocks (`sortBlocks`), of which `mergeBlocks` makes one: a row's place is its
///   place in its own block and, found by binary search, those in all the others. That is two launches for
///   32768 rows, and three for a million.
/// - A CPU counts the labels of many rows in one program (`countLabels`), which takes a few nanoseconds a row
///   and class.

constexpr int64_t kSortedBlock = 1024; ///< rows
constexpr int64_t kMergedBlocks = 32;  ///< that become one

/// The merges of so many rows, first to last: how many rows the blocks have that each one takes. Not empty.
std::vector<int64_t> planMerges(int64_t rows);

/// Each block's rows by label, and where labels are equal in the order in which they come: their labels, and
/// their numbers. -1 (no row) comes first.
///
/// (label C, out labels C, out rows C)
Kernel sortBlocks();

struct MergeSpec {
  int64_t blockRows; ///< a power of two
  bool isLast;       ///< it makes one block of all
};

/// Blocks of `blockRows` sorted rows, `kMergedBlocks` of them at a time, become one each.
///
/// (labels C, rows C, out labels C, out rows C)
/// the last: (labels C, rows C, out order C, out run C, out slot V)
Kernel mergeBlocks(const MergeSpec &spec);

/// By one program: counts each label's rows, turns counts into places, and puts the rows there.
///
/// (label C, out order C, out run C, out slot V)
Kernel countLabels();

CompileOptions sortBlocksOptions(TargetKind target);
CompileOptions mergeBlocksOptions(TargetKind target);

} // namespace tilewright::lce
