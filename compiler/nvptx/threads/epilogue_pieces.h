#pragma once

#include "compiler/nvptx/ptx/store_target.h"

namespace tilewright::nvptx {

/// Whether so many accumulators leave a thread hardly any other registers.
bool fillsRegisters(int64_t accumulators);

/// What a group of sinks holds in a thread's registers, and does with them.
struct EpilogueWork {
  int64_t rows = 0, columns = 0; ///< registers of its tiles
  bool hasRole = false;          ///< the warps do only a part of a product
  size_t stores = 0, sums = 0;   ///< how many
  bool sumsRows = true;          ///< of all sums
  int64_t steps = 0;             ///< to a number, of which
  int64_t tanhs = 0;             ///< so many are `tanh`, which `expand_math` makes several of
  StoreTarget::Piece wanted;     ///< by the stores; a row, if they want nothing
  size_t blocks = 0;             ///< that it loads
  int64_t rowVector = 0;         ///< registers of the longest row of a vector that it loads
  bool storesF32 = false;        ///< whose numbers take a register each, not two in one
};

/// How a group goes over its registers: piece by piece, and part by part of a piece.
struct EpiloguePieces {
  StoreTarget::Piece piece, part;
  bool isFull = false;     ///< accumulators fill the registers
  bool areBlocks = false;  ///< parts are basic blocks of their own
  bool loadsParts = false; ///< what is loaded is loaded for each part
  bool loadsAhead = false; ///< and asked for while the piece before is worked on
  bool isCrowded = false;  ///< a part's loads stand together, ahead of it
  bool roundsPairs = true; ///< else there are registers for one number at a time only
  int64_t narrow = 0;      ///< registers of rows that are loaded ahead of all pieces, at most
  int64_t mostRows = 0;    ///< of a piece, where it is tall
  bool isTall = false; ///< a thread has few columns of many rows: what each row has is loaded for each part

  /// Of tall pieces, the rows at once from `row` on of so many. Each piece waits for what its rows have in
  /// memory. Each quarter of the accumulators that is stored leaves registers for twice as many rows.
  int64_t tallRows(int64_t row, int64_t rows) const;
};

/// Rows one by one, or in the pieces that a store wants. Where accumulators fill the registers, warps with
/// roles take pieces of a row, and each piece (or, where there are most accumulators and a store, each of its
/// rows, or a half or a quarter of one) is a basic block of its own. Blocks that it loads are asked for while
/// the piece before is worked on, unless there is so much of them, or of accumulators, that registers would
/// run out.
EpiloguePieces piecesOf(const EpilogueWork &work);

} // namespace tilewright::nvptx
