#pragma once

#include "compiler/nvptx/ptx/mbarrier.h"

namespace tilewright::nvptx {

/// Stages of shared memory through which one warp feeds others. The i-th step of all of a CTA's programs
/// passes through stage i mod S. Two barriers of each stage say whose it is:
///
///     full    over when a step's bytes have arrived
///     empty   over when each of the `readers`, of all CTAs that the step's bytes go to, has done with it
class StageRing {
public:
  /// Memory at `base` (i32, a multiple of 1024): the stages, then the barriers.
  StageRing(Emitter &e, Num base, int64_t stages, int64_t stageBytes);

  static int64_t bytes(int64_t stages, int64_t stageBytes) { return stages * (stageBytes + 16); }
  void initBarriers(int64_t readers);

  /// Where a step's data pass.
  struct Place {
    Num stage;  ///< i32, 0 … S-1
    Num parity; ///< i32: of the phase in which the step fills the stage
  };
  Place placeOf(Num step) const;
  Place after(Place place) const;
  Place before(Place place) const;

  Num data(Place place) const;
  Num full(Place place) const;
  Num empty(Place place) const;

  /// The stage's earlier data are no longer needed.
  void waitUntilEmpty(Place place) const;
  void waitUntilFull(Place place) const;

private:
  Emitter &e;
  Num base;
  int64_t stages, stageBytes;
};

} // namespace tilewright::nvptx
