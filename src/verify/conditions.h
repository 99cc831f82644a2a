// Looks for a side condition that separates the instances where a rule is true from those where it
// is false, in a small vocabulary: ranks, equal sizes, values of symbols, odd sizes, undivided
// tensors.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

// Conditions that together hold for none of `bad` and as many of `good` as possible, at least one;
// none where there are no such.
std::optional<std::vector<rewrite::Expression>> separating_conditions(
    const Rule& rule, std::span<const Instance> good, std::span<const Instance> bad);

}  // namespace tandem::verify
