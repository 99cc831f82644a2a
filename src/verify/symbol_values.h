// What a symbol of a rule may stand for: values that the attributes accept where it stands, found
// by asking OpSpec::parse.
#pragma once

#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

// By symbol; the likeliest first.
std::vector<std::vector<Value>> symbol_values(const Rule& rule);

}  // namespace tandem::verify
