#include "cli/baselines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "strategies/families.h"
#include "strategies/grid.h"

namespace tandem::cli {

namespace {

using strategies::Family;
using strategies::Problem;
using strategies::StrategyFamily;

// Returns why no setting of the family can be used; nullopt if one can.
std::optional<std::string> find_refusal(Family family, const Problem& problem) {
  std::optional<std::string> first;
  try {
    for (const auto& setting : complete({.family = family}, problem)) {
      const auto made = make_strategy(setting, problem);
      const auto* refusal = std::get_if<strategies::Refusal>(&made);
      if (refusal == nullptr) return std::nullopt;
      if (!first) first = refusal->message;
    }
  } catch (const UserError& error) {
    return error.message;
  }
  return first;
}

Unusable make_unusable(const StrategyFamily& family, const Problem& problem, const Setup& setup,
                       const search::Result& result) {
  const std::string name(family.name);
  if (setup.options.semantics != plan::Semantics::kSynchronous) {
    return {name, "does not delay updates", false};
  }
  const auto refusal = find_refusal(family.family, problem);
  if (refusal) return {name, *refusal, family.suits(problem)};
  if (setup.machine.devices() == 1) return {name, "is the same as dp on one device", false};
  return {name, fmt::format("was not evaluated ({})", describe(result.stop_reason)), false};
}

}  // namespace

std::vector<Unusable> list_unusable_baselines(const Setup& setup, const search::Result& result) {
  const Problem problem(setup.graph, setup.digits);
  std::vector<Unusable> out;
  for (const auto& family : strategies::get_families()) {
    if (std::ranges::find(result.baselines, family.name, &search::Evaluated::family) !=
        result.baselines.end()) {
      continue;
    }
    out.push_back(make_unusable(family, problem, setup, result));
  }
  return out;
}

}  // namespace tandem::cli
