#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::test::ptx {

constexpr int kWarp = 32; ///< threads

struct Cta {
  std::vector<char> shared;
  std::array<uint32_t, 3> number{}, grid{};
};

struct Thread {
  uint32_t number = 0;
  std::size_t next = 0; ///< instruction
  bool done = false;
  std::vector<uint64_t> registers;
  Cta *cta = nullptr;
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

/// A register, a constant, or something that a thread knows of itself.
using Operand = std::function<uint64_t(const Thread &)>;
using Warp = std::vector<Thread *>;

/// "a.b.c" in pieces, and what type the last of them names.
struct Operation {
  explicit Operation(const std::string &text);
  bool has(const std::string &part) const;
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
  /// Of `%register`, a constant, `%tid.x` and its like, or `shared_memory`, which begins at 0.
  Operand value(const std::string &text);
  /// Of "[register + offset]".
  Operand address(const std::string &text);
  /// Of "[kernel_param_7]".
  uint64_t parameter(const std::string &text) const;
  std::size_t registers() const { return registers_.size(); }

private:
  std::vector<uint64_t> parameters_;
  std::map<std::string, int> registers_;
};

/// At commas that are not in brackets or braces.
std::vector<std::string> split(const std::string &text);
/// The items of "{a, b}"; or else the text.
std::vector<std::string> list(const std::string &text);

/// What a calculation with floats gives; or cvt, from one type to another: two floats become a pair of 16
/// bits, of which the first is the upper one.
Operand computeFloat(const Operation &op, const std::vector<Operand> &x);
Operand convert(const Operation &op, const std::vector<Operand> &x);

/// What a thread does by itself.
std::function<void(Thread &)> threadInstruction(Operands &operands, const Operation &op,
                                                const std::vector<std::string> &a);
/// What a warp does together (shfl, ldmatrix, mma); empty of others.
std::function<void(const Warp &)> warpInstruction(Operands &operands, const Operation &op,
                                                  const std::vector<std::string> &a);

} // namespace tilewright::test::ptx
