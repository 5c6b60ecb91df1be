#pragma once

#include "compiler/nvptx/ptx/emitter.h"

namespace tilewright::nvptx {

/// Starts a copy of 4, 8 or 16 bytes from global (i64) to shared memory (i32), both aligned to as many bytes
/// (PTX: cp.async). Only the first `liveBytes` (i32; null: all) are read; zeros take the place of the rest.
void copyAsync(Emitter &e, Num shared, Num global, int64_t bytes, Value liveBytes = {});
/// The copies that this thread started since it last called this become a group.
void commitCopies(Emitter &e);
/// Waits until at most so many of this thread's groups are under way, the last ones.
void waitForCopies(Emitter &e, int64_t stillUnderWay);

} // namespace tilewright::nvptx
