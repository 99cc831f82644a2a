// Wrong rules made of right ones, by changing one token: another operator, two variables exchanged,
// another number or name. What a verifier must find false, where it is not true by accident.
#pragma once

#include <vector>

#include "rewrite/rule.h"

namespace tandem::verify {

// Those of the target that are still rules. Deterministic.
std::vector<rewrite::Rule> mutants(const rewrite::Rule& rule);

}  // namespace tandem::verify
