// Why a search ended.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem::search {

enum class StopReason : std::uint8_t {
  kDone,         // nothing was left to try
  kBeam,         // as kDone, but layouts of a graph far from series-parallel were dropped unseen
  kRewrites,     // as kDone, but Unity's search had more graphs than it may rank
  kBudget,       // --budget
  kCandidates,   // --max-candidates
  kInterrupted,  // by the user
  kFits,         // a plan that fits was all that was asked for
};

std::string_view name(StopReason reason);  // "done"

// Returns whether a limit or the user ended the search before it was done.
constexpr bool is_early(StopReason reason) {
  return reason == StopReason::kBudget || reason == StopReason::kCandidates ||
         reason == StopReason::kInterrupted;
}

}  // namespace tandem::search
