// Builds wrong rules from right ones by changing one token: another operator, two variables
// exchanged, another number or name. A verifier must refute them, unless one is true by accident.
#pragma once

#include <vector>

#include "rewrite/rule.h"

namespace tandem::verify {

// Returns the mutants of the rule's target that are still rules. Deterministic.
std::vector<rewrite::Rule> make_mutants(const rewrite::Rule& rule);

}  // namespace tandem::verify
