#include "compiler/nvptx/hopper/stage_ring.h"

namespace tilewright::nvptx {

StageRing::StageRing(Emitter &e, Num base, int64_t stages, int64_t stageBytes)
    : e(e), base(base), stages(stages), stageBytes(stageBytes) {}

void StageRing::initBarriers(int64_t readers) {
  for (int64_t s = 0; s < stages; ++s) {
    Place place{e.i32(s), e.i32(0)};
    initBarrier(e, full(place), 1);
    initBarrier(e, empty(place), readers);
  }
}

StageRing::Place StageRing::placeOf(Num step) const { return {step % stages, step / stages & 1}; }

StageRing::Place StageRing::after(Place place) const {
  Num next = place.stage + 1;
  mlir::Value wraps = next == stages;
  return {e.choose(wraps, e.i32(0), next), e.choose(wraps, e.i32(1) - place.parity, place.parity)};
}

StageRing::Place StageRing::before(Place place) const {
  mlir::Value wraps = place.stage == 0;
  return {e.choose(wraps, e.i32(stages - 1), place.stage - 1),
          e.choose(wraps, e.i32(1) - place.parity, place.parity)};
}

Num StageRing::data(Place place) const { return base + place.stage * stageBytes; }
Num StageRing::full(Place place) const { return base + stages * stageBytes + place.stage * 8; }
Num StageRing::empty(Place place) const { return full(place) + stages * 8; }

/// In the first round nobody has to hand the stage back: no phase is over yet, and the parity asked for is
/// that of the phase before the first, which counts as over.
void StageRing::waitUntilEmpty(Place place) const { waitForPhase(e, empty(place), e.i32(1) - place.parity); }
void StageRing::waitUntilFull(Place place) const { waitForPhase(e, full(place), place.parity); }

} // namespace tilewright::nvptx
