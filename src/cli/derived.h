// Is a rule something that other rules do anyway? The graphs of both its sides, at one pattern of
// sizes, and a derivation between them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rewrite/derive.h"

namespace tandem::cli {

// The steps from the rule's source to its target; nothing where none was found. `rules` have their
// reversals among them.
std::optional<rewrite::Derivation> derivation_of(const rewrite::Rule& rule,
                                                 const std::vector<rewrite::Rule>& rules,
                                                 const rewrite::DeriveLimits& limits);

}  // namespace tandem::cli
