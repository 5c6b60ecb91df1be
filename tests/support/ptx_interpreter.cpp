#include "tests/support/ptx_interpreter.h"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "tests/support/ptx_program.h"

namespace tilewright::test {
namespace {

using namespace ptx;

struct Instruction {
  std::string text;
  int predicate = -1; ///< its register
  bool whenFalse = false;
  std::function<void(Thread &)> run;     ///< of a thread; else
  std::function<void(const Warp &)> all; ///< of a warp; else a barrier of the CTA
};

class Program {
public:
  Program(const std::string &ptx, std::vector<uint64_t> parameters) : operands_(std::move(parameters)) {
    const std::string text = std::regex_replace(ptx, std::regex("//[^\n]*"), "");
    const std::size_t entry = text.find(".entry"), body = text.find("\n{", entry);
    if (entry == std::string::npos || body == std::string::npos) fail("there is no kernel");
    std::istringstream stream(text.substr(body + 2, text.rfind('}') - body - 2));
    for (std::string statement; std::getline(stream, statement, ';');)
      add(statement);
    for (auto &[at, label] : branches_)
      instructions_[at].run = [target = labels_.at(label)](Thread &t) { t.next = target; };
  }

  void run(Cta &cta, int threads) const {
    std::vector<Thread> all(threads);
    for (int i = 0; i < threads; ++i)
      all[i] = {static_cast<uint32_t>(i), 0, false, std::vector<uint64_t>(operands_.registers()), &cta};
    for (;;) {
      std::size_t waiting = 0, done = 0;
      for (int first = 0; first < threads; first += kWarp) {
        Warp warp;
        for (int i = first; i < first + kWarp; ++i) {
          step(all[i]);
          warp.push_back(&all[i]);
        }
        const Thread &one = *warp[0];
        for (const Thread *t : warp)
          if (t->done != one.done || t->next != one.next)
            fail("a warp is not together at:" + instructions_[one.next].text);
        if (one.done) {
          ++done;
          continue;
        }
        const Instruction &instruction = instructions_[one.next];
        if (!instruction.all) {
          ++waiting;
          continue;
        }
        instruction.all(warp);
        for (Thread *t : warp)
          ++t->next;
      }
      const std::size_t warps = threads / kWarp;
      if (done == warps) return;
      if (waiting != warps) continue;
      for (Thread &t : all)
        ++t.next; // past the barrier
    }
  }

private:
  // ---- reading ----

  void add(std::string statement) {
    std::smatch m;
    static const std::regex label(R"(^\s*(\$[\w$]+):([\s\S]*)$)"), blank(R"(^\s*(\.(reg|pragma)[\s\S]*)?$)"),
        form(R"(^\s*(?:@(!?)([%\w]+)\s+)?([\w.:]+)\s*([\s\S]*?)\s*$)"),
        scope(R"(^\s*[{}]([\s\S]*)$)"); // whose registers have names of their own, or are written first
    for (;;) {
      if (std::regex_match(statement, m, label))
        labels_[m[1]] = instructions_.size();
      else if (!std::regex_match(statement, m, scope))
        break;
      statement = m[m.size() - 1].str();
    }
    if (std::regex_match(statement, blank)) return;
    if (!std::regex_match(statement, m, form)) fail("cannot read: " + statement);
    Instruction instruction;
    instruction.text = statement;
    if (m[2].matched) {
      instruction.predicate = operands_.registerOf(m[2]);
      instruction.whenFalse = m[1].length() > 0;
    }
    const Operation op(m[3]);
    const std::vector<std::string> arguments = split(m[4]);
    if (op.parts[0] == "bra") {
      branches_.emplace_back(instructions_.size(), arguments[0]);
    } else if (op.parts[0] != "bar") {
      instruction.all = warpInstruction(operands_, op, arguments);
      if (!instruction.all) instruction.run = threadInstruction(operands_, op, arguments);
    }
    instructions_.push_back(std::move(instruction));
  }

  // ---- running ----

  void step(Thread &t) const {
    while (!t.done) {
      const Instruction &instruction = instructions_[t.next];
      const bool isOff =
          instruction.predicate >= 0 && (t.registers[instruction.predicate] != 0) == instruction.whenFalse;
      if (!instruction.run && !isOff) return;
      ++t.next;
      if (!isOff) instruction.run(t);
    }
  }

  Operands operands_;
  std::map<std::string, std::size_t> labels_;
  std::vector<std::pair<std::size_t, std::string>> branches_;
  std::vector<Instruction> instructions_;
};

/// As a launch passes them: of a tensor its address, sizes, and a matrix's stride.
std::vector<uint64_t> parametersOf(const std::vector<KernelArgument> &arguments) {
  std::vector<uint64_t> parameters;
  for (const KernelArgument &argument : arguments) {
    if (const auto *tensor = std::get_if<TensorRef>(&argument)) {
      parameters.push_back(reinterpret_cast<uintptr_t>(tensor->data));
      for (int axis = 0; axis < tensor->rank; ++axis)
        parameters.push_back(tensor->sizes[axis]);
      if (tensor->rank == 2) parameters.push_back(tensor->rowStride);
    } else if (const auto *number = std::get_if<int64_t>(&argument)) {
      parameters.push_back(*number);
    } else {
      parameters.push_back(toBits(std::get<float>(argument)));
    }
  }
  return parameters;
}

} // namespace

Status interpretPtx(const Artifact &artifact, const std::vector<KernelArgument> &arguments) {
  TW_ASSIGN_OR_RETURN(const std::vector<int64_t> grid, gridFor(artifact, arguments));
  try {
    const Program program(artifact.assembly, parametersOf(arguments));
    Cta cta;
    std::copy(grid.begin(), grid.end(), cta.grid.begin());
    for (uint32_t y = 0; y < cta.grid[1]; ++y)
      for (uint32_t x = 0; x < cta.grid[0]; ++x) {
        cta.number = {x, y, 0};
        cta.shared.assign(artifact.sharedBytes, '\xff');
        program.run(cta, artifact.threads);
      }
  } catch (const std::exception &error) {
    return internalError("PTX of kernel '" + artifact.kernel + "': " + error.what());
  }
  return {};
}

} // namespace tilewright::test
