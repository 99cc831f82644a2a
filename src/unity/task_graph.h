// A parallel computation graph as the mapping sees it: its operators, and the tensors between them.
// Parallelization operators belong to the edges. An edge's cost depends on where its two ends are
// mapped, so Reduce and Replicate on one edge are an all-reduce. Weights and inputs are laid out as
// their reader needs them. A weight's gradient is summed over its replicas by the first reader.
//
//   linear(x, w) -> combine -> partition -> relu    has the vertices linear and relu, and one edge
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "rewrite/draft.h"
#include "unity/placements.h"

namespace tandem::unity {

struct TaskGraph {
  struct TaskGraphEdge {
    std::uint32_t from = 0;     // vertex
    std::uint32_t operand = 0;  // index among its reader's operands
  };
  struct Vertex {
    KindId kind = 0;
    std::vector<TaskGraphEdge> in;
    rewrite::Slot slot = 0;   // in its draft
    std::uint32_t piece = 0;  // index of its draft
  };
  std::vector<Vertex> vertices;  // readers after what they read; the last one is the result

  // Returns a hash that is equal for graphs with the same operators, split the same way. It does
  // not depend on the number and order of the parallelization operators.
  [[nodiscard]] Hash hash() const;
};

// The border before a piece other than the first: an input of its graph.
struct BorderInput {
  graph::NodeId input;
  bool has_gradient = false;
};

// Builds the task graph of drafts in sequence: the result of one is the border input of the next.
class TaskGraphBuilder {
 public:
  TaskGraphBuilder(const rewrite::Dictionary& dictionary, Placements& placements)
      : dictionary_(dictionary), placements_(placements) {}

  // Returns the graph of one piece alone. Its borders are tensors in the layouts that they should
  // have.
  TaskGraph build_for_piece(const rewrite::Draft& draft, const std::optional<BorderInput>& border,
                            bool has_border_output);
  // Appends a draft. Its border is the result of the previous one.
  void append(const rewrite::Draft& draft, const std::optional<BorderInput>& border);
  TaskGraph finish() { return std::move(graph_); }

 private:
  std::uint32_t add(const rewrite::Draft& draft, const std::optional<BorderInput>& border,
                    std::optional<std::uint32_t> border_vertex);
  KindId find_or_add_kind(const rewrite::Draft& draft, rewrite::Slot slot);

  static constexpr std::uint32_t kNone = 0xffffffff;  // vertex of a source

  const rewrite::Dictionary& dictionary_;
  Placements& placements_;
  std::unordered_map<Hash, KindId> kinds_;  // by operator, types and gradients
  TaskGraph graph_;
  std::uint32_t pieces_ = 0;
  std::uint32_t last_ = kNone;  // vertex of the last draft's result
  // The following are by slot of the current draft.
  std::vector<std::uint32_t> vertex_;
  std::vector<rewrite::Slot> origin_;  // slot before the parallelization operators
  std::vector<bool> has_gradient_;
  std::vector<bool> is_summed_;  // weights whose gradient an earlier reader sums
};

}  // namespace tandem::unity
