#include <functional>
#include <optional>

#include "kernels/lce/gradient_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

/// Σ of a term of each row over the run of equal labels that begins at a sorted position; `use` gets it where
/// there is one.
void sumOverRun(KernelBuilder &k, const View &order, const View &run, const Range &position,
                const std::function<Tile(const Range &row)> &ofRow,
                const std::function<void(const Tile &)> &use) {
  const Index begin = position.begin, length = k.toIndex(run[position]);
  const auto rowAt = [&](const Index &s) {
    return k.range(Axis::rows, k.toIndex(order[k.range(Axis::rows, s, 1)]), 1);
  };
  const Range head =
      rowAt(begin); // asked for beside the run, so that one wait less lies ahead of its numbers
  k.ifThen(length != 0, [&] {
    const std::vector<Tile> total =
        k.forRange(begin + 1, begin + length, 1, {ofRow(head)}, [&](Index s, const std::vector<Tile> &sum) {
          return std::vector<Tile>{sum[0] + ofRow(rowAt(s))};
        });
    use(total[0]);
  });
}

constexpr int64_t kRowsAtOnce = 8, kPiecesAtOnce = 8, kLabelsAtOnce = 128;
static_assert(kRunPiece % kRowsAtOnce == 0 && kRunPiece % kLabelsAtOnce == 0);

/// Σ of what `ofRows` makes of the rows at sorted positions [begin, end), `atOnce` of them at a time. Rows
/// past the end are -1.
Tile sumOfPositions(KernelBuilder &k, const View &order, const Index &begin, const Index &end, int64_t atOnce,
                    const Tile &none, const std::function<Tile(const Tile &rows)> &ofRows) {
  return k.forRange(begin, end, atOnce, {none}, [&](Index s, const std::vector<Tile> &sums) {
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

  /// A run that begins at `from`: its positions in the piece where it begins, and the pieces that go on.
  void sumRun(const Index &from, const std::function<Tile(const Index &begin, const Index &end)> &own,
              const std::function<Tile(const Range &pieces, const Index &end)> &ofPieces,
              const std::function<void(const Tile &)> &use) const {
    const Index end = from + k.toIndex(run[k.range(Axis::rows, from, 1)]);
    const Index next = from / kRunPiece + 1, last = (end + (kRunPiece - 1)) / kRunPiece;
    const Tile begun = own(from, min(end, next * kRunPiece));
    use(k.forRange(next, last, kPiecesAtOnce, {begun}, [&](Index i, const std::vector<Tile> &sums) {
      const Tile pieces = ofPieces(k.range(Axis::rows, i, kPiecesAtOnce), last);
      return std::vector<Tile>{sums[0] + sum(pieces, Axis::rows)};
    })[0]);
  }
};

/// t_i x_i of rows of a chunk, which `number` numbers among all rows.
Tile oneHotTerms(const View &x, const View &number, const View &oneHot, const Tile &rows,
                 const Range &hidden) {
  return oneHot.gather(rows) * x.gather(select(rows >= 0, number.gather(rows), -1), hidden);
}

Tile noSum(const Range &hidden) { return cast(hidden.positions(), ElementType::f32) * 0.0; }

std::string specialisationOf(const OneHotSumSpec &spec) {
  return std::string(elementName(spec.element)) + (spec.place == OneHotPlace::label ? ",of classes," : ",") +
         std::to_string(spec.columns) +
         (spec.reduction == Reduction::none   ? ""
          : spec.reduction == Reduction::mean ? ",mean"
                                              : ",sum");
}

/// By the program of the first rows and columns.
void reduceLosses(KernelBuilder &k, const LossReduction &losses, const Range &place, const Range &hidden) {
  const auto isFirst = [&](const Range &range) { return range.begin == k.constant(0); };
  k.ifThen(isFirst(place), [&] { k.ifThen(isFirst(hidden), [&] { losses.store(); }); });
}

} // namespace

// Two warps have four vectors a thread on their way; what a program waits for ahead of them, one row number
// after the other, takes as long as they do.
CompileOptions oneHotSumOptions() {
  CompileOptions options;
  options.schedule.warps = 2;
  return options;
}

Kernel oneHotSum(const OneHotSumSpec &spec) {
  const bool ofClasses = spec.place == OneHotPlace::label;
  return defineKernel("lce_one_hot_sum", specialisationOf(spec), [spec, ofClasses](KernelBuilder &k) {
    const View x = k.input("x", spec.element, 2), number = k.input("row", ElementType::i32, 1);
    const View oneHot = k.input("one_hot", ElementType::f32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View slot = ofClasses ? k.input("slot", ElementType::i32, 1) : View();
    const View u = k.output("u", ElementType::f32, 2);
    std::optional<LossReduction> losses;
    if (spec.reduction != Reduction::none) losses.emplace(k, spec.reduction == Reduction::mean);

    const Index places = ofClasses ? slot.dim(0) : order.dim(0);
    const auto [place, hidden] = k.block(places, x.dim(1), 1, spec.columns);
    if (losses) reduceLosses(k, *losses, place, hidden);
    const auto sumFrom = [&, place = place, hidden = hidden](const Range &position) {
      sumOverRun(
          k, order, run, position,
          [&](const Range &row) {
            const Range from = k.range(Axis::rows, k.toIndex(number[row]), 1);
            return oneHot[row] * x.at(from, hidden);
          },
          [&](const Tile &total) { k.store(u, place, hidden, total); });
    };
    if (!ofClasses) return sumFrom(place);
    const Tile from = slot[place];
    k.ifThen(k.toCondition(from >= 0), [&] { sumFrom(k.range(Axis::rows, k.toIndex(from), 1)); });
  });
}

Kernel labelSums() {
  return defineKernel("lce_label_sums", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1),
               oneHot = k.input("one_hot", ElementType::f32, 1);
    const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
    const View sums = k.output("sums", ElementType::f32, 1);

    const Range position = k.blockRows(order.dim(0), 1);
    sumOverRun(
        k, order, run, position, [&](const Range &row) { return oneHot[row]; },
        [&](const Tile &total) { k.scatter(sums, label.gather(order[position]), total); });
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
                  sumOfPositions(k, order, begin, end, kRowsAtOnce, noSum(hidden), ofRows));
        });
  });
}

