#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {

struct Instruction {
  std::string text;
  int predicate = -1; ///< its register
  bool whenFalse = false;
  ThreadInstruction run; ///< of a thread; else
  WarpInstruction all;   ///< of a warp
};

/// A kernel's instructions, with what a launch passes.
class Program {
public:
  Program(const std::string &ptx, std::vector<uint64_t> parameters);

  /// Warps take turns, each as far as it comes.
  void run(Launch &launch) const;

private:
  void addVariables(const std::string &head);
  void add(std::string statement);
  std::string inScope(const std::string &label) const;

  bool advance(const Warp &warp) const;
  bool step(Thread &thread) const;

  Operands operands_;
  std::deque<std::vector<uint64_t>> variables_;
  std::map<std::string, std::size_t> labels_;
  std::vector<std::pair<std::size_t, std::string>> branches_;
  std::vector<Instruction> instructions_;
  int scope_ = 0, scopes_ = 0;
};

} // namespace tilewright::test::ptx
