// Finds which forward results the backward passes read, whether they are saved or recomputed, and
// how many bytes they take at a time.
#pragma once

#include <vector>

#include "search/grid/grid_model.h"
#include "strategies/problem.h"

namespace tandem::search {

// Tensors that each node's backward pass reads beside the gradient of its result: operands, or the
// result.
class BackwardReads {
 public:
  // `has_gradient` is indexed by node. The problem outlives the object.
  BackwardReads(const strategies::Problem& problem, const std::vector<bool>& has_gradient);

  [[nodiscard]] bool reads(std::size_t node, std::size_t operand) const {
    return machine::has_digit(operands_[node], operand);
  }
  [[nodiscard]] bool reads_result(std::size_t node) const { return result_[node]; }

  // Returns, by node, whether a node that may be recomputed really is. It is if a backward pass
  // reads it, or if another recomputed node does.
  [[nodiscard]] std::vector<bool> find_recomputed(const strategies::Choices& choices) const;

  [[nodiscard]] const graph::Graph& model() const { return model_; }

 private:
  const graph::Graph& model_;
  std::vector<ops::InputMask> operands_;
  std::vector<bool> result_;
};

// Bytes of one micro-batch in a stage.
struct StageActivations {
  Bytes saved;  // held from its forward pass on
  Bytes peak;   // most bytes of results that its backward pass holds at once
};
// Returns the bytes held by each stage. `results` is indexed by node. A recomputed result is held
// from its first to its last read. Gradients and temporary buffers of a backward pass are not
// counted.
//
// Example: a chain a -> b -> c -> d whose results take 4 bytes each. Backward passes read their
// operands. Without recomputation a, b and c are saved: 12 bytes, and the peak is 12. If b and c
// are recomputed, only a is saved: 4 bytes. The backward pass of d needs all three, so the peak is
// still 12.
std::vector<StageActivations> compute_stage_activations(
    const BackwardReads& graph, const std::vector<std::uint16_t>& stage_of_node, std::size_t stages,
    const std::vector<PassBound::UnitResult>& results);

}  // namespace tandem::search
