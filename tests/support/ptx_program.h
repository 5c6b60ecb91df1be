#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "compiler/number_formats.h"

namespace tilewright::test::ptx {

constexpr int kWarp = 32; ///< threads

/// An mbarrier: a phase is over when all have arrived and all bytes that they expect have.
struct PhaseBarrier {
  int64_t arrivals = 0, missing = 0, bytes = 0;
  bool phase = false; ///< parity of the one under way

  void arrive();
  void take(int64_t landed); ///< bytes
  void settle();
};

/// Of threads: how many have arrived, and how often all of them had.
struct ThreadBarrier {
  uint64_t arrived = 0, round = 0;

  /// Which round the threads that arrive are to wait for the end of.
  uint64_t arrive(uint64_t threads, uint64_t all);
};

struct Launch;

struct Cta {
  std::vector<char> shared;
  /// Of each byte: whether the copy engine and wgmma may not see yet what it holds. Empty where there are
  /// none.
  std::vector<char> unfenced;
  std::array<uint32_t, 3> number{}, grid{};
  uint32_t threads = 0;
  Launch *launch = nullptr;
  std::vector<Cta *> cluster; ///< all of its cluster, of which the first has the cluster's barrier
  ThreadBarrier ofCluster;
  std::map<uint64_t, ThreadBarrier> named;
  std::map<uint64_t, PhaseBarrier> phases; ///< by address
};

/// CTAs that run side by side, of which those of a cluster see each other's shared memory. Copies to
/// shared memory land at once, or as late as can be: those of boxes one after the other, when nobody could go
/// on without. Then a wait for them that is missing finds what was there before.
struct Launch {
  std::deque<Cta> ctas;
  bool landsLate = false;
  std::deque<std::function<void()>> copies; ///< that have not landed
};

/// What goes on beside a thread, in groups of which it may wait for the oldest.
struct Groups {
  std::vector<std::function<void()>> open; ///< in no group yet
  std::deque<std::vector<std::function<void()>>> committed;

  void commit() { committed.push_back(std::exchange(open, {})); }
  /// For all but so many: then they are done.
  void wait(std::size_t left);
};

struct Thread {
  uint32_t number = 0;
  std::size_t next = 0; ///< instruction
  bool done = false;
  std::vector<uint64_t> registers;
  Cta *cta = nullptr;
  bool waits = false;  ///< its instruction is to be tried again, when others have done something
  bool yields = false; ///< lets others go on first
  std::optional<uint64_t> awaited, awaitedOfCluster;     ///< rounds of barriers
  std::vector<std::pair<uint64_t, std::size_t>> written; ///< of its CTA's shared memory since its last fence
  Groups loads;                                          ///< by cp.async
  Groups stores;   ///< of boxes, which read shared memory as late as they may
  Groups products; ///< of its warp's wgmma: what looks whether their operands are still there
};

[[noreturn]] inline void fail(const std::string &what) { throw std::runtime_error(what); }

inline float toFloat(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, 4);
  return value;
}
inline uint64_t toBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

/// `bytes` of memory; fails where they are not aligned, or beyond the shared memory.
char *at(const Thread &thread, bool isShared, uint64_t address, std::size_t bytes);

/// Stores by threads are seen by the copy engine and wgmma behind a fence.proxy.async of theirs.
void noteWritten(Thread &thread, uint64_t address, std::size_t bytes);
void fence(Thread &thread);
void requireFenced(const Cta &cta, uint64_t place, std::size_t bytes);

/// Addresses in a cluster's shared memory have the CTA's place in it, from 1 on, above these bits; without,
/// they are the thread's own CTA's.
constexpr int kRankShift = 24;
Cta &ctaOf(const Thread &thread, uint64_t address);
inline uint64_t withinCta(uint64_t address) { return address & ((1 << kRankShift) - 1); }
PhaseBarrier &phaseBarrier(Cta &cta, uint64_t place);

