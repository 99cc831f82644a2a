#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace tandem::report {

namespace {

// Okabe and Ito's palette.
constexpr std::array<std::string_view, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#555555"};
std::string_view get_series_colour(std::size_t series) {
  return kColours[series % kColours.size()];
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

// Collects SVG elements. Coordinates are pixels, with y downwards.
class Canvas {
 public:
  void add_line(double x1, double y1, double x2, double y2, std::string_view style) {
    body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                         y1, x2, y2, style);
  }
  void add_text(double x, double y, std::string_view add_text, std::string_view style = "") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style,
                         escape(add_text));
  }
  void add_bar(double x, double y, double width, double height, std::string_view fill,
               std::string_view title) {
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}"
        "</title></rect>\n",
        x, y, width, height, fill, escape(title));
  }
  void add_dot(double x, double y, std::string_view style, std::string_view title) {
    body_ +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" {}><title>{}</title></circle>\n",
                    x, y, style, escape(title));
  }
  // Appends a coloured square and a name for each series, in one line.
  void add_legend(double x, double y, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      body_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                      x, y - 9, get_series_colour(i));
      add_text(x + 14, y, names[i]);
      x += 30 + 6.6 * static_cast<double>(names[i].size());
    }
  }

  [[nodiscard]] std::string to_svg(double width, double height) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
        width, height, body_);
  }

 private:
  std::string body_;
};

constexpr std::string_view kGrid = "stroke=\"#dddddd\"";
constexpr std::string_view kDashed = "stroke=\"#555555\" stroke-dasharray=\"5 4\"";
constexpr std::string_view kTitle = "font-size=\"15\" font-weight=\"bold\"";

// Maps values to pixels and chooses round ticks.
class PlotScale {
 public:
  PlotScale(double low, double high, double from, double to) : from_(from), to_(to) {
    constexpr double kLogFrom = 30;
    log_ = low > 0 && high / low > kLogFrom;
    if (log_) {
      low_ = std::log10(low) - 0.1;
      high_ = std::log10(high) + 0.1;
    } else {
      const double room = high > low ? 0.05 * (high - low) : std::max(0.05 * std::abs(high), 1e-9);
      low_ = low == 0 ? 0 : low - room;
      high_ = high + room;
    }
  }

  [[nodiscard]] double to_pixel(double value) const {
    const double v = log_ ? std::log10(value) : value;
    return from_ + (v - low_) / (high_ - low_) * (to_ - from_);
  }

  [[nodiscard]] std::vector<double> make_ticks() const {
    return log_ ? make_decade_ticks() : make_linear_ticks();
  }

 private:
  [[nodiscard]] std::vector<double> make_decade_ticks() const {
    std::vector<double> out;
    const bool fine = high_ - low_ < 3;
    for (double d = std::floor(low_); d <= high_; ++d) {
      for (const double m : {1.0, 2.0, 5.0}) {
        const double v = d + std::log10(m);
        if ((m == 1 || fine) && v >= low_ && v <= high_) out.push_back(std::pow(10, v));
      }
    }
    return out;
  }
  [[nodiscard]] std::vector<double> make_linear_ticks() const {
    const double rough = (high_ - low_) / 6;
    const double decade = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * decade;
    for (const double m : {5.0, 2.0, 1.0}) {
      if (m * decade >= rough) step = m * decade;
    }
    std::vector<double> out;
    for (double n = std::ceil(low_ / step); n * step <= high_; ++n) out.push_back(n * step);
    return out;
  }

  double from_, to_;
  double low_ = 0, high_ = 1;
  bool log_ = false;
};

struct PlotRange {
  double low = INFINITY;
  double high = -INFINITY;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool is_empty() const { return low > high; }
};

std::string number_text(double value) { return value == 0 ? "0" : format_si(value); }

}  // namespace

