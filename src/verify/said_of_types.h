// What a rule says of its tensors' types before any are tried.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "verify/instances.h"

namespace tandem::verify {

// What the conditions say of a tensor: its rank, and sizes that are numbers; 0 where they say
// nothing.
struct Said {
  std::size_t rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  auto operator<=>(const Said&) const = default;
};

// By variable. What is said of one holds for those that are said to be like it.
std::vector<Said> said_by_conditions(const Rule& rule);

// Numbers that the rule mentions, which sizes may have to be.
std::vector<std::int64_t> literals(const Rule& rule);

// By variable: does it hold indices? What an operator reads as indices does, also through
// parallelization operators, which keep the element type.
std::vector<bool> index_variables(const Rule& rule);

}  // namespace tandem::verify
