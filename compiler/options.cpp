#include "compiler/options.h"

namespace tilewright {

std::string CompileOptions::str() const {
  return "contractionStep=" + std::to_string(schedule.contractionStep) +
         " stages=" + std::to_string(schedule.stages) + " warps=" + std::to_string(schedule.warps) +
         " tf32=" + std::to_string(tf32) + " optLevel=" + std::to_string(optLevel);
}

} // namespace tilewright
