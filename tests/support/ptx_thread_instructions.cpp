#include <algorithm>
#include <cmath>

#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {
namespace {

Operand compare(const Operation &op, const std::vector<Operand> &x) {
  const std::string &how = op.parts[1];
  const auto with = [&](auto f) -> Operand {
    if (op.kind == 'f') return [=](const Thread &t) { return f(op.real(x[0](t)), op.real(x[1](t))); };
    if (op.kind == 'u' && op.bits == 64) return [=](const Thread &t) { return f(x[0](t), x[1](t)); };
    return [=](const Thread &t) { return f(op.number(x[0](t)), op.number(x[1](t))); };
  };
  if (how == "lt") return with([](auto p, auto q) { return p < q; });
  // Of floats, true where either is no number.
  if (how == "ltu") return with([](auto p, auto q) { return !(p >= q); });
  if (how == "gtu") return with([](auto p, auto q) { return !(p <= q); });
  if (how == "leu") return with([](auto p, auto q) { return !(p > q); });
  if (how == "geu") return with([](auto p, auto q) { return !(p < q); });
  if (how == "equ") return with([](auto p, auto q) { return !(p < q || p > q); });
  if (how == "neu") return with([](auto p, auto q) { return !(p == q); });
  if (how == "le") return with([](auto p, auto q) { return p <= q; });
  if (how == "gt") return with([](auto p, auto q) { return p > q; });
  if (how == "ge") return with([](auto p, auto q) { return p >= q; });
  if (how == "eq") return with([](auto p, auto q) { return p == q; });
  if (how == "ne" && op.kind == 'f') return with([](auto p, auto q) { return p < q || p > q; });
  if (how == "ne") return with([](auto p, auto q) { return p != q; });
  fail("comparison " + how);
}

Operand compute(const Operation &op, const std::vector<Operand> &x) {
  const std::string &name = op.parts[0];
  if (name == "mov" || name == "cvta") return x[0];
  if (name == "selp") return [=](const Thread &t) { return x[2](t) ? x[0](t) : x[1](t); };
  if (name == "setp") return compare(op, x);
  if (name == "cvt") return convert(op, x);
  if (op.kind == 'f') return computeFloat(op, x);
  if (op.parts.back() == "bf16x2") return computePair(op, x);
  if (name == "mul" && op.has("hi")) {
    if (op.kind != 'u') fail("mul.hi of signed numbers");
    return [=](const Thread &t) {
      return static_cast<uint64_t>(static_cast<unsigned __int128>(op.cut(x[0](t))) * op.cut(x[1](t)) >>
                                   op.bits);
    };
  }
  if ((name == "mul" || name == "mad") && op.has("wide"))
    return [=, added = name == "mad" ? x[2] : [](const Thread &) { return uint64_t(0); }](const Thread &t) {
      return static_cast<uint64_t>(op.number(x[0](t)) * op.number(x[1](t))) + added(t);
    };
  const auto binary = [&](auto f) -> Operand {
    return [=](const Thread &t) {
      return op.cut(static_cast<uint64_t>(f(op.number(x[0](t)), op.number(x[1](t)))));
    };
  };
  if (name == "add") return binary([](int64_t p, int64_t q) { return uint64_t(p) + uint64_t(q); });
  if (name == "sub") return binary([](int64_t p, int64_t q) { return uint64_t(p) - uint64_t(q); });
  if (name == "mul") return binary([](int64_t p, int64_t q) { return uint64_t(p) * uint64_t(q); });
  if (name == "and") return binary([](int64_t p, int64_t q) { return p & q; });
  if (name == "or") return binary([](int64_t p, int64_t q) { return p | q; });
  if (name == "xor") return binary([](int64_t p, int64_t q) { return p ^ q; });
  if (name == "min") return binary([](int64_t p, int64_t q) { return std::min(p, q); });
  if (name == "max") return binary([](int64_t p, int64_t q) { return std::max(p, q); });
  if (name == "div") return binary([](int64_t p, int64_t q) { return q ? p / q : -1; });
  if (name == "rem") return binary([](int64_t p, int64_t q) { return q ? p % q : p; });
  if (name == "shl") return binary([](int64_t p, int64_t q) { return q > 63 ? 0 : uint64_t(p) << q; });
  if (name == "shr" && op.kind == 's')
    return binary([](int64_t p, int64_t q) { return p >> std::min<int64_t>(q, 63); });
  if (name == "shr") return binary([](int64_t p, int64_t q) { return q > 63 ? 0 : uint64_t(p) >> q; });
  if (name == "shf") // of 64 bits, the second operand's above the first's, 32
    return [=, toLeft = op.has("l"), wraps = op.has("wrap")](const Thread &t) {
      const uint64_t both = x[1](t) << 32 | (x[0](t) & 0xffffffff), count = x[2](t) & 0xffffffff;
      const uint64_t by = wraps ? count % 32 : std::min<uint64_t>(count, 32);
      return op.cut(toLeft ? both << by >> 32 : both >> by);
    };
  if (name == "not") return [=](const Thread &t) { return op.cut(~x[0](t)); };
  if (name == "neg") return [=](const Thread &t) { return op.cut(-x[0](t)); };
  if (name == "mad") return [=](const Thread &t) { return op.cut(x[0](t) * x[1](t) + x[2](t)); };
  if (name == "bfe")
    return [=](const Thread &t) { return op.cut(x[0](t)) >> x[1](t) & ((uint64_t(1) << x[2](t)) - 1); };
  fail("instruction " + name);
}

ThreadInstruction access(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  const bool loads = op.parts[0] == "ld", isShared = op.has("shared");
  const Operand where = operands.address(a[loads ? 1 : 0]);
  const std::size_t bytes = op.bits / 8;
  std::vector<Operand> from;
  std::vector<int> to;
  for (const std::string &item : list(a[loads ? 0 : 1]))
    loads ? to.push_back(operands.registerOf(item)) : from.push_back(operands.value(item));
  const std::size_t count = std::max(from.size(), to.size());
  return [=](Thread &t) {
    char *memory = at(t, isShared, where(t), bytes * count);
    if (!loads && isShared) noteWritten(t, where(t), bytes * count);
    for (std::size_t i = 0; i < count; ++i) {
      uint64_t x = loads ? 0 : from[i](t);
      loads ? std::memcpy(&x, memory + i * bytes, bytes) : std::memcpy(memory + i * bytes, &x, bytes);
      if (loads) t.registers[to[i]] = x;
    }
  };
}

/// mov of a register to the pieces of a vector, or back; the first is the lowest.
ThreadInstruction movePieces(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  const bool splits = a[0][0] == '{';
  std::vector<int> to;
  std::vector<Operand> from;
  for (const std::string &item : list(a[0]))
    to.push_back(item == "_" ? operands.registerOf("%unused") : operands.registerOf(item));
  for (const std::string &item : list(a[1]))
    from.push_back(operands.value(item));
  const int bits = op.bits / static_cast<int>(splits ? to.size() : from.size());
  const uint64_t mask = bits < 64 ? (uint64_t(1) << bits) - 1 : ~uint64_t(0);
  return [=](Thread &t) {
    if (splits) {
      const uint64_t whole = from[0](t);
      for (std::size_t i = 0; i < to.size(); ++i)
        t.registers[to[i]] = whole >> i * bits & mask;
      return;
    }
    uint64_t whole = 0;
    for (std::size_t i = 0; i < from.size(); ++i)
      whole |= (from[i](t) & mask) << i * bits;
    t.registers[to[0]] = whole;
  };
}

/// cp.async: so many bytes, of which the first are copied and the rest cleared.
/// Lands at once, or when a thread waits for it.
ThreadInstruction copy(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  if (op.has("commit_group")) return [](Thread &t) { t.loads.commit(); };
  if (op.has("wait_group")) return [left = std::stoul(a[0])](Thread &t) { t.loads.wait(left); };
  const std::size_t bytes = std::stoul(a[2]);
  return [bytes, to = operands.address(a[0]), from = operands.address(a[1]),
          live = operands.value(a[a.size() > 3 ? 3 : 2])](Thread &t) {
    char *memory = at(t, true, to(t), bytes);
    const std::size_t count = static_cast<uint32_t>(live(t));
    if (count > bytes) fail("cp.async of more bytes than it copies");
    const char *source = count ? at(t, false, from(t), bytes) : nullptr;
    const auto lands = [&t, memory, source, count, bytes, place = to(t)] {
      if (count) std::memcpy(memory, source, count);
      std::memset(memory + count, 0, bytes - count);
      noteWritten(t, place, bytes);
    };
    t.cta->launch->landsLate ? t.loads.open.push_back(lands) : lands();
  };
}

/// atom and red, of 32 bits.
ThreadInstruction atomic(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  const bool tells = op.parts[0] == "atom";
  const int to = tells ? operands.registerOf(a[0]) : -1;
  return [to, wraps = op.has("inc"), where = operands.address(a[tells]),
          operand = operands.value(a[tells + 1])](Thread &t) {
    const auto x = static_cast<uint32_t>(operand(t));
    uint32_t old;
    char *memory = at(t, false, where(t), 4);
    std::memcpy(&old, memory, 4);
    const uint32_t next = !wraps ? old + x : old >= x ? 0 : old + 1;
    std::memcpy(memory, &next, 4);
    if (to >= 0) t.registers[to] = old;
  };
}

/// What changes nothing here: a launch begins when the one before it is done, memory is the same for all, and
/// there are registers enough.
bool isHint(const Operation &op) {
  const std::string &name = op.parts[0];
  return name == "griddepcontrol" || name == "fence" || name == "setmaxnreg" || name == "prefetch" ||
         (name == "wgmma" && op.has("fence"));
}

ThreadInstruction waitForProducts(Operands &operands, const Operation &op,
                                  const std::vector<std::string> &a) {
  if (op.has("commit_group")) return [](Thread &t) { t.products.commit(); };
  if (!op.has("wait_group")) fail("instruction wgmma." + op.parts[1]);
  return [left = operands.value(a[0])](Thread &t) { t.products.wait(left(t)); };
}

void end(Thread &t) {
  if (!t.stores.committed.empty() || !t.stores.open.empty())
    fail("a thread ends while its stores of boxes read shared memory");
  t.done = true;
}

} // namespace

