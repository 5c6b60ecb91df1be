#include <algorithm>
#include <functional>
#include <optional>

#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

constexpr int64_t kMostRowsAtOnce = 8, kPiecesAtOnce = 8, kLabelsAtOnce = 128;
static_assert(kRunPiece % kMostRowsAtOnce == 0 && kRunPiece % kLabelsAtOnce == 0);

/// `begun`, and what `ofRows` makes of the rows at sorted positions [begin, end), `atOnce` of them at a time.
/// Rows past the end are -1.
Tile addPositions(KernelBuilder &k, const View &order, const Index &begin, const Index &end, int64_t atOnce,
                  const Tile &begun, const std::function<Tile(const Tile &rows)> &ofRows) {
  return k.forRange(begin, end, atOnce, {begun}, [&](Index s, const std::vector<Tile> &sums) {
    const Range at = k.range(Axis::rows, s, atOnce);
    const Tile rows = select(inside(k, at, end), order[at], -1);
    return std::vector<Tile>{sums[0] + sum(ofRows(rows), Axis::rows)};
  })[0];
}

/// Which pieces of kRunPiece sorted positions go on with a run that began in a piece before.
struct RunPieces {
  KernelBuilder &k;
  View order, run;

  /// Σ over the first positions of piece `number`, if those belong to a run of a piece before.
  void sumPiece(const View &label, const View &slot, const Index &number,
                const std::function<void(const Index &begin, const Index &end)> &use) const {
    const Index position = number * kRunPiece;
    const Tile mine = label.gather(order[k.range(Axis::rows, position, 1)]);
    k.ifThen(k.toCondition(mine >= 0), [&] {
      const Index from = k.toIndex(slot.gather(mine));
      const Index end = from + k.toIndex(run[k.range(Axis::rows, from, 1)]);
      k.ifThen(from < position, [&] { use(position, min(end, position + kRunPiece)); });
    });
  }

  /// `begun`, and the positions [begin, end) of a run that began before them: those up to the next piece, and
  /// the pieces from there on.
  Tile addRest(const Index &begin, const Index &end, const Tile &begun, int64_t atOnce,
               const std::function<Tile(const Tile &rows)> &ofRows,
               const std::function<Tile(const Range &pieces, const Index &end)> &ofPieces) const {
    const Index next = (begin + (kRunPiece - 1)) / kRunPiece, last = (end + (kRunPiece - 1)) / kRunPiece;
    const Tile own = addPositions(k, order, begin, min(end, next * kRunPiece), atOnce, begun, ofRows);
    return k.forRange(next, last, kPiecesAtOnce, {own}, [&](Index i, const std::vector<Tile> &sums) {
      const Tile pieces = ofPieces(k.range(Axis::rows, i, kPiecesAtOnce), last);
      return std::vector<Tile>{sums[0] + sum(pieces, Axis::rows)};
    })[0];
  }
};

/// t_i x_i of rows of a chunk, which `number` numbers among all rows.
Tile oneHotTerms(const View &x, const View &number, const View &oneHot, const Tile &rows,
                 const Range &hidden) {
  return oneHot.gather(rows) * x.gather(select(rows >= 0, number.gather(rows), -1), hidden);
}

Tile noSum(const Range &hidden) { return cast(hidden.positions(), ElementType::f32) * 0.0; }

std::string specialisationOf(const OneHotSumSpec &spec) {
  constexpr const char *gains[] = {"", ",over gain", ",makes gain"};
  return std::string(elementName(spec.element)) + (spec.place == OneHotPlace::label ? ",of classes," : ",") +
         std::to_string(spec.positions) + "x" + std::to_string(spec.columns) +
         (spec.ofPieces ? ",of pieces" : "") + gains[static_cast<int>(spec.gain)] +
         (spec.scalesRows ? ",scales rows" : "") +
         (spec.reduction == Reduction::none   ? ""
          : spec.reduction == Reduction::mean ? ",mean"
                                              : ",sum");
}

/// Of `oneHotSum`, in their order.
struct Parameters {
  View x, number, oneHot, order, run, label, pieces, gain, u, scale, scaled, largest;
  Index firstClass;

  Parameters(KernelBuilder &k, const OneHotSumSpec &spec) {
    x = k.input("x", spec.element, 2), number = k.input("row", ElementType::i32, 1);
    oneHot = k.input("one_hot", ElementType::f32, 1);
    order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    if (spec.place == OneHotPlace::label)
      label = k.input("label", ElementType::i32, 1), firstClass = k.index("first_class");
    if (spec.ofPieces) pieces = k.input("pieces", ElementType::f32, 2);
    if (spec.gain == Gain::given) gain = k.input("gain", ElementType::f32, 1);
    u = k.output("u", ElementType::f32, 2);
    if (!spec.scalesRows) return;
    scale = k.input("scale", ElementType::f32, 1), scaled = k.output("xs", spec.element, 2);
    if (spec.gain != Gain::made) return;
    largest = k.input("largest", ElementType::f32, 1), gain = k.output("gain", ElementType::f32, 1);
  }

