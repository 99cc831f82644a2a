// A candidate of the search: choices for every operator and a schedule, not yet evaluated.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/parallelize.h"
#include "search/space/rewritten.h"
#include "strategies/grid.h"
#include "strategies/setting.h"

namespace tandem::search {

struct Candidate {
  std::string name;
  std::vector<plan::Choice> choices;
  plan::Schedule schedule = {};
  bool may_win = true;                              // false: evaluated for comparison only
  std::shared_ptr<const Rewritten> rewritten = {};  // graph of `choices`; null: the model itself
  std::optional<strategies::Setting> setting = {};  // set for a plain strategy
  bool is_in_part = false;  // whether it recomputes less than the setting says, or has other stages
};

// Returns the candidate of a plain strategy. Its name is the setting's text.
Candidate make_candidate(strategies::Strategy strategy, bool may_win = true);

// Returns each operator's layout, by node, without its storage and recomputation.
inline std::vector<machine::NodeLayout> get_node_layouts(const std::vector<plan::Choice>& choices) {
  std::vector<machine::NodeLayout> out;
  out.reserve(choices.size());
  for (const auto& choice : choices) out.push_back(choice.node);
  return out;
}

// Name of plans whose embedding tables were placed one by one (neighbours/table_placement.h).
inline constexpr const char* kSideBySide = "search:side-by-side";

}  // namespace tandem::search
