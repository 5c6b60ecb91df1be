#include "compiler/number_formats.h"
#include "tests/support/ptx_program.h"

namespace tilewright::test::ptx {
namespace {

/// What a descriptor says of an operand in shared memory: its free axis, and the contracted one.
struct SharedOperand {
  const Cta &cta;
  uint64_t descriptor;
  bool alongFree; ///< lines run along the free axis
  int numberBytes;

  uint64_t field(int first) const { return (descriptor >> first & 0x3fff) * 16; }
  uint64_t placeOf(int64_t i, int64_t k) const {
    const uint64_t begin = field(0), panelStep = field(16), groupStep = field(32);
    if (descriptor >> 62 != 1) fail("wgmma of an operand that is not swizzled by 128 bytes");
    if (!alongFree) return begin + i / 8 * groupStep + i % 8 * kLine + k * numberBytes;
    const int64_t perLine = kLine / numberBytes;
    return begin + i / perLine * panelStep + i % perLine * numberBytes + k / 8 * groupStep + k % 8 * kLine;
  }
};

/// Rows `first` on of an operand, `depth` numbers each.
std::vector<float> numbersOf(const SharedOperand &operand, int64_t first, int64_t rows, int64_t depth,
                             bool isBf16) {
  std::vector<float> numbers(rows * depth);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < depth; ++k) {
      const uint64_t place = swizzled(operand.placeOf(first + i, k));
      if (place + operand.numberBytes > operand.cta.shared.size()) fail("wgmma beyond the shared memory");
      requireFenced(operand.cta, place, operand.numberBytes);
      uint32_t bits = 0;
      std::memcpy(&bits, &operand.cta.shared[place], operand.numberBytes);
      const auto half = static_cast<uint16_t>(bits);
      numbers[i * depth + k] = operand.numberBytes == 4 ? toFloat(bits & ~0x1fffu) // 13 bits are dropped
                               : isBf16                 ? floatFromBf16(half)
                                                        : floatFromF16(half);
    }
  return numbers;
}

/// A warp's 16 rows of 16 numbers, of which lane l has in register q two of row l/4 + 8·(q%2), from depth
/// 2·(l%4) + 8·(q/2) on.
std::vector<float> numbersOf(const Warp &warp, const std::vector<int> &words, bool isBf16) {
  std::vector<float> numbers(16 * 16);
  for (int l = 0; l < kWarp; ++l)
    for (int q = 0; q < 4; ++q)
      for (int i = 0; i < 2; ++i) {
        const auto half = static_cast<uint16_t>(warp[l]->registers[words[q]] >> (16 * i));
        numbers[(l / 4 + q % 2 * 8) * 16 + l % 4 * 2 + q / 2 * 8 + i] =
            isBf16 ? floatFromBf16(half) : floatFromF16(half);
      }
  return numbers;
}

bool areSame(const std::vector<float> &x, const std::vector<float> &y) { // NaN is NaN
  return std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

} // namespace

/// 64×N += 64×K · K×N by four warps, of which each has 16 rows of the result and so can do its part alone:
/// when it is issued, although code must wait before it looks. Of 8 columns, a thread has two of each of two
/// rows.
WarpInstruction warpgroupProduct(Operands &operands, const Operation &op, const std::vector<std::string> &a) {
  if (op.parts[0] != "wgmma" || op.parts[1] != "mma_async") return {};
  std::vector<int> sums;
  for (const std::string &item : list(a[0]))
    sums.push_back(operands.registerOf(item));
  const bool isTf32 = op.has("tf32"), isBf16 = op.has("bf16");
  const int64_t columns = static_cast<int64_t>(sums.size()) * 2, depth = isTf32 ? 8 : 16;
  std::vector<int> leftWords; // of a left operand in registers
  if (a[1][0] == '{')
    for (const std::string &item : list(a[1]))
      leftWords.push_back(operands.registerOf(item));
  // What tells which axis lies along a line stands last, of each operand in shared memory.
  const bool leftIsAlongRows = leftWords.empty() && a.size() > 6 && a[6] == "1";
  const std::size_t ofRight = leftWords.empty() ? 7 : 6;
  const bool rightIsAlongColumns = a.size() > ofRight && a[ofRight] == "1";
  const Operand left = leftWords.empty() ? operands.value(a[1]) : Operand();
  return [=, right = operands.value(a[2]), adds = operands.value(a[3])](const Warp &warp) {
    const Cta &cta = *warp[0]->cta;
    const int64_t firstRow = warp[0]->number / kWarp % 4 * 16;
    const int bytes = isTf32 ? 4 : 2;
    const auto read = [=, &cta, from = left ? left(*warp[0]) : 0, with = right(*warp[0])] {
      return std::pair(left ? numbersOf({cta, from, leftIsAlongRows, bytes}, firstRow, 16, depth, isBf16)
                            : numbersOf(warp, leftWords, isBf16),
                       numbersOf({cta, with, rightIsAlongColumns, bytes}, 0, columns, depth, isBf16));
    };
    const auto operandsRead = read();
    const auto &[x, y] = operandsRead;
    warp[0]->products.open.push_back([read, operandsRead] {
      const auto [x, y] = read();
      if (!areSame(x, operandsRead.first) || !areSame(y, operandsRead.second))
        fail("an operand of wgmma changed before the wait for its product");
    });
    for (int l = 0; l < kWarp; ++l)
      for (std::size_t s = 0; s < sums.size(); ++s) {
        const int64_t row = l / 4 + s / 2 % 2 * 8, column = s / 4 * 8 + l % 4 * 2 + s % 2;
        uint64_t &to = warp[l]->registers[sums[s]];
        double sum = adds(*warp[l]) ? toFloat(to) : 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += static_cast<double>(x[row * depth + k]) * y[column * depth + k];
        to = toBits(static_cast<float>(sum));
      }
    return true;
  };
}

} // namespace tilewright::test::ptx
