// Copies of boxes of a matrix, as TMA does them.

#include <algorithm>
#include <cmath>

#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {
namespace {

/// To nearest, ties to even.
uint32_t roundedToTf32(uint32_t bits) {
  constexpr uint32_t kDropped = 0x1fff;
  return std::isfinite(toFloat(bits)) ? (bits + kDropped / 2 + (bits >> 13 & 1)) & ~kDropped : bits;
}

/// One box: a matrix, and where its first number is.
struct Box {
  const BoxMap *map;
  int64_t row, column;

  int64_t bytes() const { return map->boxRows * map->boxColumns * map->numberBytes; }
  /// Calls `visit` with each number's place in shared memory, and in the matrix; none beyond its end.
  template <typename Visit> void each(std::vector<char> &shared, uint64_t begin, const Visit &visit) const {
    if (begin % kLine || begin + bytes() > shared.size()) fail("a box where none can be");
    for (int64_t r = 0; r < map->boxRows; ++r)
      for (int64_t c = 0; c < map->boxColumns; ++c) {
        const int64_t i = row + r, j = column + c;
        const bool isInside = i >= 0 && i < map->rows && j >= 0 && j < map->columns;
        visit(&shared[swizzled(begin + r * kLine + c * map->numberBytes)],
              isInside ? map->data + i * map->stride + j * map->numberBytes : nullptr);
      }
  }
};

void load(const Box &box, Cta &cta, uint64_t to) {
  const int64_t bytes = box.map->numberBytes;
  box.each(cta.shared, to, [&](char *here, const char *there) {
    there ? std::memcpy(here, there, bytes) : std::memset(here, 0, bytes);
    uint32_t bits;
    if (!box.map->roundsToTf32) return;
    std::memcpy(&bits, here, 4);
    bits = roundedToTf32(bits);
    std::memcpy(here, &bits, 4);
  });
  std::fill_n(cta.unfenced.begin() + to, box.bytes(), 0);
}

void store(const Box &box, Cta &cta, uint64_t from, bool adds) {
  requireFenced(cta, from, box.bytes());
  box.each(cta.shared, from, [&](const char *here, char *there) {
    if (!there) return;
    if (!adds) return void(std::memcpy(there, here, box.map->numberBytes));
    float sum, addend;
    std::memcpy(&sum, there, 4);
    std::memcpy(&addend, here, 4);
    sum += addend;
    std::memcpy(there, &sum, 4);
  });
}

/// Of "[map, {column, row}]".
std::function<Box(const Thread &)> boxOf(Operands &operands, const std::string &text) {
  const std::vector<std::string> parts = split(text.substr(1, text.size() - 2)), place = list(parts[1]);
  return [map = operands.value(parts[0]), column = operands.value(place[0]),
          row = operands.value(place[1])](const Thread &t) {
    const auto signedOf = [](uint64_t bits) { return static_cast<int64_t>(static_cast<int32_t>(bits)); };
    return Box{reinterpret_cast<const BoxMap *>(map(t)), signedOf(row(t)), signedOf(column(t))};
  };
}

/// Of a multicast's mask of CTAs, or the thread's own.
ThreadInstruction loadBox(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  const Operand mask = op.has("multicast::cluster") ? operands.value(a[3]) : Operand();
  return [mask, to = operands.address(a[0]), box = boxOf(operands, a[1]),
          told = operands.address(a[2])](Thread &t) {
    std::vector<Cta *> ctas{t.cta};
    if (mask) {
      ctas.clear();
      for (std::size_t i = 0; i < t.cta->cluster.size(); ++i)
        if (mask(t) >> i & 1) ctas.push_back(t.cta->cluster[i]);
    }
    const auto lands = [ctas, box = box(t), to = withinCta(to(t)), told = withinCta(told(t))] {
      for (Cta *cta : ctas) {
        load(box, *cta, to);
        phaseBarrier(*cta, told).take(box.bytes());
      }
    };
    t.cta->launch->landsLate ? t.cta->launch->copies.push_back(lands) : lands();
  };
}

} // namespace

ThreadInstruction boxInstruction(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  if (op.parts[0] != "cp" || !op.has("bulk")) return {};
  if (op.has("wait_group")) return [left = operands.value(a[0])](Thread &t) { t.stores.wait(left(t)); };
  if (op.has("commit_group")) return [](Thread &t) { t.stores.commit(); };
  if (op.has("mbarrier::complete_tx::bytes")) return loadBox(operands, op, a);
  return [adds = op.has("reduce"), box = boxOf(operands, a[0]), from = operands.address(a[1])](Thread &t) {
    t.stores.open.push_back(
        [adds, box = box(t), from = from(t), cta = t.cta] { store(box, *cta, from, adds); });
  };
}

} // namespace tilewright::test::ptx
