// Converts the choices for one pass over the full batch to those of a step in micro-batches on the
// stages of a pipeline.
#pragma once

#include <variant>

#include "strategies/setting.h"
#include "strategies/spread.h"

namespace tandem::strategies {

// Returns the outermost digits whose places are the `pp` ranks of a pipeline; nullopt if no digits
// have that size together.
//   digits node 2, node 2, gpu 3 and pp = 6 -> the first and the last one
std::optional<machine::DigitMask> find_rank_digits(const machine::Digits& digits, std::int64_t pp);

// Returns the default number of micro-batches: a divisor of a device's part of the batch, near 8
// per stage.
//   batch 64, dp 2, pp 2 -> 16
std::int64_t choose_micro_batches(const Problem& problem, std::int64_t dp, std::int64_t pp);

// A step in micro-batches on the stages of a pipeline.
struct StrategyStep {
  Choices choices;  // with several micro-batches, their digit comes first
  plan::Schedule schedule;
};
// Adds what a setting specifies besides the layouts of a pass: recomputation, regathered weights,
// stages and micro-batches. `choices` are replicated over the ranks' digits. `load`: by node, the
// quantity that stages balance; empty: operations. `pace`: as in assign_stages.
std::variant<StrategyStep, Refusal> make_step(const Setting& setting, const Problem& problem,
                                              Choices choices, const std::vector<double>& load = {},
                                              const std::vector<double>& pace = {});

}  // namespace tandem::strategies
