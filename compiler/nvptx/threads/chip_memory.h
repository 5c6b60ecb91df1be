#pragma once

#include "compiler/nvptx/threads/access_order.h"

namespace tilewright::nvptx {

/// A team's shared memory: first what stays on chip, then what threads exchange values in. Addresses are i32.
class ChipMemory {
public:
  ChipMemory(Emitter &e, AccessOrder &order) : e(e), order(order) {}

  void beginAt(Num address) { base = address.value; }
  /// Takes bytes of what stays; where they begin, a multiple of 16.
  int64_t take(int64_t bytes);
  /// What is taken from here on, and what is exchanged, begins at a multiple of so many bytes.
  void align(int64_t bytes);
  Num at(int64_t offset) { return e.num(base) + offset; }
  /// Memory that other uses share: a barrier stands before a use.
  Num exchange(int64_t bytes);

  int64_t exchangeBytes() const { return exchanged; }
  int64_t bytes() const { return taken + exchanged; }

private:
  Emitter &e;
  AccessOrder &order;
  Value base;
  int64_t taken = 0, exchanged = 0;
};

} // namespace tilewright::nvptx
