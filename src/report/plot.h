// Small plots as SVG files: points in a plane, bars in groups. Colours tell apart for all eyes, and
// every point and bar has a title that shows under the mouse.
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
    bool joined = false;  // by a line, in the order of the dots
    bool hollow = false;
  };
  std::string title;
  std::string x_label, y_label;
  std::vector<Series> series;
  std::optional<std::pair<double, std::string>> x_limit = {};  // a line across, and its name
};

// Axes are logarithmic where values span more than a factor of 30; those must be above 0.
std::string svg(const Scatter& plot);

struct Bars {
  struct Series {
    std::string name;
    std::vector<std::optional<double>> values;  // by group; nothing where there is none
  };
  std::string title;
  std::string label;  // of the values
  std::vector<std::string> groups;
  std::vector<Series> series;
  bool stacked = false;                  // the series of a group add up in one bar
  std::optional<double> reference = {};  // a line across
  bool log = false;                      // where values span orders of magnitude
};

// One bar below the other, its value behind it.
std::string svg(const Bars& plot);

}  // namespace tandem::report
