// The search: the layouts that make an iteration fastest within memory.
//
// Baselines are costed first and seed it. Strategies with pipelines, recomputation, micro-batches
// or storage in parts are estimated by the thousand, and the best simulated. The layout network is
// then solved for a few prices of asynchronous communication, and of memory when the result does
// not fit; each solution is lowered and simulated, and the fastest that fits wins. A plan is never
// worse than the best baseline that keeps to the dimensions allowed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "machine/machine.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "search/states.h"
#include "sim/simulate.h"

namespace tandem::search {

// What the graph is, where it is a network of equal layers as it is: strategies for it can be
// estimated, and so a great many of them compared.
struct KnownNetwork {
  const models::Model* model = nullptr;
  std::int64_t batch = 0;
  DType dtype = DType::kFp32;
};

struct Options {
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Precision precision = {};  // of all candidates alike
  std::optional<Bytes> memory;     // per device; default: each one's, less its reserve
  Dims dims;
  std::size_t states_per_node = 64;
  std::optional<KnownNetwork> network;
  // With delayed updates pipelines alone compete: other layouts gain nothing from a delay.
  plan::Semantics semantics = plan::Semantics::kSynchronous;
  // Called after every candidate with their number and the best time so far, if any fits.
  std::function<void(std::size_t candidates, std::optional<Seconds> best)> progress;
};

// A strategy with its predicted step.
struct Costed {
  std::string name;    // with its settings: "megatron:tp=2,dp=24"
  std::string family;  // the fixed name of a baseline: "megatron"; else the name itself
  plan::MappedGraph mapped;
  sim::Simulation simulation;
  Bytes over;  // most that a device needs beyond what it may use; negative where all fit
  bool feasible = false;
};

struct Result {
  std::optional<Costed> best;     // nothing if nothing fits
  std::vector<Costed> baselines;  // the best of every family of strategies/grid.h that exists
  Costed smallest;                // what needs least memory of all that was costed
  std::vector<Bytes> limits;      // memory_limits
  // For these layouts, with all that may overlap taken as free; nothing if it could not be found,
  // as on a machine of several groups, where layouts decide which devices wait.
  std::optional<Seconds> lower_bound;
  double search_s = 0;
  std::size_t candidates = 0;  // lowered and simulated
  std::size_t estimated = 0;   // strategies that were compared without
  std::size_t products = 0;    // tables made by elimination
  std::string stop_reason;     // "done", or "pinned" when the graph is not series-parallel
};

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options);

// Lowers and simulates one strategy's choices.
Costed cost_choices(const graph::Graph& model, const machine::Machine& machine,
                    const std::string& name, const std::vector<plan::Choice>& choices,
                    const plan::Schedule& schedule, plan::Optimizer optimizer,
                    const std::vector<Bytes>& limits, lower::Phase phase = lower::Phase::kTraining);

// What a simulation says of a strategy, its graph left out.
Costed costed(std::string name, sim::Simulation simulation, const std::vector<Bytes>& limits);

// Feasible before infeasible; then the faster, or the smaller where neither fits.
bool is_better(const Costed& a, const Costed& b);

// --memory, or what a device has less its reserve: by group, one where all devices are equal.
std::vector<Bytes> memory_limits(const machine::Machine& machine, const Options& options);

// The group whose devices have least room left, or lack most.
struct Tightest {
  std::size_t group = 0;
  sim::Memory needs;
  Bytes limit;

  [[nodiscard]] bool fits() const { return needs.peak <= limit; }
};
Tightest tightest(const sim::Simulation& simulation, const std::vector<Bytes>& limits);
// "20 GB a device and 15 GB may be used"; of a machine of several groups, "20 GB a device of group
// 'old' and ...".
std::string shortage_text(const Tightest& tightest, const machine::Machine& machine);

}  // namespace tandem::search
