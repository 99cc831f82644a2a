#include "machine/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace tandem::machine {

namespace {

constexpr std::string_view kBackward = "backward:";

std::string shape_text(const Shape& shape) {
  return shape.rank() == 0 ? "-" : fmt::format("{}", fmt::join(shape, "x"));
}

std::optional<Shape> parse_shape(std::string_view text) {
  if (text == "-") return Shape{};
  Shape out;
  for (const auto part : split(text, 'x')) {
    const auto n = parse_int(part);
    if (!n || *n < 0 || out.rank() == Shape::kMaxRank) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

Hash hash_of_text(std::string_view pass) {
  if (!pass.starts_with(kBackward)) return hash_text(pass);
  const auto operands = parse_int(pass.substr(kBackward.size()));
  return hash_of_pass(true, static_cast<std::uint64_t>(operands.value_or(0)));
}

}  // namespace

Hash hash_of_kind(Hash pass, DType dtype, Hash op) {
  return hash_combine(hash_combine(pass, static_cast<Hash>(dtype)), op);
}

Hash hash_of_pass(bool backward, std::uint64_t operands) {
  static const Hash kForwardPass = hash_text("forward");
  static const Hash kBackwardPass = hash_text("backward");
  return backward ? hash_combine(kBackwardPass, operands) : kForwardPass;
}

Hash hash_of_shape(Hash before, const Shape& shape) {
  before = hash_combine(before, shape.rank());
  for (const auto n : shape) before = hash_combine(before, static_cast<Hash>(n));
  return before;
}

Hash MeasuredKind::hash() const {
  return hash_of_kind(hash_of_text(pass), dtype,
                      hash_combine(hash_text(name), hash_text(attributes)));
}

Hash MeasuredTime::shapes_hash() const {
  Hash out = 0;
  for (const auto& shape : shapes) out = hash_of_shape(out, shape);
  return out;
}

std::string to_text(const MeasuredTime& m) {
  std::vector<std::string> shapes;
  for (const auto& shape : m.shapes) shapes.push_back(shape_text(shape));
  auto out =
      fmt::format("{:.4g} us of {:.4g} us {} {} {} {}", 1e6 * m.time.value, 1e6 * m.modelled.value,
                  m.kind.pass, name(m.kind.dtype), fmt::join(shapes, ","), m.kind.name);
  if (!m.kind.attributes.empty()) out += " " + m.kind.attributes;
  return out;
}

MeasuredTime parse_measured(const Place& place, Words rest) {
  const auto wrong = [&] {
    place.fail(fmt::format("{}: expected two times, a pass, an element type, shapes, an operator",
                           shown("measured", rest)),
               "write it like 'measured 812 us of 640 us forward fp32 64x32,16x32,64x16 linear'");
  };
  constexpr std::size_t kFewest = 9;
  if (rest.size() < kFewest || rest[2] != "of") wrong();
  MeasuredTime out;
  out.time = Seconds{read_number(place, "measured", rest.subspan(0, 2), kTime, true)};
  out.modelled = Seconds{read_number(place, "measured", rest.subspan(3, 2), kTime, true)};
  out.kind.pass = rest[5];
  if (!parse_attribute(rest[6], out.kind.dtype)) wrong();
  for (const auto text : split(rest[7], ',')) {
    const auto shape = parse_shape(text);
    if (!shape) wrong();
    out.shapes.push_back(*shape);
  }
  out.kind.name = rest[8];
  out.kind.attributes = fmt::format("{}", fmt::join(rest.subspan(kFewest), " "));
  return out;
}

void MeasuredTimes::add(const MeasuredTime& measured) {
  const Point point{measured.shapes_hash(), measured.modelled.value, measured.time.value};
  // A copy where others have it, too.
  auto all = points_ != nullptr && points_.use_count() == 1
                 ? std::const_pointer_cast<Points>(points_)
                 : std::make_shared<Points>(points_ == nullptr ? Points{} : *points_);
  auto& points = (*all)[measured.kind.hash()];
  points.insert(std::ranges::upper_bound(points, point.modelled, {}, &Point::modelled), point);
  points_ = std::move(all);
  hash_ = hash_combine(hash_, hash_text(to_text(measured)));
}

bool MeasuredTimes::has(Hash kind, Hash shapes) const {
  if (empty()) return false;
  const auto found = points_->find(kind);
  return found != points_->end() &&
         std::ranges::find(found->second, shapes, &Point::shapes) != found->second.end();
}

Seconds MeasuredTimes::time(Hash kind, Hash shapes, Seconds modelled) const {
  if (empty()) return modelled;
  const auto found = points_->find(kind);
  if (found == points_->end()) return modelled;
  const auto& points = found->second;
  const auto same = std::ranges::find(points, shapes, &Point::shapes);
  if (same != points.end()) return Seconds{same->time};
  if (modelled <= Seconds{}) return modelled;
  const auto after = std::ranges::lower_bound(points, modelled.value, {}, &Point::modelled);
  const auto& high = after == points.end() ? points.back() : *after;
  const auto& low = after == points.begin() ? points.front() : *(after - 1);
  if (low.modelled <= 0 || low.time <= 0 || high.time <= 0) return modelled;
  const double low_ratio = std::log(low.time / low.modelled);
  const double high_ratio = std::log(high.time / high.modelled);
  const double apart = std::log(high.modelled / low.modelled);
  const bool between = apart > 0 && modelled.value > low.modelled && modelled.value < high.modelled;
  const double part = between ? std::log(modelled.value / low.modelled) / apart : 0;
  const double ratio =
      between || after != points.end() ? low_ratio + part * (high_ratio - low_ratio) : high_ratio;
  return std::exp(ratio) * modelled;
}

}  // namespace tandem::machine
