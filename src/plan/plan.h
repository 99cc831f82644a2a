// A plan: the model's parallel computation graph, a layout for every tensor (the mapping), and the
// plan's origin. plan/json.h defines its JSON form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "machine/layout.h"
#include "plan/precision.h"
#include "plan/rule_step.h"
#include "rewrite/derivation_step.h"

namespace tandem::plan {

enum class Optimizer : std::uint8_t { kSgd, kMomentum, kAdam };
// Returns the optimizer's name: "adam".
std::string_view name(Optimizer o);
std::optional<Optimizer> parse_optimizer(std::string_view text);
// Returns the number of optimizer state tensors of a weight: a velocity or Adam's two moments, and
// a master copy. They have the weight's shape and the type Precision::state.
inline std::size_t count_states(Optimizer o, const Precision& precision, DType weight) {
  return static_cast<std::size_t>(o) + (precision.has_master(weight) ? 1 : 0);
}
// Returns the bytes of that state per element of the weight.
inline Bytes state_bytes(Optimizer o, const Precision& precision, DType weight) {
  return static_cast<double>(count_states(o, precision, weight)) *
         get_element_size(precision.state(weight));
}

// Momentum: velocity = kVelocityDecay * velocity + gradient; weight -= rate * velocity.
inline constexpr double kVelocityDecay = 0.9;

// The order in which a device runs micro-batches.
enum class Order : std::uint8_t {
  kGpipe,        // all forward slots, then all backward slots
  k1F1B,         // one forward slot, one backward slot, as soon as the pipeline is full
  kInterleaved,  // 1F1B with several stages per device, in groups of micro-batches
};
// Returns the order's name: "1f1b".
std::string_view name(Order order);
std::optional<Order> parse_order(std::string_view text);

// The weights at which a step's gradients are computed.
enum class Semantics : std::uint8_t {
  kSynchronous,  // W(t+1) = W(t) - rate * gradient(W(t))
  // W(t+1) = W(t) - rate * gradient(W(t-1)), so that a step need not wait for the previous one
  // (PipeDream-2BW). This is a different training and is never ranked against the synchronous one.
  kDelayed1,
};
// Returns the name: "delayed-1".
std::string_view name(Semantics semantics);
std::optional<Semantics> parse_semantics(std::string_view text);

// The schedule of a step: micro-batches over pipeline stages. Stage s runs on rank s % ranks, where
// the ranks are the places of `digits`.
struct Schedule {
  Order order = Order::k1F1B;
  std::int64_t micro_batches = 1;
  std::int64_t stages = 1;
  machine::DigitMask digits = 0;  // digits of the machine whose places are the pipeline's ranks
  // Whether gradients are reduced over devices after every micro-batch instead of once per step.
  // Devices send more, but each one stores only its shard of the sum.
  bool reduce_each = false;
  // Whether reduce-scattered gradients have unsharded storage until the step ends (ZeRO-1).
  bool whole_gradients = false;
  Precision precision = {};
  Semantics semantics = Semantics::kSynchronous;
  // Size of a gradient bucket. Gradients of weights share a collective until they reach this size;
  // 0 disables buckets.
  Bytes bucket = {};
  // Whether operands from other devices are passed round a ring, block by block, instead of
  // gathered before a contraction (lower/rings.h).
  bool ring = false;

  [[nodiscard]] bool is_delayed() const { return semantics == Semantics::kDelayed1; }
};

// A parallel computation graph with the layout, the stage and the recomputation of each node.
struct MappedGraph {
  graph::Graph pcg;
  std::vector<machine::Layout> layouts;
  std::vector<std::uint16_t> stage;  // pipeline stage
  // Whether the backward pass recomputes the node's activation, or regathers the gathered weight.
  std::vector<bool> recompute;
  Schedule schedule;
};

// Throws UserError if a tensor's type differs from what its layout implies, if the digits of an
// operator's operands do not agree, or if a stage's layout is not at the stage's rank.
void check_mapped(const MappedGraph& mapped, const machine::Digits& digits);

// A plan with its origin, derivation and prediction.
struct Plan {
  std::string model;     // for example "mlp:layers=4"
  std::string machine;   // for example "summit:8"
  std::string strategy;  // for example "search" or "dp"
  std::int64_t batch = 0;
  Optimizer optimizer = Optimizer::kSgd;
  DType dtype = DType::kFp32;
  MappedGraph mapped;
  // Rewrites the model's graph by `rules` to the one that `mapped` parallelizes.
  rewrite::Derivation derivation = {};
  std::vector<std::string> rules = {};  // the rules that the derivation uses, as text
  // Further steps of a plan file's derivation, which insert the pipeline nodes
  // (plan/micro_batches.h). Nullopt if the plan is not from a file with such steps.
  std::optional<rewrite::Derivation> pipeline_steps = {};
  // Steps that make the graph parallel (plan/parallelization_derivation.h). Nullopt if the plan is
  // not from a file with such steps.
  std::optional<Parallelization> parallelization = {};

  // Predictions of the simulator.
  Seconds iteration;
  Bytes memory;
};

// Returns the digits that the plan's layouts refer to, on its machine.
inline machine::Digits make_digits(const Plan& plan, const machine::Machine& machine) {
  return machine::Digits(machine, plan.mapped.schedule.micro_batches);
}

}  // namespace tandem::plan
