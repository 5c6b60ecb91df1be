#include "kernels/lce/gradient_kernels.h"

namespace tilewright::lce {

namespace {

// What a row of 4096 numbers has room for, so that it is loaded at once and waits for one barrier. By events
// an H200 takes as long with half as many: 374 µs of 128256 rows.
constexpr int64_t kColumns = 2048;

/// body(first column of a block), from the first block of `count` columns to the last.
void forBlocks(KernelBuilder &k, const Index &count, const std::function<void(const Index &)> &body) {
  k.forRange(k.constant(0), count, kColumns, {}, [&](const Index &first, const std::vector<Tile> &) {
    body(first);
    return std::vector<Tile>();
  });
}

/// dW's first columns as fp32, and as what they should be.
struct InPlace {
  View wide, narrow;

  InPlace(const View &dw, const Index &columns)
      : wide(dw.as(ElementType::f32).narrowed(1, columns)), narrow(dw.narrowed(1, columns)) {}
};

} // namespace

Kernel roundSums(const RoundSumsSpec &spec) {
  const std::string specialisation = std::string(elementName(spec.output)) +
                                     (spec.inPlace ? ",in place" : "") + (spec.ontoOutput ? ",onto" : "");
  return defineKernel("lce_round_sums", specialisation, [spec](KernelBuilder &k) {
    const View partial = k.input("partial", ElementType::f32, 2), dw = k.output("dw", spec.output, 2);
    const Range row = k.blockRows(dw.dim(0), 1);
    const Index inPlace = dw.dim(1) - partial.dim(1);
    // A block is written over sums of the first half of the columns up to its end, which are all loaded.
    if (spec.inPlace) {
      const InPlace sums(dw, inPlace);
      forBlocks(k, inPlace, [&](const Index &first) {
        const Range columns = k.range(Axis::columns, first, kColumns);
        k.store(sums.narrow, row, columns, sums.wide.at(row, columns));
      });
    }
    forBlocks(k, partial.dim(1), [&](const Index &first) {
      const Range to = k.range(Axis::columns, inPlace + first, kColumns);
      const Tile sum = partial.at(row, k.range(Axis::columns, first, kColumns));
      k.store(dw, row, to, spec.ontoOutput ? sum + dw.at(row, to) : sum);
    });
  });
}

Kernel widenSums(ElementType output) {
  return defineKernel("lce_widen_sums", elementName(output), [output](KernelBuilder &k) {
    const View partial = k.output("partial", ElementType::f32, 2), dw = k.output("dw", output, 2);
    const Range row = k.blockRows(dw.dim(0), 1);
    const Index inPlace = dw.dim(1) - partial.dim(1);
    const InPlace sums(dw, inPlace);
    forBlocks(k, partial.dim(1), [&](const Index &first) {
      k.store(partial, row, k.range(Axis::columns, first, kColumns),
              dw.at(row, k.range(Axis::columns, inPlace + first, kColumns)));
    });
    // The other way round: sums are written over numbers of their own block and of blocks behind it.
    const Index last = (inPlace + (kColumns - 1)) / kColumns * kColumns - kColumns;
    forBlocks(k, inPlace, [&](const Index &behind) {
      const Range columns = k.range(Axis::columns, last - behind, kColumns);
      k.store(sums.wide, row, columns, sums.narrow.at(row, columns));
    });
  });
}

} // namespace tilewright::lce
