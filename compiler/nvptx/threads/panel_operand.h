#pragma once

#include "compiler/nvptx/threads/product.h"

namespace tilewright::nvptx {

/// A strip's way through shared memory as fp32, depth by depth (see panelStride). Where memory has it in that
/// order, and aligned, 16 bytes a copy; else element by element, 16-bit ones through registers.
class PanelOperand {
public:
  /// `step`: elements of the contracted axis in a stage.
  PanelOperand(Lowering &lowering, const Strip &strip, int64_t step);

  int64_t bytes() const { return 4 * step * panelStride(*strip.map); }
  /// Starts to copy elements [k, k + step), zeros where there are none.
  void copy(Num shared, Num k);

private:
  void copyChunks(Num shared, Num first);
  void copyElements(Num shared, Num first);
  void copyElement(Num shared, Num first, Num number);
  /// The panel's place for a position and a depth, in bytes.
  Num place(Num position, Num k) { return (k * panelStride(*strip.map) + position) * 4; }
  Value widened(Value bits);
  /// f(thread), f(thread + threads), … below `total`; in a loop where these are too many to unroll.
  void forThread(int64_t total, int64_t mostUnrolled, llvm::function_ref<void(Num)> f);

  Lowering &lowering;
  Emitter &e;
  Strip strip;
  int64_t step;
  Value aligned; ///< uniform; null where chunks are not to be had
};

} // namespace tilewright::nvptx
