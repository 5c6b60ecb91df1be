#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {

void PhaseBarrier::settle() {
  if (missing < 0) fail("more arrive at an mbarrier than it waits for");
  if (missing > 0 || bytes != 0) return;
  phase = !phase;
  missing = arrivals;
}
void PhaseBarrier::arrive() {
  --missing;
  settle();
}
void PhaseBarrier::take(int64_t landed) {
  bytes -= landed; // below 0 where they land before they are expected
  settle();
}

uint64_t ThreadBarrier::arrive(uint64_t threads, uint64_t all) {
  const uint64_t mine = round;
  arrived += threads;
  if (arrived > all) fail("more threads arrive at a barrier than it waits for");
  if (arrived == all) arrived = 0, ++round;
  return mine;
}

void Groups::wait(std::size_t left) {
  for (; committed.size() > left; committed.pop_front())
    for (const auto &each : committed.front())
      each();
}

PhaseBarrier &phaseBarrier(Cta &cta, uint64_t place) {
  const auto found = cta.phases.find(place);
  if (found == cta.phases.end()) fail("an mbarrier that was not initialised");
  return found->second;
}

namespace {

PhaseBarrier &phaseBarrier(const Thread &t, uint64_t address) {
  return phaseBarrier(ctaOf(t, address), withinCta(address));
}

ThreadInstruction phaseInstruction(Operands &operands, const Operation &op,
                                   const std::vector<std::string> &a) {
  if (op.has("init"))
    return [where = operands.address(a[0]), arrivals = operands.value(a[1])](Thread &t) {
      const auto count = static_cast<int64_t>(arrivals(t));
      ctaOf(t, where(t)).phases[withinCta(where(t))] = {count, count, 0, false};
    };
  const Operand where = operands.address(a[1]);
  if (op.has("try_wait"))
    return [where, to = operands.registerOf(a[0]), parity = operands.value(a[2])](Thread &t) {
      const bool isOver = phaseBarrier(t, where(t)).phase != (parity(t) != 0);
      t.registers[to] = isOver;
      t.waits = !isOver;
    };
  if (op.has("expect_tx"))
    return [where, bytes = operands.value(a[2])](Thread &t) {
      PhaseBarrier &barrier = phaseBarrier(t, where(t));
      barrier.bytes += static_cast<int64_t>(bytes(t));
      barrier.arrive();
    };
  if (!op.has("arrive")) fail("instruction mbarrier." + op.parts[1]);
  return [where](Thread &t) { phaseBarrier(t, where(t)).arrive(); };
}

ThreadInstruction clusterInstruction(const Operation &op) {
  if (op.has("arrive"))
    return [](Thread &t) {
      const uint64_t all = uint64_t(t.cta->threads) * t.cta->cluster.size();
      t.awaitedOfCluster = t.cta->cluster[0]->ofCluster.arrive(1, all);
    };
  return [](Thread &t) {
    t.waits = t.awaitedOfCluster == t.cta->cluster[0]->ofCluster.round;
    if (!t.waits) t.awaitedOfCluster.reset();
  };
}

/// st.async: a store of which the mbarrier in the last operand is told.
ThreadInstruction storeAndTell(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  const int64_t bytes = op.bits / 8;
  return [bytes, where = operands.address(a[0]), value = operands.value(a[1]),
          told = operands.address(a[2])](Thread &t) {
    const uint64_t bits = value(t);
    std::memcpy(at(t, true, where(t), bytes), &bits, bytes);
    phaseBarrier(t, told(t)).take(bytes);
  };
}

} // namespace

ThreadInstruction barrierInstruction(Operands &operands, const Operation &op,
                                     const std::vector<std::string> &a) {
  const std::string &name = op.parts[0];
  if (name == "mbarrier") return phaseInstruction(operands, op, a);
  if (name == "barrier") return clusterInstruction(op);
  if (name == "st" && op.parts[1] == "async") return storeAndTell(operands, op, a);
  if (name == "nanosleep") return [](Thread &t) { t.yields = true; };
  if (name == "mapa")
    return [to = operands.registerOf(a[0]), address = operands.value(a[1]), rank = operands.value(a[2])](
               Thread &t) { t.registers[to] = withinCta(address(t)) | (rank(t) + 1) << kRankShift; };
  return {};
}

/// bar.sync and bar.arrive of all of a CTA's threads, or as many as are told.
WarpInstruction namedBarrier(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  if (op.has("warp")) return [](const Warp &) { return true; };
  const Operand count = a.size() > 1 ? operands.value(a[1])
                                     : Operand([](const Thread &t) -> uint64_t { return t.cta->threads; });
  return [count, number = operands.value(a[0]), waits = op.has("sync")](const Warp &warp) {
    Thread &t = *warp[0]; // in the name of all
    ThreadBarrier &barrier = t.cta->named[number(t)];
    if (!t.awaited) t.awaited = barrier.arrive(kWarp, count(t));
    if (waits && barrier.round == *t.awaited) return false;
    t.awaited.reset();
    return true;
  };
}

} // namespace tilewright::test::ptx
