#include <algorithm>
#include <cmath>

#include "compiler/number_formats.h"
#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {
namespace {

WarpInstruction shuffle(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  const std::string result = a[0].substr(0, a[0].find('|'));
  return [to = operands.registerOf(result), from = operands.value(a[1]), lane = operands.value(a[2]),
          isButterfly = op.has("bfly")](const Warp &warp) {
    std::vector<uint64_t> old;
    for (const Thread *t : warp)
      old.push_back(from(*t));
    for (std::size_t l = 0; l < warp.size(); ++l)
      warp[l]->registers[to] = old[(isButterfly ? l : 0) ^ lane(*warp[l])];
    return true;
  };
}

/// vote.sync.any
WarpInstruction vote(Operands &operands, const std::vector<std::string> &a) {
  return [to = operands.registerOf(a[0]), from = operands.value(a[1])](const Warp &warp) {
    const bool any = std::any_of(warp.begin(), warp.end(), [&](const Thread *t) { return from(*t) != 0; });
    for (Thread *t : warp)
      t->registers[to] = any;
    return true;
  };
}

/// Matrix q's row r lies where lane 8q + r says: 8 numbers of 16 bits, of which lane l gets 2l and 2l + 1,
/// counted along rows.
WarpInstruction loadMatrices(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  std::vector<int> to;
  for (const std::string &item : list(a[0]))
    to.push_back(operands.registerOf(item));
  return [to, where = operands.address(a[1]), isTransposed = op.has("trans")](const Warp &warp) {
    for (std::size_t q = 0; q < to.size(); ++q) {
      uint16_t matrix[8][8];
      for (int r = 0; r < 8; ++r)
        std::memcpy(matrix[r], at(*warp[8 * q + r], true, where(*warp[8 * q + r]), 16), 16);
      for (int l = 0; l < kWarp; ++l) {
        const int row = l / 4, column = l % 4 * 2;
        const uint32_t low = isTransposed ? matrix[column][row] : matrix[row][column],
                       high = isTransposed ? matrix[column + 1][row] : matrix[row][column + 1];
        warp[l]->registers[to[q]] = low | high << 16;
      }
    }
    return true;
  };
}

/// The reverse, to the same places.
WarpInstruction storeMatrices(Operands &operands, const std::vector<std::string> &a) {
  std::vector<Operand> from;
  for (const std::string &item : list(a[1]))
    from.push_back(operands.value(item));
  return [from, where = operands.address(a[0])](const Warp &warp) {
    for (std::size_t q = 0; q < from.size(); ++q)
      for (int l = 0; l < kWarp; ++l) {
        const Thread &tells = *warp[8 * q + l / 4];
        const auto pair = static_cast<uint32_t>(from[q](*warp[l]));
        std::memcpy(at(tells, true, where(tells), 16) + l % 4 * 4, &pair, 4);
      }
    return true;
  };
}

/// 16×8 += 16×K · K×8, as PTX's manual lays out mma.m16n8k8 of TF32 and mma.m16n8k16 of 16-bit numbers: a
/// register is one number, or two neighbours along the contracted axis.
WarpInstruction product(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  std::array<std::vector<int>, 2> factors;
  std::vector<int> to;
  std::vector<Operand> addends;
  for (const std::string &item : list(a[0]))
    to.push_back(operands.registerOf(item));
  for (int side : {0, 1})
    for (const std::string &item : list(a[1 + side]))
      factors[side].push_back(operands.registerOf(item));
  for (const std::string &item : list(a[3]))
    addends.push_back(operands.value(item));
  const bool isTf32 = op.has("tf32"), isBf16 = op.has("bf16");
  const int perRegister = isTf32 ? 1 : 2;
  const auto number = [=](uint64_t bits, int i) {
    if (isTf32 && (bits & 0x1fff)) fail("an operand of TF32 was not rounded");
    if (isTf32) return toFloat(bits);
    const auto half = static_cast<uint16_t>(bits >> 16 * i);
    return isBf16 ? floatFromBf16(half) : floatFromF16(half);
  };
  return [=](const Warp &warp) {
    double left[16][16] = {}, right[16][8] = {};
    for (int l = 0; l < kWarp; ++l) {
      const int g = l / 4, first = l % 4 * perRegister;
      for (int i = 0; i < perRegister; ++i) {
        for (int r = 0; r < 4; ++r)
          left[g + r % 2 * 8][first + i + r / 2 * 4 * perRegister] =
              number(warp[l]->registers[factors[0][r]], i);
        for (int r = 0; r < 2; ++r)
          right[first + i + r * 4 * perRegister][g] = number(warp[l]->registers[factors[1][r]], i);
      }
    }
    for (int l = 0; l < kWarp; ++l)
      for (int r = 0; r < 4; ++r) {
        double sum = toFloat(addends[r](*warp[l]));
        for (int k = 0; k < 8 * perRegister; ++k)
          sum += left[l / 4 + r / 2 * 8][k] * right[k][l % 4 * 2 + r % 2];
        warp[l]->registers[to[r]] = toBits(static_cast<float>(sum));
      }
    return true;
  };
}

} // namespace

WarpInstruction warpInstruction(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  const std::string &name = op.parts[0];
  if (name == "bar") return namedBarrier(operands, op, a);
  if (name == "mma") return product(operands, op, a);
  if (name == "shfl") return shuffle(operands, op, a);
  if (name == "vote") return vote(operands, a);
  if (name == "ldmatrix") return loadMatrices(operands, op, a);
  if (name == "stmatrix") return storeMatrices(operands, a);
  return warpgroupProduct(operands, op, a);
}

} // namespace tilewright::test::ptx
