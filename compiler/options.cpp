#include "compiler/options.h"

namespace tilewright {

std::string CompileOptions::str() const {
  return "contractionStep=" + std::to_string(schedule.contractionStep) +
         " optLevel=" + std::to_string(optLevel);
}

} // namespace tilewright