std::string to_svg(const Scatter& plot) {
  constexpr double kLeft = 80;
  constexpr double kRight = 760;
  constexpr double kTop = 60;
  constexpr double kBottom = 460;
  PlotRange xs;
  PlotRange ys;
  std::vector<std::string> names;
  for (const auto& series : plot.series) {
    names.push_back(series.name);
    for (const auto& dot : series.dots) {
      xs.add(dot.x);
      ys.add(dot.y);
    }
  }
  if (xs.is_empty()) {
    xs.add(0);
    ys.add(0);
  }
  const PlotScale x(xs.low, xs.high, kLeft, kRight);
  const PlotScale y(ys.low, ys.high, kBottom, kTop);
  Canvas canvas;
  canvas.add_text(kLeft, 22, plot.title, kTitle);
  canvas.add_legend(kLeft, 44, names);
  for (const double tick : x.make_ticks()) {
    canvas.add_line(x.to_pixel(tick), kTop, x.to_pixel(tick), kBottom, kGrid);
    canvas.add_text(x.to_pixel(tick), kBottom + 18, number_text(tick), "text-anchor=\"middle\"");
  }
  for (const double tick : y.make_ticks()) {
    canvas.add_line(kLeft, y.to_pixel(tick), kRight, y.to_pixel(tick), kGrid);
    canvas.add_text(kLeft - 6, y.to_pixel(tick) + 4, number_text(tick), "text-anchor=\"end\"");
  }
  canvas.add_text((kLeft + kRight) / 2, kBottom + 38, plot.x_label, "text-anchor=\"middle\"");
  canvas.add_text(
      16, (kTop + kBottom) / 2, plot.y_label,
      fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {})\"", (kTop + kBottom) / 2));
  if (plot.x_limit && plot.x_limit->first >= xs.low && plot.x_limit->first <= xs.high) {
    const double at = x.to_pixel(plot.x_limit->first);
    canvas.add_line(at, kTop, at, kBottom, kDashed);
    canvas.add_text(at + 4, kBottom - 6, plot.x_limit->second);
  }
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const auto& series = plot.series[s];
    for (std::size_t i = 1; i < series.dots.size() && series.joined; ++i) {
      const auto& a = series.dots[i - 1];
      const auto& b = series.dots[i];
      canvas.add_line(x.to_pixel(a.x), y.to_pixel(a.y), x.to_pixel(b.x), y.to_pixel(b.y),
                      fmt::format("stroke=\"{}\" stroke-width=\"1.5\"", get_series_colour(s)));
    }
    const auto style = series.hollow
                           ? fmt::format("fill=\"none\" stroke=\"{}\"", get_series_colour(s))
                           : fmt::format("fill=\"{}\"", get_series_colour(s));
    for (const auto& dot : series.dots)
      canvas.add_dot(x.to_pixel(dot.x), y.to_pixel(dot.y), style, dot.title);
  }
  return canvas.to_svg(kRight + 30, kBottom + 54);
}

namespace {

class BarChart {
 public:
  explicit BarChart(const Bars& plot) : plot_(plot), x_(make_scale()) {}

  std::string run() {
    std::vector<std::string> names;
    for (const auto& series : plot_.series) names.push_back(series.name);
    const double bottom = kTop + group_height() * static_cast<double>(plot_.groups.size());
    canvas_.add_text(12, 22, plot_.title, kTitle);
    canvas_.add_legend(12, 44, names);
    for (const double tick : x_.make_ticks()) {
      canvas_.add_line(x_.to_pixel(tick), kTop, x_.to_pixel(tick), bottom, kGrid);
      canvas_.add_text(x_.to_pixel(tick), bottom + 16, number_text(tick), "text-anchor=\"middle\"");
    }
    if (plot_.reference) {
      canvas_.add_line(x_.to_pixel(*plot_.reference), kTop, x_.to_pixel(*plot_.reference), bottom,
                       kDashed);
    }
    canvas_.add_text((kLeft + kRight) / 2, bottom + 34, plot_.label, "text-anchor=\"middle\"");
    for (std::size_t g = 0; g < plot_.groups.size(); ++g) add_group(g);
    return canvas_.to_svg(kRight + 60, bottom + 48);
  }

 private:
  static constexpr double kLeft = 230;
  static constexpr double kRight = 720;
  static constexpr double kTop = 60;
  static constexpr double kBar = 13;
  static constexpr double kGap = 8;

  [[nodiscard]] double value(std::size_t series, std::size_t group) const {
    return plot_.series[series].values[group].value_or(0);
  }
  [[nodiscard]] double group_height() const {
    return kGap + kBar * (plot_.stacked ? 1.0 : static_cast<double>(plot_.series.size()));
  }
  [[nodiscard]] PlotScale make_scale() const {
    double most = 0;
    double least = INFINITY;
    for (std::size_t g = 0; g < plot_.groups.size(); ++g) {
      double sum = 0;
      for (std::size_t s = 0; s < plot_.series.size(); ++s) {
        sum = plot_.stacked ? sum + value(s, g) : std::max(sum, value(s, g));
        if (value(s, g) > 0) least = std::min(least, value(s, g));
      }
      most = std::max(most, sum);
    }
    return {plot_.log ? least : 0, most > 0 ? most : 1, kLeft, kRight};
  }

  void add_group(std::size_t g) {
    const double top = kTop + group_height() * static_cast<double>(g) + kGap / 2;
    canvas_.add_text(kLeft - 6, top + (group_height() - kGap) / 2 + 4, plot_.groups[g],
                     "text-anchor=\"end\"");
    double sum = 0;
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      const double from = plot_.stacked ? sum : 0;
      const double y = plot_.stacked ? top : top + kBar * static_cast<double>(s);
      const auto& known = plot_.series[s].values[g];
      sum = from + value(s, g);
      const auto text = known ? number_text(*known) : std::string("-");
      const double left = plot_.stacked ? x_.to_pixel(from) : kLeft;
      const double right = sum > 0 ? x_.to_pixel(sum) : kLeft;
      canvas_.add_bar(left, y + 1, right - left, kBar - 2, get_series_colour(s),
                      fmt::format("{}, {}: {}", plot_.groups[g], plot_.series[s].name, text));
      if (!plot_.stacked) canvas_.add_text(right + 4, y + kBar - 3, text, "font-size=\"10\"");
    }
    if (plot_.stacked)
      canvas_.add_text(x_.to_pixel(sum) + 4, top + kBar - 3, number_text(sum), "font-size=\"10\"");
  }

  const Bars& plot_;
  PlotScale x_;
  Canvas canvas_;
};

}  // namespace

std::string to_svg(const Bars& plot) { return BarChart(plot).run(); }

}  // namespace tandem::report
