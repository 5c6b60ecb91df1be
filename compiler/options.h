#pragma once

#include <cstdint>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

/// How a kernel is lowered, as opposed to what it computes; what an autotuner sweeps beside a kernel's block
/// shape.
struct Schedule {
  /// Which warps of a program copy operands and which multiply them; sm_90a only.
  enum class WarpRoles {
    automatic,   ///< the target's choice
    alike,       ///< every warp copies and multiplies, the portable way
    cooperative, ///< one warp copies, two warpgroups multiply halves of one tile
    pingPong,    ///< one warp copies, two warpgroups have a tile each: one stores while the other multiplies
  };

  int64_t contractionStep =
      0;          ///< elements of the contracted axis that are staged at once; 0: the target's choice
  int stages = 0; ///< nvptx: of the copies that feed a product; 0: as many as pay
  int warps = 0;  ///< nvptx: of one program; 0: by its tiles
  WarpRoles roles = WarpRoles::automatic;
  int clusterCtas = 0; ///< nvptx, with roles: neighbouring tiles whose programs share the copies of the
                       ///< operand that is the same for all, 1 or 2; 0: chosen
  bool swapsOperands = false; ///< sm_90a, with roles: the tensor cores compute a tile's transpose, so that
                              ///< the left operand of the product is their right one
  int rasterRows = 0;         ///< nvptx: tiles of so many rows of blocks are walked column by column, so that
                              ///< operands stay in L2; 0: chosen
  int64_t rowBlock = 0;       ///< columns of a streamed row's blocks; 0: chosen
  int rowUnroll = 0;          ///< so many of those blocks are one in the row's interior; 0: chosen
  int64_t rowBytes = 0; ///< nvptx: as many bytes of a streamed row are kept in shared memory between sweeps;
                        ///< a longer row is slow
  int rowPartners = 1;  ///< sm_90: so many CTAs of a cluster share the columns of a streamed row
  bool nextIsProduct = false; ///< sm_90, of a kernel without one: the next launch takes its places when this
                              ///< one's work is done
  /// sm_90, of a kernel without a product: the launch before it may go on meanwhile. The kernel reads nothing
  /// that launch writes, neither writes memory that the other touches, and that launch runs beside none.
  bool runsBeside = false;
};

const char *warpRolesName(Schedule::WarpRoles roles);

/// Reads a name as `warpRolesName` writes it; a user error lists the names there are.
StatusOr<Schedule::WarpRoles> parseWarpRoles(const std::string &name);

struct CompileOptions {
  Schedule schedule;
  bool tf32 = false; ///< products round fp32 operands to TF32: 10 bits after the leading one, to nearest
  /// The caller promises: matrices begin, and their rows lie apart, at multiples of 16 bytes; and where
  /// rows are read beside a product's operands, or picked by number, they are as long as such a multiple. On
  /// sm_90a matrices may then be copied by TMA.
  bool alignedMatrices = false;
  int optLevel = 2; ///< LLVM's code generation level, 0 to 3

  /// Canonical text, as it enters a cache key.
  std::string str() const;
};

} // namespace tilewright
