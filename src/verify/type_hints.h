// Reads what a rule says about its tensors' types, before any types are tried.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "verify/instances.h"

namespace tandem::verify {

// The rank and the sizes that the conditions fix for a tensor; 0 if they fix none.
struct Said {
  std::size_t rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  auto operator<=>(const Said&) const = default;
};

// Returns what is fixed, by variable. It also holds for variables that a condition makes equal.
std::vector<Said> find_fixed_sizes(const Rule& rule);

// Returns small numbers that the rule mentions, which sizes may have to equal.
std::vector<std::int64_t> list_literals(const Rule& rule);

// Returns, by variable, whether it holds indices: whether an operator reads it as indices.
// Parallelization operators between them preserve the element type.
std::vector<bool> find_index_variables(const Rule& rule);

}  // namespace tandem::verify
