#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

namespace {

/// Of `row_range`.
void storeAt(KernelBuilder &k, const View &rowRange, int64_t place, const Tile &value) {
  k.store(rowRange, k.range(Axis::rows, k.constant(place), 1), value);
}

/// All but the number of valid rows: what is to be computed begins at row 0, and nothing is to retry.
void storeZeros(KernelBuilder &k, const View &rowRange) {
  for (const int64_t place : {0, 2, 3})
    storeAt(k, rowRange, place, integer(k, 0));
}

/// The rows of a program, which take places in the chunk.
struct ChunkRows {
  Tile from;  ///< -1 for none
  Tile label; ///< i32
  Tile place; ///< none where these are the program's own
};

/// Rows that were numbered before. Valid ones come first: whoever has the last of them knows how many there
/// are, and where there is none, the first program.
ChunkRows numberedRows(KernelBuilder &k, const View &row, const View &label, const View &rowRange,
                       const Range &rows) {
  const Tile from = rowNumbers(k, row, rows);
  const Tile next = rowNumbers(k, row, k.range(Axis::rows, rows.begin + 1, rows.extent));
  k.scatter(rowRange, select((from >= 0) & (next < 0), integer(k, 1), -1), rows.positions() + 1);
  k.ifThen(rows.begin == k.constant(0), [&] {
    storeZeros(k, rowRange);
    k.ifThen(k.toCondition(max(from, Axis::rows) < 0), [&] { storeAt(k, rowRange, 1, integer(k, 0)); });
  });
  return {from, label[rows], {}};
}

ChunkRows numberRows(KernelBuilder &k, const RowCompaction &compaction, const View &rowRange,
                     const Range &rows) {
  const RowCompaction::Rows mine = compaction.compact(rows, [&](const Tile &validRows) {
    storeZeros(k, rowRange);
    storeAt(k, rowRange, 1, validRows);
  });
  return {select(mine.isValid, rows.positions(), -1),
          select(mine.isValid, cast(mine.label, ElementType::i32), -1), mine.place};
}

/// -1 for all classes; each program has as many blocks of them, those past the last class none.
void clearSlots(KernelBuilder &k, const View &slot, const Index &allRows, const Range &rows,
                int64_t rowsAtOnce) {
  constexpr int64_t kBlock = 512;
  const Index programs = (allRows + (rowsAtOnce - 1)) / rowsAtOnce;
  const Index blocks = (slot.dim(0) + (kBlock - 1)) / kBlock;
  const Index share = (blocks + programs - 1) / programs * kBlock, begin = rows.begin / rowsAtOnce * share;
  k.forRange(begin, min(begin + share, slot.dim(0)), kBlock, {},
             [&](const Index &i, const std::vector<Tile> &) {
               k.store(slot, k.range(Axis::rows, i, kBlock), integer(k, -1));
               return std::vector<Tile>();
             });
}

} // namespace

Kernel gatherRows(const GatherRowsSpec &spec) {
  const std::string flags =
      std::string(spec.rates ? ",rates" : "") + (spec.byLse ? ",by lse" : "") +
      (spec.clearsSlots ? ",slots" : "") + (spec.tellsLargest ? ",largest" : "") +
      (spec.compaction ? ",numbers " + spec.compaction->str() : "") +
      (spec.rowsAtOnce != kRowsPerProgram ? "," + std::to_string(spec.rowsAtOnce) + " rows" : "");
  return defineKernel(
      "lce_gather_rows", elementName(spec.element) + spec.terms.logitStr() + flags, [spec](KernelBuilder &k) {
        const View x = k.input("x", spec.element, 2), w = k.input("w", spec.element, 2);
        std::optional<RowCompaction> compaction;
        if (spec.compaction) compaction.emplace(k, *spec.compaction);
        const auto numbered = [&](const char *name) {
          return compaction ? View() : k.input(name, ElementType::i32, 1);
        };
        const View row = numbered("row"), label = numbered("label");
        const View lse = spec.byLse ? k.input("saved_lse", ElementType::f32, 1) : View();
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

        const Index allRows = compaction ? compaction->rows() : row.dim(0);
        const Range rows = k.blockRows(allRows, spec.rowsAtOnce), hidden = k.whole(x.dim(1));
        const ChunkRows mine = compaction ? numberRows(k, *compaction, rowRange, rows)
                                          : numberedRows(k, row, label, rowRange, rows);
        const Tile from = mine.from;
        const auto store = [&](const View &view, const Tile &value) {
          mine.place.valid() ? k.scatter(view, mine.place, value) : k.store(view, rows, value);
        };

        const Tile xi = x.gather(from, hidden);
        LogitPlace place{rows, {}, mine.label, {}};
        if (spec.terms.margin) {
          place.rowNorm = inverseNorm(k, xi);
          store(norm, place.rowNorm);
        }
        const Tile z = terms.logit(sum(xi * w.gather(mine.label, hidden), Axis::columns), place);

        mine.place.valid() ? k.scatter(chunk, mine.place, hidden, xi) : k.store(chunk, rows, hidden, xi);
        store(target, z);
        store(shift, asShift(k, spec.byLse ? lse.gather(from) : z));
        store(retry, select(from >= 0, integer(k, 1), 0));
        if (spec.clearsSlots) clearSlots(k, slot, allRows, rows, spec.rowsAtOnce);
        if (spec.tellsLargest) store(largest, max(abs(xi), Axis::columns));
        if (!spec.rates) return;
        const Tile ofRow = times(terms.rowRate(place), number(k, 1));
        store(rate, ofRow);
        store(targetRate, times(ofRow, terms.classRate(z, place)));
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
