#include "report/plot.h"

#include <gtest/gtest.h>

#include <regex>

namespace tandem::report {
namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Returns the numbers that match the group of `pattern`, in order.
std::vector<double> numbers(const std::string& svg, const std::string& pattern) {
  std::vector<double> out;
  const std::regex regex(pattern);
  for (auto m = std::sregex_iterator(svg.begin(), svg.end(), regex); m != std::sregex_iterator();
       ++m) {
    out.push_back(std::stod((*m)[1]));
  }
  return out;
}

TEST(Plot, OrdersDots) {
  const auto out =
      to_svg(Scatter{.title = "a < b & c",
                     .x_label = "x",
                     .y_label = "y",
                     .series = {{"one", {{1, 5, "p"}, {2, 6, "q"}, {4, 3, "r"}}, true}},
                     .x_limit = {{3, "limit"}}});
  EXPECT_NE(out.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_EQ(count(out, "<circle"), 3U);
  EXPECT_NE(out.find("limit"), std::string::npos);
  const auto x = numbers(out, "cx=\"([-0-9.]+)\"");
  const auto y = numbers(out, "cy=\"([-0-9.]+)\"");
  EXPECT_NEAR((x[2] - x[1]) / (x[1] - x[0]), 2, 0.01);  // linear
  EXPECT_LT(y[1], y[0]);                                // upwards
  EXPECT_NEAR((y[2] - y[1]) / (y[0] - y[1]), 3, 0.05);
}

TEST(Plot, UsesALogarithmicAxisForWideRanges) {
  const auto out = to_svg(Scatter{.title = "t",
                                  .x_label = "x",
                                  .y_label = "y",
                                  .series = {{"one", {{1, 1, ""}, {10, 2, ""}, {100, 3, ""}}}}});
  const auto x = numbers(out, "cx=\"([-0-9.]+)\"");
  EXPECT_NEAR(x[2] - x[1], x[1] - x[0], 0.2);
}

TEST(Plot, DrawsAnEmptyPlot) {
  for (const auto& out : {to_svg(Scatter{.title = "t", .x_label = "", .y_label = "", .series = {}}),
                          to_svg(Bars{.title = "t", .label = "", .groups = {}, .series = {}})}) {
    EXPECT_TRUE(out.starts_with("<svg") && out.ends_with("</svg>\n"));
    EXPECT_EQ(out.find("nan"), std::string::npos);
    EXPECT_EQ(out.find("inf"), std::string::npos);
  }
}

TEST(Plot, DrawsBarsAsLongAsTheirValues) {
  const auto out = to_svg(Bars{.title = "t",
                               .label = "l",
                               .groups = {"g", "h"},
                               .series = {{"one", {1.0, 2.0}}, {"two", {4.0, std::nullopt}}}});
  const auto widths = numbers(out, "width=\"([0-9.]+)\" height=\"11");
  ASSERT_EQ(widths.size(), 4U);  // by group, then by series
  EXPECT_NEAR(widths[1] / widths[0], 4, 0.01);
  EXPECT_NEAR(widths[2] / widths[0], 2, 0.01);
  EXPECT_EQ(widths[3], 0);
  EXPECT_NE(out.find(">-</text>"), std::string::npos);
}

TEST(Plot, StacksBars) {
  const auto out = to_svg(Bars{.title = "t",
                               .label = "l",
                               .groups = {"g"},
                               .series = {{"one", {1.0}}, {"two", {3.0}}},
                               .stacked = true});
  const auto x = numbers(out, "<rect x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"[0-9.]+\" height=\"11");
  const auto widths = numbers(out, "width=\"([0-9.]+)\" height=\"11");
  ASSERT_EQ(x.size(), 2U);
  EXPECT_NEAR(x[1], x[0] + widths[0], 0.2);
  EXPECT_NEAR(widths[1] / widths[0], 3, 0.02);
}

}  // namespace
}  // namespace tandem::report
