// A plan: what to run where. The model's graph made parallel, a layout for every tensor (the
// mapping), and what it was made from. JSON form: plan/json.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "machine/layout.h"
#include "plan/precision.h"
#include "plan/rule_step.h"
#include "rewrite/step.h"

namespace tandem::plan {

enum class Optimizer : std::uint8_t { kSgd, kMomentum, kAdam };
std::string_view name(Optimizer o);  // "adam"
std::optional<Optimizer> parse_optimizer(std::string_view text);
// Number of tensors that training keeps beside a weight, of its shape and of the type
// Precision::state: a velocity, or Adam's two moments, and a master copy.
inline std::size_t states(Optimizer o, const Precision& precision, DType weight) {
  return static_cast<std::size_t>(o) + (precision.has_master(weight) ? 1 : 0);
}
// Bytes that these take, by element of the weight.
inline Bytes state_bytes(Optimizer o, const Precision& precision, DType weight) {
  return static_cast<double>(states(o, precision, weight)) * size_of(precision.state(weight));
}

// Momentum: velocity = kVelocityKept * velocity + gradient; weight -= rate * velocity.
inline constexpr double kVelocityKept = 0.9;

// In which order a device takes up micro-batches.
enum class Order : std::uint8_t {
  kGpipe,        // all forward, then all backward
  k1F1B,         // one forward, one backward, as soon as the pipeline is full
  kInterleaved,  // the same where a device has several stages, in groups of micro-batches
};
std::string_view name(Order order);  // "1f1b"
std::optional<Order> parse_order(std::string_view text);

// Which weights a step's gradients are of.
enum class Semantics : std::uint8_t {
  kSynchronous,  // W(t+1) = W(t) - rate * gradient(W(t))
  kDelayed1,     // W(t+1) = W(t) - rate * gradient(W(t-1)), so that a step need not wait for the
                 // one before: PipeDream-2BW. Another training, never ranked against the first
};
std::string_view name(Semantics semantics);  // "delayed-1"
std::optional<Semantics> parse_semantics(std::string_view text);

// A step in micro-batches over pipeline stages. Stage s runs at place s % ranks of `digits`.
struct Schedule {
  Order order = Order::k1F1B;
  std::int64_t micro_batches = 1;
  std::int64_t stages = 1;
  machine::DigitMask digits = 0;  // of the machine: their places are the pipeline's ranks
  // Gradients are summed over devices after every micro-batch, not once a step: more is sent, and a
  // device keeps its shard of the sum only.
  bool reduce_each = false;
  // Gradients that are reduce-scattered have room for all of them until the step ends (ZeRO-1).
  bool whole_gradients = false;
  Precision precision = {};
  Semantics semantics = Semantics::kSynchronous;
  // Gradients of weights are summed over devices together until there are so many; 0: each alone.
  Bytes bucket = {};
  // What a contraction reads of other devices goes round a ring of them, block by block, instead of
  // being gathered before it: lower/rings.h.
  bool ring = false;

  [[nodiscard]] bool is_delayed() const { return semantics == Semantics::kDelayed1; }
};

// A parallel computation graph and where each of its tensors lies, by node.
struct MappedGraph {
  graph::Graph pcg;
  std::vector<machine::Layout> layouts;
  std::vector<std::uint16_t> stage;  // of the pipeline
  // What a backward pass needs of it is made anew: an activation is computed again, a gathered
  // weight gathered again.
  std::vector<bool> remake;
  Schedule schedule;
};

// Throws UserError if a tensor's type is not what its layout means, if the digits of an operator's
// operands do not agree, or if a stage is not where the schedule has it.
void check_mapped(const MappedGraph& mapped, const machine::Digits& digits);

struct Plan {
  std::string model;     // "mlp:layers=4"
  std::string machine;   // "summit:8"
  std::string strategy;  // "search", "dp", ...
  std::int64_t batch = 0;
  Optimizer optimizer = Optimizer::kSgd;
  DType dtype = DType::kFp32;
  MappedGraph mapped;
  // Turns the model's graph into the one that `mapped` makes parallel, by the rules beside it.
  rewrite::Derivation derivation = {};
  std::vector<std::string> rules = {};  // as text, those that the derivation uses
  // The steps after it in a plan's file, which put pipeline nodes where micro-batches begin
  // (plan/micro_batches.h); nothing where the plan is of no file that had them.
  std::optional<rewrite::Derivation> pipeline_steps = {};
  // And those that make it parallel (plan/parallelization.h); nothing where it is of no such file.
  std::optional<Parallelization> parallelization = {};

  // Predicted by the simulator.
  Seconds iteration;
  Bytes memory;
};

// The digits that the plan's layouts are about, on the machine it is for.
inline machine::Digits digits_of(const Plan& plan, const machine::Machine& machine) {
  return machine::Digits(machine, plan.mapped.schedule.micro_batches);
}

}  // namespace tandem::plan
