#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

namespace {

/// From 0 to the number of valid rows, which come first: whoever has the last of them knows it, and where
/// there is none, the first program. `from`: the numbers of `rows`. Behind it the range of rows to retry,
/// which is empty.
void storeRowRange(KernelBuilder &k, const View &rowRange, const View &row, const Range &rows,
                   const Tile &from) {
  const Tile next = rowNumbers(k, row, k.range(Axis::rows, rows.begin + 1, rows.extent));
  k.scatter(rowRange, select((from >= 0) & (next < 0), integer(k, 1), -1), rows.positions() + 1);
  k.ifThen(rows.begin == k.constant(0), [&] {
    const auto store = [&](int64_t place, const Tile &value) {
      k.store(rowRange, k.range(Axis::rows, k.constant(place), 1), value);
    };
    for (const int64_t place : {0, 2, 3})
      store(place, integer(k, 0));
    k.ifThen(k.toCondition(max(from, Axis::rows) < 0), [&] { store(1, integer(k, 0)); });
  });
}

/// -1 for all classes; each program has as many blocks of them, those past the last class none.
void clearSlots(KernelBuilder &k, const View &slot, const View &row, const Range &rows) {
  constexpr int64_t kBlock = 512;
  const Index programs = (row.dim(0) + (kRowsPerProgram - 1)) / kRowsPerProgram;
  const Index blocks = (slot.dim(0) + (kBlock - 1)) / kBlock;
  const Index share = (blocks + programs - 1) / programs * kBlock,
              begin = rows.begin / kRowsPerProgram * share;
  k.forRange(begin, min(begin + share, slot.dim(0)), kBlock, {},
             [&](const Index &i, const std::vector<Tile> &) {
               k.store(slot, k.range(Axis::rows, i, kBlock), integer(k, -1));
               return std::vector<Tile>();
             });
}

} // namespace

Kernel gatherRows(const GatherRowsSpec &spec) {
  const std::string flags = std::string(spec.rates ? ",rates" : "") + (spec.byLse ? ",by lse" : "") +
                            (spec.clearsSlots ? ",slots" : "") + (spec.tellsLargest ? ",largest" : "");
  return defineKernel(
      "lce_gather_rows", elementName(spec.element) + spec.terms.logitStr() + flags, [spec](KernelBuilder &k) {
        const View x = k.input("x", spec.element, 2), w = k.input("w", spec.element, 2);
        const View row = k.input("row", ElementType::i32, 1), label = k.input("label", ElementType::i32, 1);
        const View lse = spec.byLse ? k.input("lse", ElementType::f32, 1) : View();
        const LogitTerms terms(spec.terms);
        terms.declare(k);
        const View chunk = k.output("xc", spec.element, 2);
        const auto rowOutput = [&](const char *name) { return k.output(name, ElementType::f32, 1); };
        const View target = rowOutput("target"), shift = rowOutput("shift");
        const View retry = k.output("retry", ElementType::i32, 1);
        const View rowRange = k.output("row_range", ElementType::i32, 1);
        const View norm = spec.terms.margin ? rowOutput("row_norm") : View();
        View rate, targetRate;
        if (spec.rates) rate = rowOutput("rate"), targetRate = rowOutput("target_rate");
        const View slot = spec.clearsSlots ? k.output("slot", ElementType::i32, 1) : View();
        const View largest = spec.tellsLargest ? rowOutput("largest") : View();

        const Range rows = k.blockRows(row.dim(0), kRowsPerProgram), hidden = k.whole(x.dim(1));
        const Tile from = rowNumbers(k, row, rows);

        const Tile xi = x.gather(from, hidden);
        LogitPlace place{rows, {}, label[rows], {}};
        if (spec.terms.margin) {
          place.rowNorm = inverseNorm(k, xi);
          k.store(norm, rows, place.rowNorm);
        }
        const Tile z = terms.logit(sum(xi * w.gather(label[rows], hidden), Axis::columns), place);

        k.store(chunk, rows, hidden, xi);
        k.store(target, rows, z);
        k.store(shift, rows, max(spec.byLse ? lse.gather(from) : z, kLeastShift * number(k, 1)));
        k.store(retry, rows, select(from >= 0, integer(k, 1), 0));
        storeRowRange(k, rowRange, row, rows, from);
        if (spec.clearsSlots) clearSlots(k, slot, row, rows);
        if (spec.tellsLargest) k.store(largest, rows, max(abs(xi), Axis::columns));
        if (!spec.rates) return;
        const Tile ofRow = times(terms.rowRate(place), number(k, 1));
        k.store(rate, rows, ofRow);
        k.store(targetRate, rows, times(ofRow, terms.classRate(z, place)));
      });
}

// A short row leaves most of eight warps without a column, so each warp has a row of its own.
CompileOptions gatherRowsOptions(ElementType element, bool rowsAreShort) {
  CompileOptions options;
  options.schedule.nextIsProduct = true;
  if (!rowsAreShort) return options;
  options.schedule.warps = kRowsPerProgram;
  options.schedule.rowBlock = 512 / elementBytes(element); // 16 bytes a lane
  options.schedule.rowUnroll = 1;
  return options;
}

Kernel copyRows(ElementType element, ElementType output) {
  const std::string types = std::string(elementName(element)) + ",xc=" + elementName(output);
  return defineKernel("lce_copy_rows", types, [element, output](KernelBuilder &k) {
    const View x = k.input("x", element, 2), row = k.input("row", ElementType::i32, 1);
    const View copy = k.output("xc", output, 2);

    const Range rows = k.blockRows(row.dim(0), kRowsPerProgram), hidden = k.whole(x.dim(1));
    k.store(copy, rows, hidden, x.gather(rowNumbers(k, row, rows), hidden));
  });
}

} // namespace tilewright::lce
