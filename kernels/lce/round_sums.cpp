#include "kernels/lce/kernels.h"

namespace tilewright::lce {

namespace {

// What a row of 4096 numbers has room for, so that it is loaded at once and waits for one barrier: an H200
// adds up 128256 such rows in place 0.4 % of a call faster than by half as many.
constexpr int64_t kColumns = 2048;

/// body(first column of a block), from the first block of `count` columns to the last.
void forBlocks(KernelBuilder &k, const Index &count, const std::function<void(const Index &)> &body) {
  k.forRange(k.constant(0), count, kColumns, {}, [&](const Index &first, const std::vector<Tile> &) {
    body(first);
    return std::vector<Tile>();
  });
}

/// What both kernels see: the program's row, and dW's first columns as fp32 and as what they should be.
struct Sums {
  Range row;
  View wide, narrow;

  Sums(KernelBuilder &k, const View &dw, const Index &inPlace)
      : row(k.blockRows(dw.dim(0), 1)), wide(dw.as(ElementType::f32).narrowed(1, inPlace)),
        narrow(dw.narrowed(1, inPlace)) {}
};

} // namespace

Kernel roundSums(ElementType output) {
  return defineKernel("lce_round_sums", elementName(output), [output](KernelBuilder &k) {
    const Index inPlace = k.index("in_place");
    const View dw = k.output("dw", output, 2);
    const Sums s(k, dw, inPlace);
    // A block is written over sums of the first half of the columns up to its end, which are all loaded.
    forBlocks(k, inPlace, [&](const Index &first) {
      const Range columns = k.range(Axis::columns, first, kColumns);
      k.store(s.narrow, s.row, columns, s.wide.at(s.row, columns));
    });
  });
}

Kernel widenSums(ElementType output) {
  return defineKernel("lce_widen_sums", elementName(output), [output](KernelBuilder &k) {
    const View partial = k.output("partial", ElementType::f32, 2), dw = k.output("dw", output, 2);
    const Index inPlace = dw.dim(1) - partial.dim(1);
    const Sums s(k, dw, inPlace);
    forBlocks(k, partial.dim(1), [&](const Index &first) {
      k.store(partial, s.row, k.range(Axis::columns, first, kColumns),
              dw.at(s.row, k.range(Axis::columns, inPlace + first, kColumns)));
    });
    // The other way round: sums are written over numbers of their own block and of blocks behind it.
    const Index last = (inPlace + (kColumns - 1)) / kColumns * kColumns - kColumns;
    forBlocks(k, inPlace, [&](const Index &behind) {
      const Range columns = k.range(Axis::columns, last - behind, kColumns);
      k.store(s.wide, s.row, columns, s.narrow.at(s.row, columns));
    });
  });
}

} // namespace tilewright::lce
