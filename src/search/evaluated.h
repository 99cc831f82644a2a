// An evaluated candidate: what was asked for, what it comes to by simulation or by estimate, and
// whether it fits. Grids, sweeps, baselines, neighbourhoods and plans all have this one record.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lower/lower.h"
#include "machine/machine.h"
#include "plan/parallelize.h"
#include "predict/estimator.h"
#include "predict/simulate.h"
#include "search/candidate.h"

namespace tandem::search {

struct Evaluated {
  std::string name = {};    // of a plain strategy its text: "megatron:tp=2,dp=24"
  std::string family = {};  // the fixed name of a baseline: "megatron"; else the name itself
  std::optional<strategies::Setting> setting = {};  // of a plain strategy of the model as it is
  predict::Simulation simulation = {};  // without its timeline, but for the best of a search
  Bytes over = {};           // most that a device needs beyond what it may use; negative if it fits
  bool feasible = false;     // does it fit?
  double error_bound = 0;    // of an estimate (predict/estimator.h); 0: simulated
  double bound = 0;          // proved lower bound of the step time in seconds; 0: none
  std::int64_t devices = 0;  // that a baseline uses where some may be idle; 0: all
  plan::MappedGraph mapped = {};                    // left out of grids and sweeps
  std::shared_ptr<const Rewritten> rewritten = {};  // null: the model as it is

  // Of a sweep.
  std::size_t case_number = 0;
  double throughput = 0;                  // samples a second
  std::vector<std::string> same_as = {};  // strategies that come to the same: merge_equal

  [[nodiscard]] Seconds time() const { return simulation.iteration; }
  // Returns whether it is an estimate that has to be simulated before it decides anything.
  [[nodiscard]] bool is_rough() const { return error_bound > predict::Estimate::kNear; }
  // Communication that has no compute beside it, of all communication; 0 where there is none.
  [[nodiscard]] double exposed_share() const;
};

// How many micro-batches of the graph there may be: simulating every one of more would take all
// time and memory.
std::int64_t most_micro_batches(const graph::Graph& graph);
// Throws where there are more.
void check_simulable(const graph::Graph& graph, const plan::Schedule& schedule,
                     const std::string& strategy);

// Lowers and simulates one strategy's choices. Throws where it has too many micro-batches.
Evaluated cost_choices(const graph::Graph& model, const machine::Machine& machine,
                       const std::string& name, const std::vector<plan::Choice>& choices,
                       const plan::Schedule& schedule, plan::Optimizer optimizer,
                       const std::vector<Bytes>& limits,
                       lower::Phase phase = lower::Phase::kTraining,
                       predict::Classes classes = predict::Classes::kAll);

// The same; nothing where the step takes `limit` or more. `known`: of predict::Durations.
std::optional<Evaluated> cost_within(Seconds limit, const graph::Graph& model,
                                     const machine::Machine& machine, const std::string& name,
                                     const std::vector<plan::Choice>& choices,
                                     const plan::Schedule& schedule, plan::Optimizer optimizer,
                                     const std::vector<Bytes>& limits, lower::Phase phase,
                                     predict::Classes classes, predict::Operations* known = nullptr,
                                     predict::Extent extent = predict::Extent::kAll);

// Makes the record of a simulation or an estimate.
Evaluated costed(std::string name, predict::Simulation simulation,
                 const std::vector<Bytes>& limits);

// Makes a copy without the graph and the timeline.
Evaluated summary_of(const Evaluated& evaluated);

// Returns whether `a` fits and `b` does not, or is the faster of two that fit, or the smaller of
// two that do not.
bool is_better(const Evaluated& a, const Evaluated& b);

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