  /// Not valid where there is none.
  Tile gainOfRows(KernelBuilder &k) const {
    if (largest.valid()) return gainOf(k, scale, largest);
    return gain.valid() ? first(k, gain) : Tile();
  }
};

/// A sorted position and the run that it belongs to, all of them 1×1.
struct SortedRow {
  Tile position, isHead;
  Tile end;   ///< the position behind the run
  Tile place; ///< where u has the run's sum
  Tile row;   ///< -1 where no run of this program has the position, or u has no place for it
};

/// The program's positions, from `begin` on. Each knows its run from the position before it.
std::vector<SortedRow> sortedRows(KernelBuilder &k, const Parameters &p, const Index &begin, int64_t count) {
  std::vector<SortedRow> rows;
  for (int64_t i = 0; i < count; ++i) {
    const Range at = k.range(Axis::rows, begin + i, 1);
    const Tile position = at.positions(), length = p.run[at], row = p.order[at], isHead = length > 0;
    Tile place = position;
    if (p.label.valid()) place = p.label.gather(row) - k.toTile(p.firstClass, ElementType::i32);
    const auto goOn = [&](const Tile &own, Tile SortedRow::*before) {
      return rows.empty() ? select(isHead, own, -1) : select(isHead, own, rows.back().*before);
    };
    const Tile end = goOn(position + length, &SortedRow::end);
    place = goOn(place, &SortedRow::place);
    const Tile hasPlace = (place >= 0) & (place < k.toTile(p.u.dim(0), ElementType::i32));
    rows.push_back({position, isHead, end, place, select((position < end) & hasPlace, row, -1)});
  }
  return rows;
}

/// `sum`, and the rows of the last position's run that lie behind it.
Tile addRest(KernelBuilder &k, const Parameters &p, const OneHotSumSpec &spec, const SortedRow &last,
             const Range &hidden, const Tile &sum, const std::function<Tile(const Tile &rows)> &ofRows) {
  const Index begin = k.toIndex(last.position) + 1;
  const Index end = k.toIndex(select(last.row >= 0, last.end, 0));
  if (!spec.ofPieces)
    return addPositions(k, p.order, begin, end, oneHotRowsAtOnce(spec.columns), sum, ofRows);
  return RunPieces{k, p.order, p.run}.addRest(
      begin, end, sum, oneHotRowsAtOnce(spec.columns), ofRows,
      [&](const Range &pieces, const Index &last) { return p.pieces.narrowed(0, last).at(pieces, hidden); });
}

/// What the program of the first rows and columns does.
void ifFirst(KernelBuilder &k, const Range &place, const Range &hidden, const std::function<void()> &body) {
  const auto isFirst = [&](const Range &range) { return range.begin == k.constant(0); };
  k.ifThen(isFirst(place), [&] { k.ifThen(isFirst(hidden), body); });
}

} // namespace

int64_t oneHotRowsAtOnce(int64_t columns) { return std::clamp<int64_t>(4096 / columns, 1, kMostRowsAtOnce); }

CompileOptions oneHotSumOptions() {
  CompileOptions options;
  options.schedule.warps = 2;
  return options;
}

Kernel oneHotSum(const OneHotSumSpec &spec) {
  return defineKernel("lce_one_hot_sum", specialisationOf(spec), [spec](KernelBuilder &k) {
    const Parameters p(k, spec);
    std::optional<LossReduction> losses;
    if (spec.reduction != Reduction::none) losses.emplace(k, spec.reduction == Reduction::mean);

    const auto [block, hidden] = k.block(p.order.dim(0), p.x.dim(1), spec.positions, spec.columns);
    if (losses) ifFirst(k, block, hidden, [&] { losses->store(); });
    const Tile gain = p.gainOfRows(k), perGain = gain.valid() ? 1.0 / gain : Tile();
    if (spec.gain == Gain::made) ifFirst(k, block, hidden, [&] { storeFirst(k, p.gain, gain); });
    if (spec.scalesRows) {
      const Tile scale = gain.valid() ? p.scale[block] / gain : p.scale[block];
      k.store(p.scaled, block, hidden, scale * p.scaled.at(block, hidden));
    }
    const std::vector<SortedRow> rows = sortedRows(k, p, block.begin, spec.positions);
    const auto ofRows = [&, hidden = hidden](const Tile &row) {
      return oneHotTerms(p.x, p.number, p.oneHot, row, hidden);
    };
    std::vector<Tile> terms; // all of them asked for before one is stored
    for (const SortedRow &row : rows)
      terms.push_back(ofRows(row.row));
    Tile sum = terms[0];
    for (std::size_t i = 1; i < rows.size(); ++i) {
      k.scatter(p.u, select(rows[i].position == rows[i - 1].end, rows[i - 1].place, -1), hidden,
                times(sum, perGain));
      sum = terms[i] + select(rows[i].isHead, 0, sum);
    }
    const SortedRow &last = rows.back();
    k.scatter(p.u, select(last.row >= 0, last.place, -1), hidden,
              times(addRest(k, p, spec, last, hidden, sum, ofRows), perGain));
  });
}

