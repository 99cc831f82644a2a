#include "search/stop_reason.h"

#include <array>

namespace tandem::search {

std::string_view name(StopReason reason) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "done", "beam", "rewrites", "budget", "candidates", "interrupted", "fits"};
  return kNames.at(static_cast<std::size_t>(reason));
}

}  // namespace tandem::search
