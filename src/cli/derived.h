// Is a rule something that other rules do anyway? The graphs of both its sides, at one pattern of
// sizes, and a derivation between them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rewrite/derive.h"

namespace tandem::cli {

// In how many steps the rules turn its source into its target; nothing where none were found.
// `rules` have their reversals among them.
std::optional<std::size_t> steps_to_derive(const rewrite::Rule& rule,
                                           const std::vector<rewrite::Rule>& rules,
                                           const rewrite::DeriveLimits& limits);

}  // namespace tandem::cli