/// A register, a constant, or something that a thread knows of itself.
using Operand = std::function<uint64_t(const Thread &)>;
using Warp = std::vector<Thread *>;

/// "a.b.c" in pieces, and what type the last of them names.
struct Operation {
  explicit Operation(const std::string &text);
  bool has(const std::string &part) const;
  /// A number of kind f, of 16 (f16) or 32 bits.
  float real(uint64_t x) const { return bits == 16 ? floatFromF16(static_cast<uint16_t>(x)) : toFloat(x); }
  uint64_t fromReal(float x) const { return bits == 16 ? f16FromDouble(x) : toBits(x); }
  uint64_t cut(uint64_t x) const { return bits >= 64 || bits == 0 ? x : x & ((uint64_t(1) << bits) - 1); }
  int64_t number(uint64_t x) const; ///< as its type says

  std::vector<std::string> parts;
  char kind = ' ';
  int bits = 0;
};

/// What an instruction's operands stand for. Registers get numbers as they come.
class Operands {
public:
  explicit Operands(std::vector<uint64_t> parameters) : parameters_(std::move(parameters)) {}

  int registerOf(const std::string &name);
  /// A constant's name, or a variable's, whose address it stands for.
  void define(const std::string &name, uint64_t value) { constants_[name] = value; }
  /// Of a register, a constant, `%tid.x` and its like, or `shared_memory`, which begins at 0.
  Operand value(const std::string &text);
  /// Of "[register + offset]".
  Operand address(const std::string &text);
  /// Of "[kernel_param_7]".
  uint64_t parameter(const std::string &text) const;
  std::size_t registers() const { return registers_.size(); }

private:
  std::vector<uint64_t> parameters_;
  std::map<std::string, int> registers_;
  std::map<std::string, uint64_t> constants_ = {{"shared_memory", 0}};
};

/// At commas that are not in brackets or braces.
std::vector<std::string> split(const std::string &text);
/// The items of "{a, b}"; or else the text.
std::vector<std::string> list(const std::string &text);

/// What a calculation with floats gives; or cvt, from one type to another: two floats become a pair of 16
/// bits, of which the first is the upper one.
Operand computeFloat(const Operation &op, const std::vector<Operand> &x);
Operand computePair(const Operation &op, const std::vector<Operand> &x); ///< of two bf16 at once
Operand convert(const Operation &op, const std::vector<Operand> &x);

/// What TMA knows of a matrix, instead of the driver's descriptor.
struct BoxMap {
  char *data;
  int64_t rows, columns, stride; ///< bytes from one row to the next
  int64_t boxRows, boxColumns, numberBytes;
  bool roundsToTf32;
};

constexpr int64_t kLine = 128; ///< bytes of shared memory whose chunks are permuted
/// Where a line, swizzled, keeps what would be at `address`.
inline uint64_t swizzled(uint64_t address) { return address ^ (address >> 7 & 7) << 4; }

using ThreadInstruction = std::function<void(Thread &)>;
/// False: it waits.
using WarpInstruction = std::function<bool(const Warp &)>;

/// What a thread does by itself.
ThreadInstruction threadInstruction(Operands &operands, const Operation &op,
                                    const std::vector<std::string> &a);
/// The same of barriers, and of copies of boxes; empty of others.
ThreadInstruction barrierInstruction(Operands &operands, const Operation &op,
                                     const std::vector<std::string> &a);
ThreadInstruction boxInstruction(Operands &operands, const Operation &op, const std::vector<std::string> &a);
/// What a warp does together; empty of others.
WarpInstruction warpInstruction(Operands &operands, const Operation &op, const std::vector<std::string> &a);
WarpInstruction namedBarrier(Operands &operands, const Operation &op, const std::vector<std::string> &a);
WarpInstruction warpgroupProduct(Operands &operands, const Operation &op, const std::vector<std::string> &a);

} // namespace tilewright::test::ptx
