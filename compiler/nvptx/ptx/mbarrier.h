#pragma once

#include "compiler/nvptx/ptx/emitter.h"

namespace tilewright::nvptx {

/// Barriers in shared memory that count arrivals and bytes (PTX: mbarrier), 8 bytes each. A barrier goes
/// through *phases*, numbered from 0; who waits gives the parity of the phase that must be over. `address` is
/// an i32.
void initBarrier(Emitter &e, Num address, int64_t arrivals);
/// What `initBarrier` did becomes visible to the copy engine; a barrier of all threads must follow.
void fenceBarrierInit(Emitter &e);
/// Arrives, and makes the phase wait for `bytes` more that copies announce.
void arriveExpecting(Emitter &e, Num address, int64_t bytes);
void arrive(Emitter &e, Num address);
/// At the barrier that lies at the same place in another CTA of the cluster.
void arriveAt(Emitter &e, Num address, Num cta);
void waitForPhase(Emitter &e, Num address, Num parity);

/// All threads of the cluster's CTAs have come to the first before any leaves the second. What they wrote is
/// not seen; barriers that were initialised, and fenced, are.
void clusterArrive(Emitter &e);
void clusterWait(Emitter &e);
/// All threads of the cluster's CTAs have come here, and see what each wrote before.
void clusterBarrier(Emitter &e);

/// Writes to shared memory by this thread come before what the copy engine and the tensor cores do next.
void fenceAsyncProxy(Emitter &e);

/// A number (i32) that branches and loops change: memory of the thread, which LLVM turns into registers.
class Variable {
public:
  Variable(Emitter &e, int64_t initial);
  Num get() const;
  void set(Num number);

private:
  Emitter *e;
  Value slot;
};

} // namespace tilewright::nvptx
