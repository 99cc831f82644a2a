// All that a plan does with one node: shapes, what each level of the machine does, times and what
// bounds them, what is communicated for it, what the backward pass keeps of it.
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
  struct Tensor {
    std::string name;  // "the result" has the node's
    TensorType type;   // whole, with degrees
    Shape shard;       // on a device that holds one
    Bytes bytes;       // of that
    std::string how;   // storage_text
  };
  // A run of its forward or backward pass, or the update of a weight, on one device.
  struct Pass {
    TaskTime time;
    // By the cost model, of one run: the longer of the two, and the launches.
    struct Roofline {
      Flops flops;
      Bytes bytes;
      Seconds compute, memory, launch;
      // Which of them is most of the time: "compute", "memory" or "launches".
      [[nodiscard]] std::string bound() const {
        if (launch > std::max(compute, memory)) return "launches";
        return memory > compute ? "memory" : "compute";
      }
    };
    std::optional<Roofline> roofline = {};  // of operators, but in rings
  };
  struct Transfer {
    std::string what;  // "all_reduce of the gradient of w1"
    std::string of;    // "w1", "the result"
    std::string kind;
    machine::DigitMask digits = 0;
    bool backward = false;
    Bytes bytes;  // of one time
    TaskTime time;
  };
  struct Kept {
    std::string name;
    Bytes bytes;
    bool again = false;  // not kept: gathered or computed again
  };

  graph::NodeId id;
  std::string name, op, attributes;
  std::string doc, index;  // empty where it has none
  ops::Role role = ops::Role::kCompute;
  std::size_t alike = 1;  // nodes that are called alike and do the same
  std::uint16_t stage = 0;
  std::vector<Tensor> operands;
  Tensor result;
  std::vector<LevelWords> levels;
  std::optional<Pass> forward, backward, again, update;
  std::vector<Transfer> transfers;
  std::vector<std::string> users;  // of the model
  bool has_gradient = false;       // does training need one of it?
  bool remade = false;
  std::vector<Kept> kept;          // that its own backward pass reads
  std::vector<std::string> reads;  // whose backward passes read its result
  Bytes state;                     // of a weight: its optimizer state, on a device
};

NodeFacts node_facts(const PlanView& view, graph::NodeId id);
// Of one of many.
class NodeFactsSource;
NodeFacts node_facts(const NodeFactsSource& source, graph::NodeId id);

std::string node_text(const NodeFacts& facts, const PlanView& view);
nlohmann::ordered_json node_json(const NodeFacts& facts, const PlanView& view);

}  // namespace tandem::report
