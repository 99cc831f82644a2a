// The grid of strategies: every known strategy with the settings that make sense for a model on a
// machine. Written once, for the search's baselines, for sweeps, and for what a user names.
#pragma once

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "strategies/setting.h"

namespace tandem::strategies {

struct Strategy {
  Setting setting;
  std::string name;  // the setting's text: "dp", "megatron:tp=2,dp=24"
  std::vector<plan::Choice> choices;
  plan::Schedule schedule = {};  // the choices are about its micro-batches, too
};

// What makes sense here, families in order; every setting is complete. Megatron with all devices of
// tensor parallelism and all places for them, with sp where there is a sequence; ZeRO's levels;
// experts over every number of devices that divides them; MAD-Max's defaults.
// With delayed updates only what has them, which is never ranked against the others: Megatron in
// pipelines of every length.
std::vector<Setting> settings_for(const Problem& problem,
                                  plan::Semantics semantics = plan::Semantics::kSynchronous);

// MAD-Max's whole grid: every sharding inside a node and across for every kind of layer that the
// model has but tables, which stay as they are by default.
std::vector<Setting> madmax_settings(const Problem& problem);

// The completions of a setting that leaves something open. Throws UserError where the machine's
// devices cannot be grouped as it says, naming the nearest number that can.
std::vector<Setting> complete(const Setting& setting, const Problem& problem);

// Every size that a tensor parallel group may have, with the innermost digits that have it.
std::vector<std::pair<std::int64_t, machine::DigitMask>> tensor_groups(
    const machine::Digits& digits);

// How many devices may share a model's experts; 1 alone where it has none.
std::set<std::int64_t> expert_degrees(const Problem& problem);

// The digits that `cp` devices of a context parallel group take: the innermost that are left.
std::optional<machine::DigitMask> context_digits(const machine::Digits& digits, std::int64_t cp,
                                                 machine::DigitMask taken);

// The digits that tensor parallelism takes in Megatron's setting, which is complete.
machine::DigitMask tensor_digits(const Setting& setting, const machine::Digits& digits);

// The digits that are left to data parallelism by Megatron's setting, which is complete.
machine::DigitMask data_digits(const Setting& setting, const machine::Digits& digits);

// How a complete setting spreads one pass over the batch, before stages and micro-batches.
Made make_pass(const Setting& setting, const Problem& problem);

// The strategy of a complete setting.
std::variant<Strategy, Refusal> make_strategy(const Setting& setting, const Problem& problem);

// Of these settings, what can be made.
std::vector<Strategy> make_strategies(const std::vector<Setting>& settings, const Problem& problem);

// By name: a setting's text, "best_baseline" for settings_for. At least one, else UserError.
// Setting texts with `stale` need `semantics` that allow them.
std::vector<Strategy> named_strategies(const std::string& name, const graph::Graph& model,
                                       const machine::Digits& digits,
                                       plan::Semantics semantics = plan::Semantics::kSynchronous,
                                       const Beside& beside = {});

}  // namespace tandem::strategies
