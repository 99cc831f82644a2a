#include "machine/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace tandem::machine {

namespace {

constexpr std::string_view kBackward = "backward:";

std::string format_shape(const Shape& shape) {
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

Hash hash_pass_text(std::string_view pass) {
  if (!pass.starts_with(kBackward)) return hash_text(pass);
  const auto operands = parse_int(pass.substr(kBackward.size()));
  return hash_pass(true, static_cast<std::uint64_t>(operands.value_or(0)));
}

// Distances are differences of logarithms of times; those of the time per element count four times
// as much. Distances below a fifth are equivalent. In a leave-one-out test on the lines of two
// profiles, predictions are 16 % off on average; with only the next shorter and next longer task
// they are 20 % off.
constexpr double kOfDensity = 4;
constexpr double kNear = 0.2;

double compute_log_density(double log_modelled, const MeasuredShapes& shapes) {
  return log_modelled - std::log(std::max(shapes.elements, 1.0));
}

}  // namespace

Hash hash_kind(Hash pass, DType dtype, Hash op) {
  return hash_combine(hash_combine(pass, static_cast<Hash>(dtype)), op);
}

Hash hash_pass(bool backward, std::uint64_t operands) {
  static const Hash kForwardPass = hash_text("forward");
  static const Hash kBackwardPass = hash_text("backward");
  return backward ? hash_combine(kBackwardPass, operands) : kForwardPass;
}

void MeasuredShapes::add(const Shape& shape) {
  hash = hash_combine(hash, shape.rank());
  for (const auto n : shape) hash = hash_combine(hash, static_cast<Hash>(n));
  elements += static_cast<double>(shape.count());
}

Hash MeasuredKind::hash() const {
  return hash_kind(hash_pass_text(pass), dtype,
                   hash_combine(hash_text(name), hash_text(attributes)));
}

MeasuredShapes MeasuredTime::make_shapes_key() const {
  MeasuredShapes out;
  for (const auto& shape : shapes) out.add(shape);
  return out;
}

std::string to_text(const MeasuredTime& m) {
  std::vector<std::string> shapes;
  for (const auto& shape : m.shapes) shapes.push_back(format_shape(shape));
  auto out =
      fmt::format("{:.4g} us of {:.4g} us {} {} {} {}", 1e6 * m.time.value, 1e6 * m.modelled.value,
                  m.kind.pass, name(m.kind.dtype), fmt::join(shapes, ","), m.kind.name);
  if (!m.kind.attributes.empty()) out += " " + m.kind.attributes;
  return out;
}

MeasuredTime parse_measured(const Place& place, Words rest) {
  const auto wrong = [&] {
    place.fail(fmt::format("{}: expected two times, a pass, an element type, shapes, an operator",
                           format_field("measured", rest)),
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
  const auto shapes = measured.make_shapes_key();
  MeasuredPoint point{.shapes = shapes.hash, .time = measured.time.value};
  const bool is_like_others = measured.modelled > Seconds{} && measured.time > Seconds{};
  if (is_like_others) {
    point.modelled = std::log(measured.modelled.value);
    point.density = compute_log_density(point.modelled, shapes);
    point.ratio = std::log(measured.time / measured.modelled);
  }
  // Copies the points if other devices share them.
  auto all = points_ != nullptr && points_.use_count() == 1
                 ? std::const_pointer_cast<Points>(points_)
                 : std::make_shared<Points>(points_ == nullptr ? Points{} : *points_);
  auto& of_kind = (*all)[measured.kind.hash()];
  (is_like_others ? of_kind.like_others : of_kind.alone).push_back(point);
  points_ = std::move(all);
  hash_ = hash_combine(hash_, hash_text(to_text(measured)));
}

const MeasuredTimes::MeasuredPoint* MeasuredTimes::find(const OfKind& points, Hash shapes) {
  for (const auto* some : {&points.like_others, &points.alone}) {
    const auto at = std::ranges::find(*some, shapes, &MeasuredPoint::shapes);
    if (at != some->end()) return &*at;
  }
  return nullptr;
}

bool MeasuredTimes::has(Hash kind, const MeasuredShapes& shapes) const {
  if (empty()) return false;
  const auto found = points_->find(kind);
  return found != points_->end() && find(found->second, shapes.hash) != nullptr;
}

Seconds MeasuredTimes::estimate_time(Hash kind, const MeasuredShapes& shapes,
                                     Seconds modelled) const {
  if (empty()) return modelled;
  const auto found = points_->find(kind);
  if (found == points_->end()) return modelled;
  if (const auto* same = find(found->second, shapes.hash)) return Seconds{same->time};
  const auto& points = found->second.like_others;
  if (modelled <= Seconds{} || points.empty()) return modelled;
  const double log_modelled = std::log(modelled.value);
  const double own = compute_log_density(log_modelled, shapes);
  double all = 0;
  double sum = 0;
  for (const auto& p : points) {
    const double longer = log_modelled - p.modelled;
    const double denser = kOfDensity * (own - p.density);
    const double apart = longer * longer + denser * denser + kNear * kNear;
    const double weight = 1 / (apart * apart);
    all += weight;
    sum += weight * p.ratio;
  }
  return std::exp(sum / all) * modelled;
}

}  // namespace tandem::machine
