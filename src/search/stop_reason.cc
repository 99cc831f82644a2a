#include "search/stop_reason.h"

#include <array>

namespace tandem::search {

std::string_view name(StopReason reason) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "done", "beam", "rewrites", "budget", "candidates", "interrupted", "fits"};
  return kNames.at(static_cast<std::size_t>(reason));
}

std::string_view describe(StopReason reason) {
  switch (reason) {
    case StopReason::kBeam:
      return "done except for layouts that the beam dropped";
    case StopReason::kRewrites:
      return "done up to the limit of ranked graphs";
    case StopReason::kBudget:
      return "ended by --budget";
    case StopReason::kCandidates:
      return "ended by --max-candidates";
    default:
      return name(reason);
  }
}

}  // namespace tandem::search
