#include "tests/support/ptx_execution.h"

#include <algorithm>
#include <regex>
#include <sstream>

namespace tilewright::test::ptx {

namespace {

[[noreturn]] void explain(const std::vector<Warp> &warps, const std::vector<Instruction> &instructions) {
  for (const Warp &warp : warps)
    for (const Thread *t : warp)
      if (t->done != warp[0]->done || (!t->done && !t->waits && t->next != warp[0]->next))
        fail("a warp is not together at:" + instructions[t->done ? warp[0]->next : t->next].text);
  for (const Warp &warp : warps)
    for (const Thread *t : warp)
      if (!t->done) fail("nobody can go on, and a thread waits at:" + instructions[t->next].text);
  fail("nothing is left to do");
}

} // namespace

// ---- reading ----

Program::Program(const std::string &ptx, std::vector<uint64_t> parameters)
    : operands_(std::move(parameters)) {
  const std::string text = std::regex_replace(ptx, std::regex("//[^\n]*"), "");
  const std::size_t entry = text.find(".entry"), body = text.find("\n{", entry);
  if (entry == std::string::npos || body == std::string::npos) fail("there is no kernel");
  addVariables(text.substr(0, entry));
  std::istringstream stream(text.substr(body + 2, text.rfind('}') - body - 2));
  for (std::string statement; std::getline(stream, statement, ';');)
    add(statement);
  for (auto &[at, label] : branches_)
    instructions_[at].run = [target = labels_.at(label)](Thread &t) { t.next = target; };
}

/// Memory of the module's own, all zeros.
void Program::addVariables(const std::string &head) {
  static const std::regex variable(R"(\.global \.align \d+ \.b8 (\w+)\[(\d+)\])");
  for (std::sregex_iterator it(head.begin(), head.end(), variable), end; it != end; ++it) {
    variables_.emplace_back((std::stoul((*it)[2]) + 7) / 8);
    operands_.define((*it)[1], reinterpret_cast<uintptr_t>(variables_.back().data()));
  }
}

/// Labels of a scope are its own; scopes lie side by side.
std::string Program::inScope(const std::string &label) const {
  return label[0] == '$' ? label : label + "$" + std::to_string(scope_);
}

void Program::add(std::string statement) {
  std::smatch m;
  static const std::regex label(R"(^\s*([$\w]+):(?!:)([\s\S]*)$)"), scope(R"(^\s*([{}])([\s\S]*)$)"),
      blank(R"(^\s*(\.pragma[\s\S]*)?$)"), registers(R"(^\s*\.reg\s+\.\w+\s+([\s\S]*)$)"),
      form(R"(^\s*(?:@(!?)([%\w]+)\s+)?([\w.:]+)\s*([\s\S]*?)\s*$)");
  for (;;) {
    if (std::regex_match(statement, m, label))
      labels_[inScope(m[1])] = instructions_.size();
    else if (std::regex_match(statement, m, scope))
      scope_ = m[1] == "{" ? ++scopes_ : 0;
    else
      break;
    statement = m[m.size() - 1].str();
  }
  if (std::regex_match(statement, blank)) return;
  if (std::regex_match(statement, m, registers)) {
    for (const std::string &name : split(m[1]))
      operands_.registerOf(name); // a scope's, which are written first
    return;
  }
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
    branches_.emplace_back(instructions_.size(), inScope(arguments[0]));
  } else {
    instruction.all = warpInstruction(operands_, op, arguments);
    if (!instruction.all) instruction.run = threadInstruction(operands_, op, arguments);
  }
  instructions_.push_back(std::move(instruction));
}

// ---- running ----

void Program::run(Launch &launch) const {
  std::deque<Thread> threads;
  std::vector<Warp> warps;
  for (Cta &cta : launch.ctas)
    for (uint32_t i = 0; i < cta.threads; ++i) {
      Thread &thread = threads.emplace_back();
      thread.number = i;
      thread.registers.resize(operands_.registers());
      thread.cta = &cta;
      if (i % kWarp == 0) warps.emplace_back();
      warps.back().push_back(&thread);
    }
  for (;;) {
    bool isDone = true, isStuck = true;
    for (const Warp &warp : warps) {
      while (advance(warp))
        isStuck = false;
      isDone = isDone && std::all_of(warp.begin(), warp.end(), [](const Thread *t) { return t->done; });
    }
    if (isDone) return;
    if (!isStuck) continue;
    if (launch.copies.empty()) explain(warps, instructions_);
    launch.copies.front()();
    launch.copies.pop_front();
  }
}

/// Each thread on to where its warp executes something together, and then that; whether anything was done.
bool Program::advance(const Warp &warp) const {
  bool isDone = true, hasMoved = false, isTogether = true;
  for (Thread *t : warp) {
    hasMoved |= step(*t);
    isDone = isDone && t->done;
    isTogether = isTogether && !t->done && !t->waits && t->next == warp[0]->next;
  }
  if (isDone || !isTogether || !instructions_[warp[0]->next].all) return hasMoved;
  if (!instructions_[warp[0]->next].all(warp)) return hasMoved;
  for (Thread *t : warp)
    ++t->next;
  return true;
}

/// Whether it did anything.
bool Program::step(Thread &t) const {
  bool hasMoved = false;
  t.yields = false;
  while (!t.done && !t.yields) {
    const Instruction &instruction = instructions_[t.next];
    const bool isOff =
        instruction.predicate >= 0 && (t.registers[instruction.predicate] != 0) == instruction.whenFalse;
    if (!instruction.run && !isOff) break;
    ++t.next;
    t.waits = false;
    if (!isOff) instruction.run(t);
    if (t.waits) {
      --t.next;
      break;
    }
    hasMoved = true;
  }
  return hasMoved;
}

} // namespace tilewright::test::ptx
