#include "compiler/cpu/machine.h"

#include <algorithm>

namespace tilewright::cpu {

Machine machineFor(const Target &target, int64_t contractionStep) {
  auto has = [&](const char *feature) {
    return ("," + target.features + ",").find("," + std::string(feature) + ",") != std::string::npos;
  };
  Machine machine;
  // The contracted axis is packed in whole vectors of pairs.
  if (contractionStep > 0) machine.contractionStep = std::max<int64_t>(64, contractionStep / 64 * 64);
  if (has("+avx512f") && has("+avx512bw") && has("+avx512vl")) {
    machine.lanes = 16;
    machine.registers = 32;
    machine.scales = has("+avx512dq");
    // Zen 4 and later multiply pairs twice as fast as fp32 numbers. Intel's processors, which lack AMD's
    // SSE4a, do it half as fast: a Sapphire Rapids took 345 ms for what it does in 202 ms in fp32.
    machine.bf16Dot = has("+avx512bf16") && has("+sse4a");
    machine.tiles = has("+amx-tile") && has("+amx-bf16");
  } else if (has("+avx2") && has("+fma")) {
    machine.lanes = 8;
  } else if (has("+neon")) {
    machine.registers = 32;
  }
  return machine;
}

std::string describe(const Machine &machine) {
  const char *bf16 = machine.tiles     ? "bf16 multiplied in tiles (AMX)"
                     : machine.bf16Dot ? "bf16 multiplied in pairs (AVX512-BF16)"
                                       : "bf16 multiplied as fp32";
  return "vectors of " + std::to_string(machine.lanes) + " numbers, " + bf16;
}

} // namespace tilewright::cpu
