#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {

Operation::Operation(const std::string &text) {
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, '.');)
    parts.push_back(part);
  const std::string &type = parts.back();
  kind = type[0];
  bits = type == "pred" ? 1 : type.size() > 1 ? std::atoi(type.c_str() + (type[1] == 'f' ? 2 : 1)) : 0;
}

bool Operation::has(const std::string &part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

int64_t Operation::number(uint64_t x) const {
  return kind != 's' ? static_cast<int64_t>(cut(x)) : static_cast<int64_t>(x << (64 - bits)) >> (64 - bits);
}

std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text + ",") {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (c != ',' || depth) {
      if (!std::isspace(static_cast<unsigned char>(c))) part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, {}));
    }
  }
  return parts;
}
std::vector<std::string> list(const std::string &text) {
  return text[0] == '{' ? split(text.substr(1, text.size() - 2)) : std::vector<std::string>{text};
}

int Operands::registerOf(const std::string &name) {
  return registers_.emplace(name, static_cast<int>(registers_.size())).first->second;
}

Operand Operands::value(const std::string &text) {
  static const std::string special[] = {"%tid.", "%ctaid.", "%nctaid.", "%ntid."};
  for (int kind = 0; kind < 4; ++kind)
    if (text.rfind(special[kind], 0) == 0) {
      const int axis = text.back() - 'x';
      return [kind, axis](const Thread &t) -> uint64_t {
        return kind == 0 ? (axis == 0 ? t.number : 0) : kind == 1 ? t.cta->number[axis] : t.cta->grid[axis];
      };
    }
  if (text[0] == '%' || registers_.count(text))
    return [r = registerOf(text)](const Thread &t) { return t.registers[r]; };
  uint64_t constant = 0;
  if (text.rfind("0f", 0) == 0)
    constant = std::stoull(text.substr(2), nullptr, 16);
  else if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-')
    constant = static_cast<uint64_t>(std::stoll(text, nullptr, 0));
  else if (const auto named = constants_.find(text); named != constants_.end())
    constant = named->second;
  else if (text.find("_param_") != std::string::npos)
    constant = parameter(text);
  else
    fail("operand " + text);
  return [constant](const Thread &) { return constant; };
}

Operand Operands::address(const std::string &text) {
  const std::string inside = text.substr(1, text.size() - 2);
  const std::size_t plus = inside.find_first_of("+-", 1);
  const int64_t offset =
      plus == std::string::npos ? 0 : std::stoll(inside.substr(plus + (inside[plus] == '+')));
  return [base = value(inside.substr(0, plus)), offset](const Thread &t) { return base(t) + offset; };
}

uint64_t Operands::parameter(const std::string &text) const {
  return parameters_.at(std::stoul(text.substr(text.rfind('_') + 1)));
}

char *at(const Thread &t, bool isShared, uint64_t address, std::size_t bytes) {
  if (address % bytes) fail("an access of " + std::to_string(bytes) + " bytes is not aligned");
  if (!isShared) return reinterpret_cast<char *>(address);
  std::vector<char> &shared = ctaOf(t, address).shared;
  if (withinCta(address) + bytes > shared.size()) fail("beyond the shared memory");
  return shared.data() + withinCta(address);
}

void noteWritten(Thread &t, uint64_t address, std::size_t bytes) {
  if (address + bytes > t.cta->unfenced.size())
    return; // nothing but threads reads it, or it is another CTA's
  std::fill_n(t.cta->unfenced.begin() + address, bytes, 1);
  t.written.emplace_back(address, bytes);
}
void fence(Thread &t) {
  for (const auto &[address, bytes] : t.written)
    std::fill_n(t.cta->unfenced.begin() + address, bytes, 0);
  t.written.clear();
}
void requireFenced(const Cta &cta, uint64_t place, std::size_t bytes) {
  const auto begin = cta.unfenced.begin() + place;
  if (std::any_of(begin, begin + bytes, [](char is) { return is != 0; }))
    fail("the copy engine or wgmma reads what a thread stored without a fence.proxy.async behind it");
}

Cta &ctaOf(const Thread &t, uint64_t address) {
  const uint64_t rank = address >> kRankShift;
  if (rank > t.cta->cluster.size()) fail("a CTA that is not of the cluster");
  return rank == 0 ? *t.cta : *t.cta->cluster[rank - 1];
}

} // namespace tilewright::test::ptx
