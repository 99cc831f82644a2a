#include "ops/index_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/rank_error.h"
#include "ops/trial.h"

namespace tandem::ops {

thread_local bool Trial::is_on_ = false;

Names make_dim_names(std::size_t rank) {
  Names out;
  for (std::size_t d = 0; d < rank; ++d) out.push_back(fmt::format("d{}", d));
  return out;
}

Names make_space_names(std::size_t count) {
  const Names all = {"d", "h", "w"};
  CHECK(count <= all.size());
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

Names broadcast_dims(const Shape& own, const Shape& other) {
  const auto rank = std::max(own.rank(), other.rank());
  const auto names = make_dim_names(rank);
  Names out;
  for (std::size_t d = 0; d < own.rank(); ++d) {
    const auto at = rank - own.rank() + d;
    const auto other_lacks = rank - other.rank();
    const auto other_size = at < other_lacks ? 1 : other[at - other_lacks];
    out.push_back(own[d] == 1 && other_size != 1 ? "0" : names[at]);
  }
  return out;
}

void reject(std::string message, std::string hint) {
  throw UserError("graph", "", std::move(message), std::move(hint));
}

void reject_ranks(std::string message, std::string hint) {
  throw RankError("graph", "", std::move(message), std::move(hint));
}

void check_inputs(std::span<const Shape> in, std::size_t least, std::size_t most) {
  if (in.size() >= least && in.size() <= most) return;
  const auto takes =
      least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  reject_ranks(fmt::format("takes {} inputs, but has {}", takes, in.size()));
}

void check_rank(std::span<const Shape> in, std::size_t input, std::size_t least, std::size_t most) {
  const auto rank = in[input].rank();
  if (rank >= least && rank <= most) return;
  const auto needs = least == most             ? fmt::format("{}", least)
                     : most == Shape::kMaxRank ? fmt::format("at least {}", least)
                                               : fmt::format("{} to {}", least, most);
  reject_ranks(fmt::format("input {} has {} dimensions, but must have {}", input, rank, needs));
}

void check_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  reject(fmt::format("{} {} is not in {}..{}", what, value, least, most));
}

void check_attribute(std::string_view what, std::int64_t value, std::int64_t least,
                     std::int64_t most) {
  if (value >= least && value <= most) return;
  reject_ranks(fmt::format("{} {} is not in {}..{}", what, value, least, most));
}

void check_finite(std::string_view what, double value) {
  if (!std::isfinite(value)) reject(fmt::format("{} is {}, but must be finite", what, value));
}

void check_eps(double eps) {
  if (!std::isfinite(eps) || eps < 0) reject(fmt::format("eps is {}, but must be 0 or more", eps));
}

std::size_t normalize_axis(std::int64_t axis, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) {
    reject_ranks(fmt::format("axis {} is out of range for a tensor of rank {}", axis, rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

}  // namespace tandem::ops