ThreadInstruction threadInstruction(Operands &operands, const Operation &op,
                                    const std::vector<std::string> &a) {
  const std::string &name = op.parts[0];
  if (name == "ret") return end;
  if (name == "fence" && op.has("proxy")) return fence;
  if (isHint(op)) return [](Thread &) {};
  if (ThreadInstruction barrier = barrierInstruction(operands, op, a)) return barrier;
  if (ThreadInstruction box = boxInstruction(operands, op, a)) return box;
  if (name == "wgmma") return waitForProducts(operands, op, a);
  if (name == "atom" || name == "red") return atomic(operands, op, a);
  if (name == "ld" && op.has("param")) {
    return [to = operands.registerOf(a[0]), x = operands.parameter(a[1])](Thread &t) { t.registers[to] = x; };
  }
  if (name == "ld" || name == "st") return access(operands, op, a);
  if (name == "cp") return copy(operands, op, a);
  if (name == "mov" && (a[0][0] == '{' || a[1][0] == '{')) return movePieces(operands, op, a);
  const int to = operands.registerOf(a[0]);
  std::vector<Operand> x;
  for (std::size_t i = 1; i < a.size(); ++i)
    x.push_back(operands.value(a[i]));
  const Operand result = compute(op, x);
  return [to, result](Thread &t) { t.registers[to] = result(t); };
}

} // namespace tilewright::test::ptx
