#include "tools/cli/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tilewright {
namespace {

/// Points on a grid, drawn as characters of dotsX × dotsY points each.
class Canvas {
public:
  Canvas(PlotSize size, bool unicode)
      : size_(size), unicode_(unicode), dotsX_(unicode ? 2 : 1), dotsY_(unicode ? 4 : 1),
        cells_(size.columns * size.rows, 0) {}

  int width() const { return size_.columns * dotsX_; }
  int height() const { return size_.rows * dotsY_; }

  void mark(int x, int y) {
    // Bit of each point of a braille character, by column and row: U+2800 + bits.
    static constexpr unsigned char bits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    cells_[y / dotsY_ * size_.columns + x / dotsX_] |= bits[x % dotsX_][y % dotsY_];
  }

  std::string line(int row) const {
    std::string text;
    for (int column = 0; column < size_.columns; ++column) {
      const unsigned char cell = cells_[row * size_.columns + column];
      if (cell == 0)
        text += ' ';
      else if (!unicode_)
        text += '*';
      else
        text += {'\xe2', static_cast<char>(0xa0 | cell >> 6), static_cast<char>(0x80 | (cell & 0x3f))};
    }
    return text;
  }

private:
  PlotSize size_;
  bool unicode_;
  int dotsX_, dotsY_;
  std::vector<unsigned char> cells_;
};

struct Limits {
  double low = 0, high = 1;
};

Limits limitsOf(const std::vector<double> &values) {
  Limits limits{INFINITY, -INFINITY};
  for (double value : values)
    if (std::isfinite(value)) limits = {std::min(limits.low, value), std::max(limits.high, value)};
  if (!(limits.low <= limits.high)) return {};
  if (limits.low == limits.high) return {limits.low - 0.5, limits.high + 0.5};
  return limits;
}

/// Marks column x from one height to the next, so that the line has no holes.
void drawColumn(Canvas &canvas, int x, int from, int to) {
  for (int y = std::min(from, to); y <= std::max(from, to); ++y)
    canvas.mark(x, y);
}

void drawLine(Canvas &canvas, const std::vector<double> &values, Limits limits) {
  const int last = canvas.height() - 1;
  int before = -1;
  for (int x = 0; x < canvas.width(); ++x) {
    const double value = values[x * (values.size() - 1) / std::max(canvas.width() - 1, 1)];
    if (!std::isfinite(value)) {
      before = -1;
      continue;
    }
    const int y =
        last - static_cast<int>(std::lround((value - limits.low) / (limits.high - limits.low) * last));
    drawColumn(canvas, x, before < 0 ? y : before, y);
    before = y;
  }
}

} // namespace

std::string plot(const std::vector<double> &values, PlotSize size, bool unicode) {
  if (values.empty()) return "";
  Canvas canvas(size, unicode);
  const Limits limits = limitsOf(values);
  drawLine(canvas, values, limits);

  const char *wall = unicode ? "│" : "|", *corner = unicode ? "└" : "+", *floor = unicode ? "─" : "-";
  std::string text;
  for (int row = 0; row < size.rows; ++row) {
    const double value = limits.high - (limits.high - limits.low) * row / std::max(size.rows - 1, 1);
    const bool labelled = row % 3 == 0 || row == size.rows - 1;
    text += fmt::format("{:>8} {}{}\n", labelled ? fmt::format("{:.2f}", value) : "", wall, canvas.line(row));
  }
  text += fmt::format("{:>8} {}", "", corner);
  for (int column = 0; column < size.columns; ++column)
    text += floor;
  const std::string end = std::to_string(values.size());
  return text + fmt::format("\n{:>10}{}{:>{}}\n", "", "1", end, size.columns - 1);
}

} // namespace tilewright
