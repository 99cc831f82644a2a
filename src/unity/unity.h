// Unity's search as its paper has it (OSDI'22, section 6), on Tandem's rules, machines and costs:
//
//   the graph is split at post-dominators              splitting.h
//   each piece is rewritten and parallelized at once   substitution.h
//   each candidate is mapped, which is its cost        mapping.h
//   the result becomes a plan                          to_plan.h
//
// A pipeline is of all operators or of none, its stages one behind the other. What it gives in the
// steady state is what is asked for where updates may be delayed (PipeDream-2BW); else the time of
// a step that fills and drains it.
//
// The default search (search/search.h) finds the same kind of plans another way, and much faster.
// This one is there to be compared with: on the same rules, with the same costs.
#pragma once

#include "search/search.h"

namespace tandem::unity {

struct Options {
  std::size_t least_nodes = 10;          // k: of a piece
  double alpha = 1.05;                   // what costs more than this times the best is dropped
  std::size_t piece_candidates = 20000;  // costed at most, for a piece between two borders
  std::size_t patience = 1000;           // ends it when so many have gained nothing
  std::optional<std::size_t> candidates = {};  // in all
  bool caches = true;                          // mappings of subgraphs, among candidates
  bool splits = true;
  bool pipelines = false;  // of all operators, beside none
  bool programs = true;    // mappings by dynamic programming; else one after another
};

// Baselines are costed and the plan falls back on the best of them. Of `search` it takes the
// optimizer, the precision, the memory and when to end.
search::Result search(const graph::Graph& model, const machine::Machine& machine,
                      const search::Options& search, const Options& options);

}  // namespace tandem::unity
