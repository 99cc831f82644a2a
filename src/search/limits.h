// Limits of the search's effort, and margins of its decisions, each with its reason. None of them
// decides whether a plan is valid; with others the search finds the same or nearly the same, sooner
// or later.
#pragma once

#include <cstddef>

namespace tandem::search::limits {

// Improvement of a pool (search/improve.h).
// A neighbourhood is tried again once the best is at most this times what it was: less is within
// what a prediction says of two plans.
inline constexpr double kWorthAnotherRound = 0.995;

}  // namespace tandem::search::limits
