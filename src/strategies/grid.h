// The grid of strategies: every known strategy with the settings that make sense for a model on a
// machine. The search's baselines, sweeps, and strategies that a user names all use it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "strategies/completions.h"
#include "strategies/setting.h"

namespace tandem::strategies {

struct Strategy {
  Setting setting;
  std::string name;  // the setting's text: "dp", "megatron:tp=2,dp=24"
  std::vector<plan::Choice> choices;
  plan::Schedule schedule = {};  // the choices also split its micro-batches
};

// Returns the complete settings that make sense for the problem, by family in order:
//   - Megatron with all tensor parallel sizes and placements, with sp if there is a sequence,
//   - the levels of ZeRO,
//   - experts over every number of devices that divides them,
//   - MAD-Max's defaults.
// With delayed updates, returns only Megatron in pipelines of every length. These are never ranked
// against the others.
std::vector<Setting> list_baseline_settings(
    const Problem& problem, plan::Semantics semantics = plan::Semantics::kSynchronous);

// Returns MAD-Max's whole grid: every sharding inside a node and across nodes, for every kind of
// layer in the model. Embedding tables have their default.
std::vector<Setting> list_madmax_settings(const Problem& problem);

// Returns the completions of a setting that leaves something open. Throws UserError if the
// machine's devices cannot be grouped that way, and names the nearest possible number.
std::vector<Setting> complete(const Setting& setting, const Problem& problem);

// Returns the layouts of one pass over the batch by a complete setting, before stages and
// micro-batches.
Made make_pass(const Setting& setting, const Problem& problem);

// Returns the strategy of a complete setting.
std::variant<Strategy, Refusal> make_strategy(const Setting& setting, const Problem& problem);

// Returns the strategies of the settings that are possible.
std::vector<Strategy> make_strategies(const std::vector<Setting>& settings, const Problem& problem);

// Returns the strategies of a name: a setting's text, or "find_best_baseline" for
// list_baseline_settings. Returns at least one, or throws UserError. Settings with `stale` need
// `semantics` that allow them.
std::vector<Strategy> make_named_strategies(
    const std::string& name, const graph::Graph& model, const machine::Digits& digits,
    plan::Semantics semantics = plan::Semantics::kSynchronous, const FlagSettings& flags = {});

}  // namespace tandem::strategies
