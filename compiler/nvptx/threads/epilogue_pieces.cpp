#include "compiler/nvptx/threads/epilogue_pieces.h"

#include <algorithm>
#include <numeric>

namespace tilewright::nvptx {

namespace {

constexpr int64_t kManyAccumulators = 128;

int64_t stepsOf(const EpilogueWork &work) {
  constexpr int64_t kTanhSteps = 8; // of both ways to it
  return work.steps + work.tanhs * (kTanhSteps - 1);
}

} // namespace

int64_t EpiloguePieces::tallRows(int64_t row, int64_t rows) const {
  int64_t atOnce = std::min(mostRows, piece.rows << (4 * row / rows));
  while ((rows - row) % atOnce)
    atOnce /= 2;
  return atOnce;
}

bool fillsRegisters(int64_t accumulators) { return accumulators > kManyAccumulators; }

/// The limits in this file are those beyond which ptxas of CUDA 13.0 spilled for sm_90a, with 232 or 240
/// registers a thread that multiplies, on 2026-11-21 to 23: `bazel test //tests/kernels:lce_hopper_test
/// //tests/unit/compiler:ptx_test` fails where a kernel spills.
EpiloguePieces piecesOf(const EpilogueWork &work) {
  constexpr int64_t kManyRegisters = 64; // of accumulators, which leave few for the rest
  constexpr size_t kFewSums = 3;         // that leave registers to round numbers in pairs
  constexpr size_t kFewBlocks = 1;       // that are loaded, for which there are registers beside accumulators
  constexpr int64_t kPieceColumns = 16;  // registers of a row that are then worked on at once, or half
  constexpr int64_t kManySteps = 26;     // to a number, of which two rows at once would not fit beside those
  constexpr int64_t kTallRows = 2;       // of the first pieces of few columns, or of fp32: four spilled in dX
  constexpr int64_t kMostTallRows = 8;   // of such pieces, once there are registers for it

  const int64_t registers = work.rows * work.columns;
  const bool isTight = fillsRegisters(registers), isLong = isTight && stepsOf(work) > kManySteps;
  const bool hasStores = work.stores > 0;
  EpiloguePieces pieces;
  StoreTarget::Piece &piece = pieces.piece = work.wanted;
  pieces.isFull = registers > kManyRegisters && work.sumsRows;
  pieces.roundsPairs = !isTight || work.sums <= kFewSums;
  if (pieces.isFull && work.hasRole && piece.columns > kPieceColumns && work.columns % kPieceColumns == 0)
    piece = {!hasStores && work.rows % 2 == 0 && !isLong ? 2 : 1,
             isLong || (isTight && hasStores) ? kPieceColumns / 2 : kPieceColumns};
  if (work.hasRole && work.sums == 0 && work.columns > 1 && work.rows % kTallRows == 0 &&
      work.rows > work.columns) {
    const int64_t atFirst = isTight ? kTallRows : std::gcd(work.rows, kMostTallRows);
    pieces.piece = pieces.part = {atFirst, work.columns};
    pieces.mostRows = isTight && work.storesF32 ? kTallRows : kMostTallRows;
    pieces.areBlocks = pieces.loadsParts = pieces.isTall = true;
    pieces.narrow = work.columns;
    return pieces;
  }
  pieces.narrow = pieces.isFull ? piece.columns : work.columns;
  pieces.loadsParts = piece.columns < work.columns || piece.rows > 1;
  pieces.areBlocks = pieces.isFull && (pieces.loadsParts || !hasStores);
  const size_t blocks = pieces.loadsParts ? work.blocks : 0;
  const bool loadsRows = pieces.loadsParts && work.rowVector > pieces.narrow;
  pieces.loadsAhead = blocks == 1 && !loadsRows && !isTight;
  pieces.isCrowded = blocks > kFewBlocks && hasStores;
  const int64_t parts = pieces.isCrowded && isTight ? 4 : isLong && hasStores && loadsRows ? 2 : 1;
  pieces.part = {pieces.isCrowded || (isTight && hasStores) ? 1 : piece.rows,
                 piece.columns % (2 * parts) == 0 ? piece.columns / parts : piece.columns};
  return pieces;
}

} // namespace tilewright::nvptx
