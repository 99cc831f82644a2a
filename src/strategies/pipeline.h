// From choices for one pass over the whole batch to those of a step in micro-batches over the
// stages of a pipeline.
#pragma once

#include <variant>

#include "strategies/setting.h"
#include "strategies/spread.h"

namespace tandem::strategies {

// The digits whose places are the ranks of `pp` stages: from the outermost. Nothing where no digits
// have that size together.
std::optional<machine::DigitMask> rank_digits(const machine::Digits& digits, std::int64_t pp);

// How many micro-batches a pipeline gets by default: a divisor of what a device has of the batch,
// near 8 for each stage.
std::int64_t default_micro_batches(const Problem& problem, std::int64_t dp, std::int64_t pp);

// What a setting says beyond how a pass is spread: recomputation, weights gathered anew, stages,
// micro-batches. `choices` leave the ranks' digits redundant.
struct Step {
  Choices choices;  // with a digit for the micro-batches first, where there are several
  plan::Schedule schedule;
};
// `load`: of each node, what stages are to have equally much of; empty: operations. `pace`: of
// stages_of.
std::variant<Step, Refusal> make_step(const Setting& setting, const Problem& problem,
                                      Choices choices, const std::vector<double>& load = {},
                                      const std::vector<double>& pace = {});

}  // namespace tandem::strategies
