#pragma once

#include <string>
#include <vector>

namespace tilewright {

/// One configuration in a plot.
struct PlotPoint {
  double workspaceBytes = 0, milliseconds = 0;
  std::string label; ///< shown where the pointer rests
  enum class Kind { measured, winner, heuristic } kind = Kind::measured;
};

struct ScatterPlot {
  std::string title;
  std::vector<PlotPoint> points;
};

/// An SVG file with the plots below each other: time against workspace, the frontier as a line through the
/// winners.
std::string svgOf(const std::vector<ScatterPlot> &plots);

} // namespace tilewright
