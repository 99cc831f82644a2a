// Converts a graph that was found and its mapping into the parts of a plan. These are the rewritten
// model with its derivation, and a layout for each operator.
//
// The steps were found on pieces, in graphs with parallelization operators. The algebraic steps are
// applied to the whole model without these operators, which gives the plan's graph. The other steps
// are expressed by the layouts.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plan/parallelize.h"
#include "search/space/rewritten.h"
#include "unity/substitution.h"

namespace tandem::unity {

// A piece of the model and the steps that were found for it.
struct PieceSolution {
  ModelPiece piece;
  std::vector<graph::NodeId> model_node;  // by node of the piece; the model's size if not in it
  std::vector<rewrite::Match> steps;
};

struct UnityPlan {
  std::vector<plan::Choice> choices;                   // by node of the plan's graph
  std::shared_ptr<const search::Rewritten> rewritten;  // the plan's graph; null: the model
  std::vector<double> node_seconds;  // by node: its own, and of resharding its operands
  double seconds = kImpossible;      // of the whole; collectives that met at borders are fused
};

// Returns nullopt if the graph has no mapping, or if a step does not apply to the whole model. The
// pieces may be of the model with another batch.
std::optional<UnityPlan> to_plan(const graph::Graph& model,
                                 const std::vector<PieceSolution>& pieces,
                                 Substitutions& substitutions);

}  // namespace tandem::unity
