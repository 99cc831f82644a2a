// Looks for a side condition that separates the instances where a rule is true from those where it
// is false. The vocabulary is small: ranks, equal sizes, values of symbols, odd sizes, unsharded
// tensors.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

// Returns conditions that together hold for none of `bad` and for as many of `good` as possible.
// Returns nullopt unless they hold for at least one of `good`.
std::optional<std::vector<rewrite::Expression>> find_separating_conditions(
    const Rule& rule, std::span<const Instance> good, std::span<const Instance> bad);

}  // namespace tandem::verify
