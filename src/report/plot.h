// Draws small plots as SVG: scatter plots and grouped bars. The palette is safe for colour-blind
// readers, and each point and bar has a tooltip.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::report {

struct Dot {
  double x = 0, y = 0;
  std::string title;
};

struct Scatter {
  struct Series {
    std::string name;
    std::vector<Dot> dots;
    bool joined = false;  // whether a line joins the dots in order
    bool hollow = false;
  };
  std::string title;
  std::string x_label, y_label;
  std::vector<Series> series;
  std::optional<std::pair<double, std::string>> x_limit = {};  // vertical line and its label
};

// Returns the plot as SVG. An axis is logarithmic if its values are positive and span more than a
// factor of 30.
std::string to_svg(const Scatter& plot);

struct Bars {
  struct BarSeries {
    std::string name;
    std::vector<std::optional<double>> values;  // by group; nullopt if there is none
  };
  std::string title;
  std::string label;  // label of the value axis
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  bool stacked = false;                  // whether the series of a group are stacked in one bar
  std::optional<double> reference = {};  // value of a line across all bars
  bool log = false;                      // whether the axis may be logarithmic
};

// Returns horizontal bars as SVG. Each bar is followed by its value.
std::string to_svg(const Bars& plot);

}  // namespace tandem::report
