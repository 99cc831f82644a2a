// Collects the facts of one node of a plan: shapes, placement on each machine level, times and
// their bounds, communication, and what is saved for backward.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/level_words.h"
#include "report/plan_view.h"
#include "report/task_times.h"

namespace tandem::report {

struct NodeFacts {
  struct TensorFacts {
    std::string name;  // name of the node that computes it
    TensorType type;   // full type, with degrees
    Shape shard;       // shape on one device
    Bytes bytes;       // bytes of the shard
    std::string how;   // placement: storage_text
  };
  // Runs of the forward pass, the backward pass, or the update of a weight, on one device.
  struct PassFacts {
    TaskTime time;
    // Cost of one run by the cost model: the longer of compute and memory, plus launch.
    struct Roofline {
      Flops flops;
      Bytes bytes;
      Seconds compute, memory, launch;
      // Returns the largest part of the time: "compute", "memory" or "launches".
      [[nodiscard]] std::string bound() const {
        if (launch > std::max(compute, memory)) return "launches";
        return memory > compute ? "memory" : "compute";
      }
    };
    std::optional<Roofline> roofline = {};  // nullopt for updates and ring steps
  };
  struct NodeTransfer {
    std::string what;  // "all_reduce of the gradient of w1"
    std::string of;    // "w1", "the result"
    std::string kind;
    machine::DigitMask digits = 0;
    bool backward = false;
    Bytes bytes;  // bytes of one transfer
    TaskTime time;
  };
  // A tensor that the backward pass reads.
  struct BackwardOperand {
    std::string name;
    Bytes bytes;
    bool recomputed = false;  // recomputed or regathered instead of saved
  };

  graph::NodeId id;
  std::string name, op, attributes;
  std::string doc, index;  // empty if the operator has none
  ops::Role role = ops::Role::kCompute;
  std::size_t equivalent_count =
      1;  // number of equivalent nodes: same folded name, operator and layout
  std::uint16_t stage = 0;
  std::vector<TensorFacts> operands;
  TensorFacts result;
  std::vector<LevelWords> levels;
  std::optional<PassFacts> forward, backward, recompute, update;
  std::vector<NodeTransfer> transfers;
  std::vector<std::string> users;  // nodes of the model that read the result
  bool has_gradient = false;       // whether training needs its gradient
  bool recomputed = false;         // whether the result is recomputed in the backward pass
  std::vector<BackwardOperand> backward_operands;  // tensors that its own backward pass reads
  std::vector<std::string> reads;                  // nodes whose backward pass reads the result
  Bytes state;                                     // optimizer state of a weight, on one device
};

NodeFacts collect_node_facts(const PlanView& view, graph::NodeId id);
// Does the same from a source that many calls share.
class NodeFactsSource;
NodeFacts collect_node_facts(const NodeFactsSource& source, graph::NodeId id);

std::string node_text(const NodeFacts& facts, const PlanView& view);
nlohmann::ordered_json node_json(const NodeFacts& facts, const PlanView& view);

}  // namespace tandem::report
