#pragma once

#include <cstdint>

namespace tilewright::nvptx {

/// How a CTA's warps share a product; as Schedule::WarpRoles.
enum class WarpRoles { automatic, alike, cooperative, pingPong };

/// What is known before a kernel is lowered. Each pass has options for what it reads.
struct LoweringOptions {
  int warps = 0;                  ///< 0: chosen by the kernel's tiles
  bool tf32 = false;              ///< fp32 operands are rounded to TF32
  int stages = 0;                 ///< of the copy pipeline; 0: as many as fit
  int64_t step = 0;               ///< elements of the contracted axis in a stage; 0: chosen
  int64_t sharedLimit = 99 << 10; ///< bytes of shared memory that a CTA can have
  bool hopper = false;            ///< sm_90a, and matrices that its copy engine can read
  WarpRoles roles = WarpRoles::automatic;
  int64_t clusterCtas = 0;    ///< 1 or 2, see WarpPlan; 0: chosen
  bool swapsOperands = false; ///< see WarpPlan
  int64_t rasterRows = 0;     ///< see ProgramOrder; 0: with roles chosen, else CTAs in the grid's order
  bool warpgroups = false;    ///< the threads of this lowering multiply views by wgmma
  bool wgmma = false;         ///< sm_90a: those of any kernel can multiply tiles by it
};

} // namespace tilewright::nvptx
