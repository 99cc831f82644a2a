// From a graph that was found and its mapping to what a plan is made of: the model as the algebraic
// rules among the steps have rewritten it, with that derivation, and a layout for each operator.
//
// The steps were found on pieces, in graphs with parallelization operators. Taken on the whole
// model without these, the algebraic ones give the graph that the plan makes parallel; the others
// are what its layouts say.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plan/parallelize.h"
#include "search/space/rewritten.h"
#include "unity/substitution.h"

namespace tandem::unity {

// A piece of the model and what was found for it.
struct SolvedPiece {
  Piece piece;
  std::vector<graph::NodeId> model_node;  // by node of the piece; none of the model's: its size
  std::vector<rewrite::Match> steps;
};

struct Made {
  std::vector<plan::Choice> choices;                   // of the nodes of:
  std::shared_ptr<const search::Rewritten> rewritten;  // null: the model as it is
  std::vector<double> node_seconds;  // by node: its own, and of what is brought to it
  double seconds = kImpossible;      // of the whole, mapped together: what met at borders has fused
};

// The pieces may be of the model with another batch.
// Nothing where no mapping has the graph, or a step finds no place in the whole model.
std::optional<Made> to_plan(const graph::Graph& model, const std::vector<SolvedPiece>& pieces,
                            Substitutions& substitutions);

}  // namespace tandem::unity