Kernel labelSums() {
  return defineKernel("lce_label_sums", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1),
               oneHot = k.input("one_hot", ElementType::f32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View sums = k.output("sums", ElementType::f32, 1);

    const Range position = k.blockRows(order.dim(0), 1);
    const Index begin = position.begin, length = k.toIndex(run[position]);
    k.ifThen(length != 0, [&] {
      const auto ofRows = [&](const Tile &rows) { return oneHot.gather(rows); };
      const Tile total = addPositions(k, order, begin, begin + length, kMostRowsAtOnce, number(k, 0), ofRows);
      k.scatter(sums, label.gather(order[position]), total);
    });
  });
}

Kernel oneHotPieces(ElementType element, int64_t columns) {
  const std::string specialisation = std::string(elementName(element)) + "," + std::to_string(columns);
  return defineKernel("lce_one_hot_pieces", specialisation, [element, columns](KernelBuilder &k) {
    const View x = k.input("x", element, 2), number = k.input("row", ElementType::i32, 1);
    const View oneHot = k.input("one_hot", ElementType::f32, 1),
               label = k.input("label", ElementType::i32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View slot = k.input("slot", ElementType::i32, 1), pieces = k.output("pieces", ElementType::f32, 2);

    const auto [piece, hidden] = k.block(pieces.dim(0), x.dim(1), 1, columns);
    const auto ofRows = [&, hidden = hidden](const Tile &rows) {
      return oneHotTerms(x, number, oneHot, rows, hidden);
    };
    RunPieces{k, order, run}.sumPiece(
        label, slot, piece.begin, [&, piece = piece, hidden = hidden](const Index &begin, const Index &end) {
          k.store(pieces, piece, hidden,
                  addPositions(k, order, begin, end, oneHotRowsAtOnce(columns), noSum(hidden), ofRows));
        });
  });
}

Kernel labelPieces() {
  return defineKernel("lce_label_pieces", "", [](KernelBuilder &k) {
    const View oneHot = k.input("one_hot", ElementType::f32, 1),
               label = k.input("label", ElementType::i32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View slot = k.input("slot", ElementType::i32, 1), pieces = k.output("pieces", ElementType::f32, 1);

    const Range piece = k.blockRows(pieces.dim(0), 1);
    const auto ofRows = [&](const Tile &rows) { return oneHot.gather(rows); };
    RunPieces{k, order, run}.sumPiece(label, slot, piece.begin, [&](const Index &begin, const Index &end) {
      k.store(pieces, piece, addPositions(k, order, begin, end, kLabelsAtOnce, number(k, 0), ofRows));
    });
  });
}

Kernel labelSumsOfPieces() {
  return defineKernel("lce_label_sums_of_pieces", "", [](KernelBuilder &k) {
    const View oneHot = k.input("one_hot", ElementType::f32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View slot = k.input("slot", ElementType::i32, 1), pieces = k.input("pieces", ElementType::f32, 1);
    const View sums = k.output("sums", ElementType::f32, 1);

    const Range label = k.blockRows(slot.dim(0), 1);
    const Tile from = slot[label];
    const auto ofRows = [&](const Tile &rows) { return oneHot.gather(rows); };
    k.ifThen(k.toCondition(from >= 0), [&] {
      const Index begin = k.toIndex(from), end = begin + k.toIndex(run[k.range(Axis::rows, begin, 1)]);
      const Tile head = ofRows(order[k.range(Axis::rows, begin, 1)]);
      const auto ofPieces = [&](const Range &rows, const Index &last) {
        return pieces.narrowed(0, last)[rows];
      };
      k.store(sums, label,
              RunPieces{k, order, run}.addRest(begin + 1, end, head, kLabelsAtOnce, ofRows, ofPieces));
    });
  });
}

} // namespace tilewright::lce
