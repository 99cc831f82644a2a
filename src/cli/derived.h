// Is a rule something that other rules do anyway? The graphs of both its sides, at one pattern of
// sizes, and a derivation between them.
#pragma once

#include <optional>

#include "rewrite/derive.h"

namespace tandem::cli {

// In how many steps the deriver's rules, which have their reversals among them, turn its source
// into its target; nothing where none were found.
std::optional<std::size_t> steps_to_derive(const rewrite::Rule& rule, rewrite::Deriver& deriver,
                                           const rewrite::DeriveLimits& limits);

}  // namespace tandem::cli
