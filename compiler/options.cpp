#include "compiler/options.h"

namespace tilewright {

using WarpRoles = Schedule::WarpRoles;

constexpr WarpRoles kWarpRoles[] = {WarpRoles::automatic, WarpRoles::alike, WarpRoles::cooperative,
                                    WarpRoles::pingPong};

const char *warpRolesName(WarpRoles roles) {
  switch (roles) {
  case WarpRoles::automatic:
    return "automatic";
  case WarpRoles::alike:
    return "alike";
  case WarpRoles::cooperative:
    return "cooperative";
  case WarpRoles::pingPong:
    return "pingPong";
  }
  return "unknown";
}

StatusOr<WarpRoles> parseWarpRoles(const std::string &name) {
  std::string choices;
  for (WarpRoles roles : kWarpRoles) {
    if (name == warpRolesName(roles)) return roles;
    choices += (choices.empty() ? "" : ", ") + std::string(warpRolesName(roles));
  }
  return userError("warp roles '" + name + "' are not known; choices: " + choices);
}

std::string CompileOptions::str() const {
  return "contractionStep=" + std::to_string(schedule.contractionStep) +
         " stages=" + std::to_string(schedule.stages) + " warps=" + std::to_string(schedule.warps) +
         " roles=" + warpRolesName(schedule.roles) + " clusterCtas=" + std::to_string(schedule.clusterCtas) +
         " swapsOperands=" + std::to_string(schedule.swapsOperands) +
         " rasterRows=" + std::to_string(schedule.rasterRows) +
         " rowBlock=" + std::to_string(schedule.rowBlock) +
         " rowUnroll=" + std::to_string(schedule.rowUnroll) +
         " rowBytes=" + std::to_string(schedule.rowBytes) +
         " rowPartners=" + std::to_string(schedule.rowPartners) +
         " nextIsProduct=" + std::to_string(schedule.nextIsProduct) +
         " runsBeside=" + std::to_string(schedule.runsBeside) + " tf32=" + std::to_string(tf32) +
         " alignedMatrices=" + std::to_string(alignedMatrices) + " optLevel=" + std::to_string(optLevel);
}

} // namespace tilewright
