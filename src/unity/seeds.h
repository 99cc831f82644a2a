// Known strategies as graphs to begin with: a draft whose operators are cut by rules as a strategy
// spreads them. An extra beside the paper's search, which begins with the model alone: two
// operators that have to change together (columns, then rows) cost more than alpha in between.
#pragma once

#include <span>
#include <vector>

#include "machine/node_layout.h"
#include "rewrite/rule_set.h"
#include "search/pool.h"
#include "unity/samples.h"

namespace tandem::unity {

// How each node of a graph is spread, sources left out. Copies say nothing here: such digits are
// idle.
using Seed = std::vector<machine::NodeLayout>;

struct SeedCut {
  rewrite::Draft draft;
  std::vector<rewrite::Match> steps;
  bool is_all = true;  // some rule cut every operator so
};

// Of a draft whose operators are undivided; what no rule cuts so stays as it is. `seed`: by node of
// the graph that the draft is of.
SeedCut cut_as(rewrite::Draft draft, const Seed& seed, const machine::Digits& digits,
               const rewrite::RuleSet& rules, const rewrite::Dictionary& dictionary,
               const Simplify& simplify);

// Distinct ones of these choices, in their order.
std::vector<Seed> seeds_of(std::span<const std::vector<plan::Choice>> choices,
                           const machine::Digits& digits);

// For pipelines whose ranks are these digits: the stages' devices along the batch, or as
// Megatron has them from the innermost on.
std::vector<Seed> seeds_of_stages(const search::CandidatePool& pool, machine::DigitMask ranks);

// The choices that a seed is by itself: sources lie as their first reader wants them.
std::vector<plan::Choice> choices_of(const graph::Graph& model, const Seed& seed,
                                     const machine::Digits& digits);

}  // namespace tandem::unity
