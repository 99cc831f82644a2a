// What a symbol of a rule may stand for: values that the attributes accept where it stands, found
// by asking OpSpec::parse.
#pragma once

#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

// By symbol; the likeliest first.
std::vector<std::vector<Value>> symbol_values(const Rule& rule);

// The degrees above 1 that the rule's operators name, each once, in order: what they cut must be
// divisible by them.
std::vector<std::int64_t> named_degrees(const Rule& rule);

}  // namespace tandem::verify
