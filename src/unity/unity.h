// Unity's search as in its paper (OSDI'22, section 6), on Tandem's rules, machines and costs:
//
//   the graph is split at post-dominators              splitting.h
//   each piece is rewritten and parallelized at once   substitution.h
//   each candidate is mapped, which is its cost        mapping.h
//   the result becomes a plan                          to_plan.h
//
// A pipeline covers all operators or none, with its stages one after another. If updates may be
// delayed (PipeDream-2BW), the objective is the pipeline's steady state. Otherwise it is the time
// of a step that fills and drains the pipeline.
//
// The default search (search/search.h) finds the same kind of plans in another way, and much
// faster. This one exists for comparison, on the same rules and costs.
#pragma once

#include "search/search.h"

namespace tandem::unity {

struct UnityOptions {
  std::size_t least_nodes = 10;  // k: operators of the smallest piece
  double alpha = 1.05;           // graphs that cost more than this times the best are dropped
  std::size_t piece_candidates = 20000;        // limit for a piece between two borders
  std::size_t patience = 1000;                 // candidates without gain that end a piece's search
  std::optional<std::size_t> candidates = {};  // limit in all
  bool caches = true;                          // caches mappings of subgraphs between candidates
  bool splits = true;
  bool pipelines = false;  // also tries pipelines of all operators
  bool programs = true;    // maps by dynamic programming; false: by enumeration
};

// Runs Unity's search. Baselines are costed, and the plan falls back on the best of them. Uses the
// optimizer, the precision, the memory and the stop conditions of `search`.
search::Result search(const graph::Graph& model, const machine::Machine& machine,
                      const search::Options& search, const UnityOptions& options);

}  // namespace tandem::unity
