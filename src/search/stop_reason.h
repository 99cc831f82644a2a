// The reason why a search ended.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem::search {

enum class StopReason : std::uint8_t {
  kDone,         // nothing was left to try
  kBeam,         // like kDone, but states of a graph far from series-parallel were dropped untried
  kRewrites,     // like kDone, but Unity's search reached its limit of ranked graphs
  kBudget,       // --budget
  kCandidates,   // --max-candidates
  kInterrupted,  // by the user
  kFits,         // only a plan that fits was asked for, and one was found
};

std::string_view name(StopReason reason);  // "done"
// Returns the end of a sentence about the search: "done except for layouts that the beam dropped".
std::string_view describe(StopReason reason);

// Returns whether a limit or the user ended the search before it was done.
constexpr bool is_early(StopReason reason) {
  return reason == StopReason::kBudget || reason == StopReason::kCandidates ||
         reason == StopReason::kInterrupted;
}

}  // namespace tandem::search
