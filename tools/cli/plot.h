#pragma once

#include <string>
#include <vector>

namespace tilewright {

struct PlotSize {
  int columns = 64; ///< characters of the drawing itself
  int rows = 12;
};

/// A line plot of values at 1, 2, …, with its axes labelled, as lines of text. Values that are not finite
/// leave a gap. In Unicode every character holds 2×4 points (braille), else one.
std::string plot(const std::vector<double> &values, PlotSize size, bool unicode);

} // namespace tilewright