Kernel oneHotSumOfPieces(const OneHotSumSpec &spec) {
  const bool ofClasses = spec.place == OneHotPlace::label;
  return defineKernel(
      "lce_one_hot_sum_of_pieces", specialisationOf(spec), [spec, ofClasses](KernelBuilder &k) {
        const View x = k.input("x", spec.element, 2), number = k.input("row", ElementType::i32, 1);
        const View oneHot = k.input("one_hot", ElementType::f32, 1);
        const View order = k.input("order", ElementType::i32, 1), run = k.input("run", ElementType::i32, 1);
        const View slot = ofClasses ? k.input("slot", ElementType::i32, 1) : View();
        const View pieces = k.input("pieces", ElementType::f32, 2), u = k.output("u", ElementType::f32, 2);

        const auto [place, hidden] =
            k.block(ofClasses ? slot.dim(0) : order.dim(0), x.dim(1), 1, spec.columns);
        const Tile from = ofClasses ? slot[place] : select(run[place] > 0, place.positions(), -1);
        k.ifThen(k.toCondition(from >= 0), [&, place = place, hidden = hidden] {
          const auto ofRows = [&](const Tile &rows) { return oneHotTerms(x, number, oneHot, rows, hidden); };
          RunPieces{k, order, run}.sumRun(
              k.toIndex(from),
              [&](const Index &begin, const Index &end) {
                return sumOfPositions(k, order, begin, end, kRowsAtOnce, noSum(hidden), ofRows);
              },
              [&](const Range &rows, const Index &end) { return pieces.narrowed(0, end).at(rows, hidden); },
              [&](const Tile &total) { k.store(u, place, hidden, total); });
        });
      });
}

CompileOptions oneHotPiecesOptions() {
  CompileOptions options;
  options.schedule.warps = 1;
  return options;
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
      k.store(pieces, piece, sumOfPositions(k, order, begin, end, kLabelsAtOnce, number(k, 0), ofRows));
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
      RunPieces{k, order, run}.sumRun(
          k.toIndex(from),
          [&](const Index &begin, const Index &end) {
            return sumOfPositions(k, order, begin, end, kLabelsAtOnce, number(k, 0), ofRows);
          },
          [&](const Range &rows, const Index &end) { return pieces.narrowed(0, end)[rows]; },
          [&](const Tile &total) { k.store(sums, label, total); });
    });
  });
}

} // namespace tilewright::lce
