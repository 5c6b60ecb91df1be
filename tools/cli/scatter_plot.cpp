#include "tools/cli/scatter_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/base/byte_text.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr int kWidth = 760, kHeight = 420;
constexpr int kLeft = 80, kRight = 40, kTop = 64, kBottom = 60;

/// Text between tags or quotes.
std::string escaped(const std::string &text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

/// Maps values to pixels, with round numbers to label.
struct Axis {
  double low = 0, high = 1;
  int begin = 0, end = 1; ///< pixels of low and high
  std::vector<double> ticks;

  double pixel(double value) const { return begin + (value - low) / (high - low) * (end - begin); }
};

/// 1, 2 or 5 times a power of ten, such that `span` has about `count` of them.
double roundStep(double span, int count) {
  const double power = std::pow(10, std::floor(std::log10(span / count)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power * count >= span) return factor * power;
  return 10 * power;
}

/// Times, from the fastest to the slowest, with some room.
Axis timeAxis(const std::vector<PlotPoint> &points) {
  Axis axis{INFINITY, -INFINITY, kHeight - kBottom, kTop, {}};
  for (const PlotPoint &point : points)
    axis.low = std::min(axis.low, point.milliseconds), axis.high = std::max(axis.high, point.milliseconds);
  const double room = std::max((axis.high - axis.low) * 0.08, axis.high * 0.02 + 1e-6);
  axis.low = std::max(0.0, axis.low - room), axis.high += room;
  const double step = roundStep(axis.high - axis.low, 6);
  for (double tick = std::ceil(axis.low / step); tick * step <= axis.high; ++tick)
    axis.ticks.push_back(tick * step);
  return axis;
}

/// Logarithms to base 2 of bytes; ticks at powers of two.
Axis workspaceAxis(const std::vector<PlotPoint> &points) {
  Axis axis{INFINITY, -INFINITY, kLeft, kWidth - kRight, {}};
  for (const PlotPoint &point : points) {
    const double exponent = std::log2(std::max(point.workspaceBytes, 1.0));
    axis.low = std::min(axis.low, exponent), axis.high = std::max(axis.high, exponent);
  }
  axis.low = std::floor(axis.low - 0.1), axis.high = std::ceil(axis.high + 0.1);
  const double step = std::ceil((axis.high - axis.low) / 8);
  for (double tick = axis.low; tick <= axis.high; tick += step)
    axis.ticks.push_back(tick);
  return axis;
}

std::string text(double x, double y, const char *anchor, const std::string &words, const char *more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(words));
}

std::string line(double x1, double y1, double x2, double y2, const char *colour) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1,
                     y1, x2, y2, colour);
}

std::string axes(const Axis &x, const Axis &y) {
  std::string svg;
  for (const double tick : x.ticks) {
    svg += line(x.pixel(tick), y.begin, x.pixel(tick), y.end, "#e4e4e4");
    svg += text(x.pixel(tick), y.begin + 18, "middle", byteText(std::exp2(tick)));
  }
  for (const double tick : y.ticks) {
    svg += line(x.begin, y.pixel(tick), x.end, y.pixel(tick), "#e4e4e4");
    svg += text(x.begin - 8, y.pixel(tick) + 4, "end", fmt::format("{:g}", tick));
  }
  svg += line(x.begin, y.begin, x.end, y.begin, "#333") + line(x.begin, y.begin, x.begin, y.end, "#333");
  svg += text((x.begin + x.end) / 2.0, kHeight - 16, "middle", "workspace");
  svg += text(20, (y.begin + y.end) / 2.0, "middle", "time of a call in ms",
              fmt::format(" transform=\"rotate(-90 20 {})\"", (y.begin + y.end) / 2).c_str());
  return svg;
}

struct Style {
  const char *colour;
  double radius;
  const char *name;
};

Style styleOf(PlotPoint::Kind kind) {
  switch (kind) {
  case PlotPoint::Kind::winner:
    return {"#c0392b", 5.5, "frontier"};
  case PlotPoint::Kind::heuristic:
    return {"#1f6fb2", 8, "untuned"}; // seen around a winner, which it may be
  case PlotPoint::Kind::measured:
    break;
  }
  return {"#9a9a9a", 3.5, "other configurations"};
}

std::string dot(double x, double y, Style style, const std::string &label) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"><title>{}</title></circle>\n",
                     x, y, style.radius, style.colour, escaped(label));
}

std::string legend() {
  std::string svg;
  double x = kLeft;
  for (const auto kind : {PlotPoint::Kind::winner, PlotPoint::Kind::heuristic, PlotPoint::Kind::measured}) {
    const Style style = styleOf(kind);
    svg += dot(x + 6, 44, style, style.name) + text(x + 18, 48, "start", style.name);
    x += 110;
  }
  return svg;
}

/// Steps, since a workspace limit between two winners means the smaller one's time.
std::string frontierLine(std::vector<PlotPoint> points, const Axis &x, const Axis &y) {
  std::sort(points.begin(), points.end(),
            [](const PlotPoint &a, const PlotPoint &b) { return a.workspaceBytes < b.workspaceBytes; });
  std::string path;
  double before = 0;
  for (const PlotPoint &point : points) {
    if (point.kind != PlotPoint::Kind::winner) continue;
    const double px = x.pixel(std::log2(std::max(point.workspaceBytes, 1.0))),
                 py = y.pixel(point.milliseconds);
    if (!path.empty()) path += fmt::format(" {:.1f},{:.1f}", px, before);
    path += fmt::format(" {:.1f},{:.1f}", px, py);
    before = py;
  }
  if (path.empty()) return "";
  path += fmt::format(" {:.1f},{:.1f}", static_cast<double>(x.end), before);
  return "<polyline fill=\"none\" stroke=\"#c0392b\" stroke-width=\"1.5\" points=\"" + path.substr(1) +
         "\"/>\n";
}

std::string panel(const ScatterPlot &plot) {
  std::string svg = text(kLeft, 24, "start", plot.title, " font-size=\"15\" font-weight=\"bold\"");
  if (plot.points.empty()) return svg + text(kLeft, kTop + 20, "start", "nothing was measured");
  const Axis x = workspaceAxis(plot.points), y = timeAxis(plot.points);
  svg += legend() + axes(x, y) + frontierLine(plot.points, x, y);
  // The others first, so that they do not hide what matters.
  for (const auto kind : {PlotPoint::Kind::measured, PlotPoint::Kind::heuristic, PlotPoint::Kind::winner})
    for (const PlotPoint &point : plot.points)
      if (point.kind == kind)
        svg += dot(x.pixel(std::log2(std::max(point.workspaceBytes, 1.0))), y.pixel(point.milliseconds),
                   styleOf(kind),
                   fmt::format("{:.2f} ms, {}: {}", point.milliseconds, byteText(point.workspaceBytes),
                               point.label));
  return svg;
}

} // namespace

std::string svgOf(const std::vector<ScatterPlot> &plots) {
  const int height = kHeight * static_cast<int>(plots.size());
  std::string svg = fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                                "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\" "
                                "fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                                kWidth, height);
  for (std::size_t i = 0; i < plots.size(); ++i)
    svg += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", kHeight * i, panel(plots[i]));
  return svg + "</svg>\n";
}

} // namespace tilewright
