#pragma once

#include "compiler/cpu/emitter.h"

namespace tilewright::cpu {

/// Products of bf16 in the tile registers of AMX, each 16 rows of 64 bytes. An operand's packed element is a
/// pair of bf16 numbers adjacent along the contracted axis; 16 of them are one *step*. A micro tile is of
/// 32 × 32 sums in four registers; the other four hold two tiles of either operand, so that four products
/// (16 cycles each) hide four loads (8 cycles each).
class AmxTiles {
public:
  static constexpr int64_t kRows = 16, kColumns = 16, kUnits = 16; ///< of one register
  static constexpr int64_t kMicroRows = 2 * kRows, kMicroColumns = 2 * kColumns;
  static constexpr int64_t kScratchBytes = 4 * kMicroRows * kMicroColumns;

  /// `scratch` has kScratchBytes, aligned to 64.
  AmxTiles(Emitter &emitter, Value scratch) : e(emitter), b(emitter.b), scratch(scratch) {}

  /// Says how large the registers' tiles are; before any product.
  void configure();
  /// Afterwards: a thread whose tiles are in use is switched more slowly.
  void release();

  /// sums[r, c] += Σ_u left[r, u]·right[u, c] for `rowTiles` (1 or 2) × 16 rows and 32 columns, over `units`
  /// rounded up to steps. `leftStride` is the distance of left's rows and `sumsStride` that of sums' rows, in
  /// elements; right's rows are as long as they are. The sums of one call are added up apart from `sums`.
  void multiply(int64_t rowTiles, Value left, int64_t leftStride, Value right, Value units, Value sums,
                int64_t sumsStride);

private:
  void call(const char *intrinsic, ValueRange arguments);
  Value tile(int64_t number);
  Value bytes(int64_t count);
  void load(int64_t number, Value from, int64_t stride);
  void addTo(Value sums, int64_t sumsStride, int64_t rows);

  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  Value scratch;
};

} // namespace tilewright::cpu
