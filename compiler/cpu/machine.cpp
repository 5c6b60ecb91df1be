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
    machine.bf16Dot = has("+avx512bf16");
  } else if (has("+avx2") && has("+fma")) {
    machine.lanes = 8;
  }
  return machine;
}

} // namespace tilewright::cpu
