// A parallel computation graph as the mapping sees it: its operators, and which tensors run between
// them. Parallelization operators stand on the edges: what an edge costs depends on where its two
// ends are mapped, so that Reduce and Replicate on one edge are an all-reduce. Weights and inputs
// lie as their user wants them; a weight's gradient is summed over its copies by the first user.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "rewrite/draft.h"
#include "unity/placements.h"

namespace tandem::unity {

struct TaskGraph {
  struct Edge {
    std::uint32_t from = 0;     // vertex
    std::uint32_t operand = 0;  // of its user
  };
  struct Vertex {
    KindId kind = 0;
    std::vector<Edge> in;
    rewrite::Slot slot = 0;   // in the draft it is of
    std::uint32_t piece = 0;  // which draft
  };
  std::vector<Vertex> vertices;  // users behind what they use; the last one is the result

  // Equal where the same operators are cut the same way, however many parallelization operators say
  // so, and in which order.
  [[nodiscard]] Hash hash() const;
};

// The border of a piece that is not the first: an input of its graph.
struct BorderInput {
  graph::NodeId input;
  bool has_gradient = false;
};

// Drafts one after another: what one gives at its end is what the next one takes at its border.
class TaskGraphBuilder {
 public:
  TaskGraphBuilder(const rewrite::Dictionary& dictionary, Placements& placements)
      : dictionary_(dictionary), placements_(placements) {}

  // A piece by itself: with its borders as tensors that lie as they should.
  TaskGraph of_piece(const rewrite::Draft& draft, const std::optional<BorderInput>& border,
                     bool has_border_output);
  // Adds one behind those before; its border is what the last one gave.
  void append(const rewrite::Draft& draft, const std::optional<BorderInput>& border);
  TaskGraph finish() { return std::move(graph_); }

 private:
  std::uint32_t add(const rewrite::Draft& draft, const std::optional<BorderInput>& border,
                    std::optional<std::uint32_t> border_vertex);
  KindId kind_at(const rewrite::Draft& draft, rewrite::Slot slot);

  static constexpr std::uint32_t kNone = 0xffffffff;  // a source's

  const rewrite::Dictionary& dictionary_;
  Placements& placements_;
  std::unordered_map<Hash, KindId> kinds_;  // by operator, types and what has a gradient
  TaskGraph graph_;
  std::uint32_t pieces_ = 0;
  std::uint32_t last_ = kNone;  // vertex that the last draft gave
  // By slot, of the draft at hand.
  std::vector<std::uint32_t> vertex_;
  std::vector<rewrite::Slot> origin_;  // before the parallelization operators
  std::vector<bool> has_gradient_;
  std::vector<bool> is_summed_;  // a weight whose gradient some operator has summed already
};

}  // namespace tandem::unity
