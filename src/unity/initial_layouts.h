// Known strategies as initial graphs: drafts whose operators are split by rules as a strategy lays
// them out. This is an addition to the paper's search, which starts from the model alone. Two
// operators that have to change together (column-parallel, then row-parallel) cost more than alpha
// in between.
#pragma once

#include <span>
#include <vector>

#include "machine/node_layout.h"
#include "rewrite/rule_set.h"
#include "search/pool.h"
#include "unity/sample_cuts.h"

namespace tandem::unity {

// The layout of each operator of a graph. Sources have none. Digits with replicas count as idle
// here.
using InitialLayouts = std::vector<machine::NodeLayout>;

struct InitialDraft {
  rewrite::Draft draft;
  std::vector<rewrite::Match> steps;
  bool is_all = true;  // whether rules split every operator as the seed does
};

// Splits the operators of an undivided draft as `seed` does, which is by node of the draft's graph.
// Operators that no rule splits this way stay as they are.
InitialDraft split_by_layouts(rewrite::Draft draft, const InitialLayouts& seed,
                              const machine::Digits& digits, const rewrite::RuleSet& rules,
                              const rewrite::Dictionary& dictionary, const Simplify& simplify);

// Returns the distinct seeds of these choices, in their order.
std::vector<InitialLayouts> make_initial_layouts(std::span<const std::vector<plan::Choice>> choices,
                                                 const machine::Digits& digits);

// Returns seeds for pipelines whose ranks are these digits. The stages' devices are data parallel,
// or tensor parallel as in Megatron from the innermost digit on.
std::vector<InitialLayouts> make_initial_stage_layouts(const search::CandidatePool& pool,
                                                       machine::DigitMask ranks);

// Returns the choices that correspond to a seed. Sources are laid out as their first reader needs
// them.
std::vector<plan::Choice> make_choices(const graph::Graph& model, const InitialLayouts& seed,
                                       const machine::Digits& digits);

}  // namespace tandem::unity
