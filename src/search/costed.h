// A candidate of the search: a strategy or a solution, lowered and simulated, and whether it fits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lower/lower.h"
#include "machine/machine.h"
#include "plan/parallelize.h"
#include "predict/simulate.h"
#include "search/space/rewritten.h"

namespace tandem::search {

// A strategy with its predicted step.
struct Costed {
  std::string name;    // with its settings: "megatron:tp=2,dp=24"
  std::string family;  // the fixed name of a baseline: "megatron"; else the name itself
  plan::MappedGraph mapped;
  predict::Simulation simulation;
  Bytes over;  // most that a device needs beyond what it may use; negative where all fit
  bool feasible = false;
  std::shared_ptr<const Rewritten> rewritten = {};  // null: the model as it is
  std::int64_t devices = 0;  // that a baseline uses where some may be left idle; 0: all
};

// Throws where simulating every micro-batch would take all time and memory.
void check_simulable(const graph::Graph& graph, const plan::Schedule& schedule,
                     const std::string& strategy);

// Lowers and simulates one strategy's choices. Throws where it has too many micro-batches.
Costed cost_choices(const graph::Graph& model, const machine::Machine& machine,
                    const std::string& name, const std::vector<plan::Choice>& choices,
                    const plan::Schedule& schedule, plan::Optimizer optimizer,
                    const std::vector<Bytes>& limits, lower::Phase phase = lower::Phase::kTraining,
                    predict::Classes classes = predict::Classes::kAll);

// The same; nothing where the step takes `limit` or more. `known`: of predict::Durations.
std::optional<Costed> cost_within(Seconds limit, const graph::Graph& model,
                                  const machine::Machine& machine, const std::string& name,
                                  const std::vector<plan::Choice>& choices,
                                  const plan::Schedule& schedule, plan::Optimizer optimizer,
                                  const std::vector<Bytes>& limits, lower::Phase phase,
                                  predict::Classes classes, predict::Operations* known = nullptr);

// What a simulation says of a strategy, its graph left out.
Costed costed(std::string name, predict::Simulation simulation, const std::vector<Bytes>& limits);

// Feasible before infeasible; then the faster, or the smaller where neither fits.
bool is_better(const Costed& a, const Costed& b);

// The fraction of a device's memory that commands leave free unless they are told otherwise: what
// an allocator cannot hand out because of fragmentation, and what a prediction misses.
inline constexpr double kDefaultMargin = 0.05;

// Returns what a device may use, by group; one entry where all devices are equal. `asked` replaces
// the device's memory less its reserve. `margin` is left free: a fraction of `asked`, else of the
// device's whole memory. 80 GB with a reserve of 1 GB and a margin of 0.05 give 75 GB.
std::vector<Bytes> memory_limits(const machine::Machine& machine, std::optional<Bytes> asked,
                                 double margin = 0);

// " (5 % of the device left free)", or "(5 % of --memory left free)" where memory was `asked` for;
// empty without a margin.
std::string margin_text(std::optional<Bytes> asked, double margin);

// The group whose devices have least room left, or lack most.
struct Tightest {
  std::size_t group = 0;
  predict::Memory needs;
  Bytes limit;

  [[nodiscard]] bool fits() const { return needs.peak <= limit; }
};
Tightest tightest(const predict::Simulation& simulation, const std::vector<Bytes>& limits);
// "20 GB a device and 15 GB may be used"; of a machine of several groups, "20 GB a device of group
// 'old' and ...". `margin`, a margin_text, follows.
std::string shortage_text(const Tightest& tightest, const machine::Machine& machine,
                          const std::string& margin = "");

}  // namespace tandem::search
