// What backward passes read of forward passes: saved from there or recomputed, and how much that is
// at a time.
#pragma once

#include <vector>

#include "search/grid/grid_model.h"
#include "strategies/problem.h"

namespace tandem::search {

// By node, what its backward pass reads beside the gradient of its result: operands, or the result.
class ReadAgain {
 public:
  // `has_gradient`: by node. The problem outlives it.
  ReadAgain(const strategies::Problem& problem, const std::vector<bool>& has_gradient);

  [[nodiscard]] bool reads(std::size_t node, std::size_t operand) const {
    return machine::has(operands_[node], operand);
  }
  [[nodiscard]] bool reads_result(std::size_t node) const { return result_[node]; }

  // By node: is it recomputed, of those that may be? For who reads it in the backward pass, or for
  // what is recomputed of it.
  [[nodiscard]] std::vector<bool> recomputed(const strategies::Choices& choices) const;

  [[nodiscard]] const graph::Graph& model() const { return model_; }

 private:
  const graph::Graph& model_;
  std::vector<ops::InputMask> operands_;
  std::vector<bool> result_;
};

// Of one micro-batch in a stage.
struct HeldByStage {
  Bytes saved;  // from its forward pass on
  Bytes
      peak;  // of results in its backward pass: recomputed when they are first read, until the last
};
// `results`: by node. Gradients, and what a backward pass holds for a moment, are not counted.
std::vector<HeldByStage> held_by_stage(const ReadAgain& graph,
                                       const std::vector<std::uint16_t>& stage_of_node,
                                       std::size_t stages,
                                       const std::vector<PassBound::Result>& results);

}  // namespace tandem::search
