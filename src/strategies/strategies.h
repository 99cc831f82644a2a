// Known strategies as functions from a model's graph to choices: the baselines that a found plan is
// compared with, and that seed the search.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "machine/digits.h"
#include "plan/parallelize.h"

namespace tandem::strategies {

struct Strategy {
  std::string name;  // "dp", "megatron:tp=2,dp=24"
  std::vector<plan::Choice> choices;
};

// Every digit along the batch; weights replicated. Nothing when the batch does not divide.
std::optional<Strategy> data_parallel(const graph::Graph& model, const machine::Digits& digits);

// The digits of `tensor` as Megatron uses them, the others along the batch: weights split by
// columns, then by rows, attention by heads, one all-reduce after each pair. An operator that the
// digits do not divide computes redundantly. Nothing when the batch does not divide.
std::optional<Strategy> megatron(const graph::Graph& model, const machine::Digits& digits,
                                 machine::DigitMask tensor);

// megatron with every choice of digits that differs in more than symmetry.
std::vector<Strategy> megatron_grid(const graph::Graph& model, const machine::Digits& digits);

// By name: "dp", "megatron" (all of its grid), "megatron:tp=N,dp=N" (those of that size).
// At least one, else UserError.
std::vector<Strategy> named_strategies(const std::string& name, const graph::Graph& model,
                                       const machine::Digits& digits);

}  // namespace tandem::strategies
