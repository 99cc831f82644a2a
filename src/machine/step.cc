#include "machine/step.h"

#include <algorithm>
#include <array>

namespace tandem::machine {

namespace {

constexpr std::array<std::string_view, 17> kNames = {
    "slice",          "drop",       "mask",       "pad",    "zero",       "all_reduce",
    "reduce_scatter", "all_gather", "all_to_all", "reduce", "gather",     "broadcast",
    "scatter",        "send",       "shift",      "halo",   "halo_reduce"};
static_assert(kNames[static_cast<std::size_t>(Step::kHaloReduce)] == "halo_reduce");

}  // namespace

std::string_view name(Step s) { return kNames[static_cast<std::size_t>(s)]; }

std::optional<Step> parse_collective(std::string_view text) {
  const auto at = std::ranges::find(kNames, text);
  const auto step = static_cast<Step>(at - kNames.begin());
  if (at == kNames.end() || is_local(step)) return std::nullopt;
  return step;
}

}  // namespace tandem::machine
