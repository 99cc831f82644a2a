// An evaluated candidate: its choices, its simulated or estimated cost, and whether it fits. Grids,
// sweeps, baselines, neighbourhoods and plans all use this one record.
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
  std::string name = {};    // text of a plain strategy: "megatron:tp=2,dp=24"
  std::string family = {};  // fixed name of a baseline, "megatron"; else equal to `name`
  std::optional<strategies::Setting> setting = {};  // plain strategy of the unchanged model
  predict::Simulation simulation = {};  // without timeline, except for the best of a search
  Bytes over = {};         // most memory that a device needs beyond its limit; negative if it fits
  bool feasible = false;   // whether it fits
  double error_bound = 0;  // relative error of an estimate (predict/estimator.h); 0: simulated
  double bound = 0;        // proved lower bound of the step time in seconds; 0: none
  std::int64_t devices = 0;       // devices that a baseline uses, if some may be idle; 0: all
  plan::MappedGraph mapped = {};  // empty in grids and sweeps
  std::shared_ptr<const Rewritten> rewritten = {};  // null: the unchanged model

  // Fields for sweeps.
  std::size_t case_number = 0;
  double throughput = 0;                  // samples per second
  std::vector<std::string> same_as = {};  // strategies with equal time and memory: merge_equal

  [[nodiscard]] Seconds time() const { return simulation.iteration; }
  // Returns whether it is an estimate that must be confirmed by simulation before it decides
  // anything.
  [[nodiscard]] bool is_rough() const { return error_bound > predict::Estimate::kNear; }
  // Returns the share of communication that is exposed; 0 if there is no communication.
  [[nodiscard]] double exposed_share() const;
};

// Returns the largest number of micro-batches that may be simulated for the graph. Simulating more
// of them one by one would take too much time and memory.
std::int64_t get_max_micro_batches(const graph::Graph& graph);
// Throws UserError if the schedule has more micro-batches than that.
void check_simulable(const graph::Graph& graph, const plan::Schedule& schedule,
                     const std::string& strategy);

// Lowers and simulates one strategy's choices. Throws UserError if it has too many micro-batches.
Evaluated cost_choices(const graph::Graph& model, const machine::Machine& machine,
                       const std::string& name, const std::vector<plan::Choice>& choices,
                       const plan::Schedule& schedule, plan::Optimizer optimizer,
                       const std::vector<Bytes>& limits, lower::Mode mode = lower::Mode::kTraining,
                       predict::Classes classes = predict::Classes::kAll);

// Lowers and simulates the choices as cost_choices does. Returns nullopt if the step takes `limit`
// or more. `known` is the cache that predict::Durations uses.
std::optional<Evaluated> cost_within(Seconds limit, const graph::Graph& model,
                                     const machine::Machine& machine, const std::string& name,
                                     const std::vector<plan::Choice>& choices,
                                     const plan::Schedule& schedule, plan::Optimizer optimizer,
                                     const std::vector<Bytes>& limits, lower::Mode mode,
                                     predict::Classes classes, predict::Operations* known = nullptr,
                                     predict::Extent extent = predict::Extent::kAll);

// Returns the record of a simulation or an estimate.
Evaluated make_evaluated(std::string name, predict::Simulation simulation,
                         const std::vector<Bytes>& limits);

// Returns a copy of `evaluated` without graph and timeline.
Evaluated summarize(const Evaluated& evaluated);

// Returns whether `a` is better than `b`. A candidate that fits is better than one that does not.
// Among those that fit the faster is better, among the others the smaller.
bool is_better(const Evaluated& a, const Evaluated& b);

// Fraction of a device's memory that commands leave free by default. It covers fragmentation in the
// allocator and errors of the prediction.
inline constexpr double kDefaultMargin = 0.05;

// Returns the memory that a device may use, by group; one entry if all devices are equal. `asked`
// replaces the device's memory minus its reserve. `margin` is left free: a fraction of `asked`, or
// of the device's whole memory without `asked`. Example: 80 GB with a reserve of 1 GB and a margin
// of 0.05 give 75 GB.
std::vector<Bytes> compute_memory_limits(const machine::Machine& machine,
                                         std::optional<Bytes> asked, double margin = 0);

// Returns " (5 % of the device left free)", or "(5 % of --memory left free)" if memory was `asked`
// for. Returns "" without a margin.
std::string format_margin(std::optional<Bytes> asked, double margin);

// The group whose devices have the least room left, or lack the most.
struct Tightest {
  std::size_t group = 0;
  predict::Memory needs;
  Bytes limit;

  [[nodiscard]] bool fits() const { return needs.peak <= limit; }
};
Tightest find_tightest(const predict::Simulation& simulation, const std::vector<Bytes>& limits);
// Returns "20 GB a device and 15 GB may be used". For a machine with several groups it returns "20
// GB a device of group 'old' and ...". Appends `margin`, a format_margin.
std::string format_shortage(const Tightest& tightest, const machine::Machine& machine,
                            const std::string& margin = "");

}  // namespace tandem::search
