#pragma once

#include <cstdint>
#include <string>

#include "compiler/target.h"

namespace tilewright::cpu {

/// What the lowering needs to know of a processor.
struct Machine {
  int lanes = 4;        ///< fp32 numbers in a vector register
  int registers = 16;   ///< vector registers
  bool bf16Dot = false; ///< has vdpbf16ps: two bf16 products a lane, summed in fp32
  bool scales = false;  ///< has vreduceps and vscalefps: x - ⌊x⌋ and x·2^⌊y⌋ (AVX-512 DQ)
  bool tiles = false;   ///< has tdpbf16ps: tiles of bf16 multiplied, summed in tiles of fp32 (AMX)
  int64_t contractionStep = 256;
  bool tf32 = false; ///< products round fp32 operands to TF32, so that results are those of tensor cores

  /// The accumulators of a product's inner loop: microRows × microColumns fp32 numbers stay in registers. Two
  /// vectors wide, so that one broadcast feeds two multiply-adds; 16 (or 12) accumulators cover their
  /// latency.
  int microRows() const { return registers >= 32 ? 8 : 6; }
  int microColumns() const { return 2 * lanes; }
};

/// A contraction step of 0 is the lowering's own choice.
Machine machineFor(const Target &target, int64_t contractionStep);

/// What of the processor its code uses, for people: "vectors of 8 numbers, bf16 multiplied as fp32".
std::string describe(const Machine &machine);

} // namespace tilewright::cpu
