// Finds the values that a symbol of a rule may have: those that OpSpec::parse accepts for the
// attributes that use it.
#pragma once

#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

// Returns the values by symbol, the likeliest first.
std::vector<std::vector<Value>> find_symbol_values(const Rule& rule);

// Returns the degrees above 1 that the rule's operators name, sorted and each once. Sizes that they
// shard must be divisible by them.
std::vector<std::int64_t> find_named_degrees(const Rule& rule);

}  // namespace tandem::verify
