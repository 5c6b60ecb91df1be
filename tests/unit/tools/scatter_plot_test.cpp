#include "tools/cli/scatter_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = PlotPoint::Kind;

int count(const std::string &text, const std::string &part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

/// Every tag is closed, in the right order, and nothing but known entities is escaped.
void expectWellFormed(const std::string &svg) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = svg.find('<', at)) != std::string::npos;) {
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    EXPECT_EQ(count(tag, "\"") % 2, 0) << tag;
    EXPECT_EQ(tag.find('<'), std::string::npos) << tag;
    const std::string name = tag.substr(0, tag.find(' '));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag[0] != '?' && tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  EXPECT_TRUE(open.empty());
  for (std::size_t at = 0; (at = svg.find('&', at)) != std::string::npos; ++at)
    EXPECT_TRUE(svg.compare(at, 5, "&amp;") == 0 || svg.compare(at, 4, "&lt;") == 0 ||
                svg.compare(at, 4, "&gt;") == 0 || svg.compare(at, 6, "&quot;") == 0);
}

ScatterPlot sample() {
  return {"1024x768 f32",
          {{64e6, 10, "chunk=512", Kind::winner},
           {32e6, 12, "chunk=256", Kind::winner},
           {64e6, 15, "slow", Kind::measured},
           {60e6, 11, "planned", Kind::heuristic}}};
}

TEST(ScatterPlot, ShowsAxesPointsAndTheFrontier) {
  const std::string svg = svgOf({sample()});
  expectWellFormed(svg);
  for (const char *expected : {"1024x768 f32", ">workspace<", ">time of a call in ms<", "MiB<", "<polyline",
                               "frontier", "untuned", "10.00 ms", "chunk=256"})
    EXPECT_THAT(svg, HasSubstr(expected));
  EXPECT_EQ(count(svg, "<circle"), 4 + 3) << "points, and those of the legend";
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0);
}

TEST(ScatterPlot, StacksSeveral) {
  const std::string svg = svgOf({sample(), sample(), {"nothing", {}}});
  expectWellFormed(svg);
  EXPECT_EQ(count(svg, "<g "), 3);
  EXPECT_THAT(svg, HasSubstr("nothing was measured"));
  EXPECT_THAT(svg, HasSubstr("height=\"1260\""));
}

TEST(ScatterPlot, OnePointHasAxesToo) {
  for (const PlotPoint &point : {PlotPoint{1, 0.001, "", Kind::winner}, PlotPoint{0, 0, "", Kind::winner},
                                 PlotPoint{1e13, 1e6, "", Kind::heuristic}}) {
    const std::string svg = svgOf({{"one", {point}}});
    expectWellFormed(svg);
    EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0) << svg;
    EXPECT_GE(count(svg, "<line"), 4);
    EXPECT_LE(count(svg, "<line"), 40);
  }
}

TEST(ScatterPlot, NamesCannotBreakIt) {
  ScatterPlot plot = sample();
  plot.title = "<script>\"&\x01\xff";
  const std::string svg = svgOf({plot});
  expectWellFormed(svg);
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

} // namespace
} // namespace tilewright
