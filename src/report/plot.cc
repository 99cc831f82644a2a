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
std::string_view colour(std::size_t series) { return kColours[series % kColours.size()]; }

std::string escaped(std::string_view text) {
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
  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                         y1, x2, y2, style);
  }
  void text(double x, double y, std::string_view text, std::string_view style = "") {
    body_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, escaped(text));
  }
  void bar(double x, double y, double width, double height, std::string_view fill,
           std::string_view title) {
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}"
        "</title></rect>\n",
        x, y, width, height, fill, escaped(title));
  }
  void dot(double x, double y, std::string_view style, std::string_view title) {
    body_ +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" {}><title>{}</title></circle>\n",
                    x, y, style, escaped(title));
  }
  // Appends a coloured square and a name for each series, in one line.
  void legend(double x, double y, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      body_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                      x, y - 9, colour(i));
      text(x + 14, y, names[i]);
      x += 30 + 6.6 * static_cast<double>(names[i].size());
    }
  }

  [[nodiscard]] std::string svg(double width, double height) const {
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
class Scale {
 public:
  Scale(double low, double high, double from, double to) : from_(from), to_(to) {
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

  [[nodiscard]] double at(double value) const {
    const double v = log_ ? std::log10(value) : value;
    return from_ + (v - low_) / (high_ - low_) * (to_ - from_);
  }

  [[nodiscard]] std::vector<double> ticks() const { return log_ ? decades() : round_steps(); }

 private:
  [[nodiscard]] std::vector<double> decades() const {
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
  [[nodiscard]] std::vector<double> round_steps() const {
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

struct Range {
  double low = INFINITY;
  double high = -INFINITY;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool is_empty() const { return low > high; }
};

std::string shown(double value) { return value == 0 ? "0" : si(value); }

}  // namespace

std::string svg(const Scatter& plot) {
  constexpr double kLeft = 80;
  constexpr double kRight = 760;
  constexpr double kTop = 60;
  constexpr double kBottom = 460;
  Range xs;
  Range ys;
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
  const Scale x(xs.low, xs.high, kLeft, kRight);
  const Scale y(ys.low, ys.high, kBottom, kTop);
  Canvas canvas;
  canvas.text(kLeft, 22, plot.title, kTitle);
  canvas.legend(kLeft, 44, names);
  for (const double tick : x.ticks()) {
    canvas.line(x.at(tick), kTop, x.at(tick), kBottom, kGrid);
    canvas.text(x.at(tick), kBottom + 18, shown(tick), "text-anchor=\"middle\"");
  }
  for (const double tick : y.ticks()) {
    canvas.line(kLeft, y.at(tick), kRight, y.at(tick), kGrid);
    canvas.text(kLeft - 6, y.at(tick) + 4, shown(tick), "text-anchor=\"end\"");
  }
  canvas.text((kLeft + kRight) / 2, kBottom + 38, plot.x_label, "text-anchor=\"middle\"");
  canvas.text(
      16, (kTop + kBottom) / 2, plot.y_label,
      fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {})\"", (kTop + kBottom) / 2));
  if (plot.x_limit && plot.x_limit->first >= xs.low && plot.x_limit->first <= xs.high) {
    const double at = x.at(plot.x_limit->first);
    canvas.line(at, kTop, at, kBottom, kDashed);
    canvas.text(at + 4, kBottom - 6, plot.x_limit->second);
  }
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const auto& series = plot.series[s];
    for (std::size_t i = 1; i < series.dots.size() && series.joined; ++i) {
      const auto& a = series.dots[i - 1];
      const auto& b = series.dots[i];
      canvas.line(x.at(a.x), y.at(a.y), x.at(b.x), y.at(b.y),
                  fmt::format("stroke=\"{}\" stroke-width=\"1.5\"", colour(s)));
    }
    const auto style = series.hollow ? fmt::format("fill=\"none\" stroke=\"{}\"", colour(s))
                                     : fmt::format("fill=\"{}\"", colour(s));
    for (const auto& dot : series.dots) canvas.dot(x.at(dot.x), y.at(dot.y), style, dot.title);
  }
  return canvas.svg(kRight + 30, kBottom + 54);
}

namespace {

class BarChart {
 public:
  explicit BarChart(const Bars& plot) : plot_(plot), x_(scale()) {}

  std::string run() {
    std::vector<std::string> names;
    for (const auto& series : plot_.series) names.push_back(series.name);
    const double bottom = kTop + group_height() * static_cast<double>(plot_.groups.size());
    canvas_.text(12, 22, plot_.title, kTitle);
    canvas_.legend(12, 44, names);
    for (const double tick : x_.ticks()) {
      canvas_.line(x_.at(tick), kTop, x_.at(tick), bottom, kGrid);
      canvas_.text(x_.at(tick), bottom + 16, shown(tick), "text-anchor=\"middle\"");
    }
    if (plot_.reference) {
      canvas_.line(x_.at(*plot_.reference), kTop, x_.at(*plot_.reference), bottom, kDashed);
    }
    canvas_.text((kLeft + kRight) / 2, bottom + 34, plot_.label, "text-anchor=\"middle\"");
    for (std::size_t g = 0; g < plot_.groups.size(); ++g) add_group(g);
    return canvas_.svg(kRight + 60, bottom + 48);
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
  [[nodiscard]] Scale scale() const {
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
    canvas_.text(kLeft - 6, top + (group_height() - kGap) / 2 + 4, plot_.groups[g],
                 "text-anchor=\"end\"");
    double sum = 0;
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      const double from = plot_.stacked ? sum : 0;
      const double y = plot_.stacked ? top : top + kBar * static_cast<double>(s);
      const auto& known = plot_.series[s].values[g];
      sum = from + value(s, g);
      const auto text = known ? shown(*known) : std::string("-");
      const double left = plot_.stacked ? x_.at(from) : kLeft;
      const double right = sum > 0 ? x_.at(sum) : kLeft;
      canvas_.bar(left, y + 1, right - left, kBar - 2, colour(s),
                  fmt::format("{}, {}: {}", plot_.groups[g], plot_.series[s].name, text));
      if (!plot_.stacked) canvas_.text(right + 4, y + kBar - 3, text, "font-size=\"10\"");
    }
    if (plot_.stacked) canvas_.text(x_.at(sum) + 4, top + kBar - 3, shown(sum), "font-size=\"10\"");
  }

  const Bars& plot_;
  Scale x_;
  Canvas canvas_;
};

}  // namespace

std::string svg(const Bars& plot) { return BarChart(plot).run(); }

}  // namespace tandem::report
