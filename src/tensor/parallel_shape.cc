#include "tensor/parallel_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/text.h"

namespace tandem {

std::string to_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

ParallelShape::ParallelShape(const Shape& global) : sizes(global), degrees(global) {
  for (auto& d : degrees) d = 1;
}

bool ParallelShape::is_undivided() const {
  return degrees.count() == 1 && replicas == 1 && partial == 1;
}

Shape ParallelShape::shard_shape() const {
  Shape out = sizes;
  for (std::size_t i = 0; i < rank(); ++i) out[i] /= degrees[i];
  return out;
}

ParallelShape to_gradient_shape(const ParallelShape& shape) {
  ParallelShape out = shape;
  std::swap(out.replicas, out.partial);
  out.monoid = Monoid::kSum;
  return out;
}

std::string to_text(const ParallelShape& shape) {
  std::vector<std::string> dims;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    dims.push_back(shape.degrees[i] == 1 ? fmt::format("{}", shape.sizes[i])
                                         : fmt::format("{}/{}", shape.sizes[i], shape.degrees[i]));
  }
  std::string out = "[" + join(dims, ", ") + "]";
  if (shape.replicas != 1) out += fmt::format("*{}", shape.replicas);
  if (shape.partial != 1)
    out += fmt::format("{}{}", shape.monoid == Monoid::kMax ? '^' : '+', shape.partial);
  return out;
}

namespace {
// Reads "<mark>N" off the front of `text` into `out`; leaves `out` unchanged if the mark is absent.
bool take_count(std::string_view& text, char mark, std::int64_t& out) {
  if (text.empty() || text.front() != mark) return true;
  text.remove_prefix(1);
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto value = parse_int(text.substr(0, end));
  if (!value || *value < 1) return false;
  out = *value;
  text.remove_prefix(end);
  return true;
}
}  // namespace

// Does not check that degrees divide; callers check it, because they can name the place.
std::optional<ParallelShape> parse_parallel_shape(std::string_view text) {
  const auto close = text.find(']');
  if (text.empty() || text.front() != '[' || close == std::string_view::npos) return std::nullopt;
  ParallelShape out;
  for (auto dim : split(text.substr(1, close - 1), ',')) {
    if (out.rank() == Shape::kMaxRank) return std::nullopt;
    const auto slash = dim.find('/');
    const auto size = parse_int(dim.substr(0, slash));
    const auto degree = slash == std::string_view::npos ? std::optional<std::int64_t>(1)
                                                        : parse_int(dim.substr(slash + 1));
    if (!size || !degree || *size < 1 || *degree < 1) return std::nullopt;
    out.sizes.push_back(*size);
    out.degrees.push_back(*degree);
  }
  auto rest = text.substr(close + 1);
  if (!take_count(rest, '*', out.replicas)) return std::nullopt;
  const bool maxima = rest.starts_with('^');
  if (!take_count(rest, maxima ? '^' : '+', out.partial)) return std::nullopt;
  if (maxima && out.partial > 1) out.monoid = Monoid::kMax;
  if (!rest.empty()) return std::nullopt;
  return out;
}

}  // namespace tandem
