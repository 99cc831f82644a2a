// Exploration: time and memory of every strategy of a list, on every case of a sweep. Nothing is
// searched for. Points that do not fit are included and marked.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "models/model.h"
#include "search/search.h"
#include "search/sweep.h"
#include "strategies/grid.h"

namespace tandem::search {

// The model, machine and options that strategies are evaluated on.
struct Case {
  Values values;  // axis values that distinguish it from other cases of its sweep
  const strategies::Problem* problem = nullptr;
  const machine::Machine* machine = nullptr;
  std::int64_t batch = 0;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  std::function<plan::Precision(strategies::Family)> precision = {};  // empty: a default one
  lower::Mode mode = lower::Mode::kTraining;
  std::vector<Bytes> limits = {};  // compute_memory_limits
  // The network, if the problem's graph is exactly this network. Steps can then be estimated.
  const models::ConfiguredModel* network = nullptr;
  DType dtype = DType::kFp32;  // type of the network's tensors
};

// A strategy that is impossible in a case, and the reason.
struct Refused {
  std::size_t case_number = 0;
  std::string strategy;
  std::string why;
};

// Returns "message (hint)" for a UserError or a refusal.
std::string format_reason(const std::string& message, const std::string& hint);

// Returns the point of a setting by event simulation, or the refusal. Every simulated point of an
// exploration is made here.
std::variant<Evaluated, Refused> evaluate(const Case& on, const strategies::Setting& setting);

struct Exploration {
  std::vector<Evaluated> points;  // by case, then in the order of its settings
  std::vector<Refused> refused;
  // Number of settings to evaluate; more than points plus refusals if the exploration was stopped.
  std::size_t asked = 0;
  // Throughput that other points are compared with, by case. It is that of `madmax` if the model
  // has embedding tables, else that of `fsdp`. The two differ only in split tables. nullopt if that
  // strategy was not explored.
  std::vector<std::optional<double>> reference = {};

  [[nodiscard]] bool is_complete() const { return points.size() + refused.size() == asked; }
};

struct ExploreOptions {
  std::size_t threads = 1;
  std::function<void(std::size_t done, std::size_t of)> progress = {};  // called by one thread
  std::function<bool()> stop = {};                                      // called before every point
};

// Evaluates `settings[i]` on `cases[i]`. Steps are estimated if there is an estimate
// (predict/estimator.h), else simulated. The result does not depend on the number of threads: one
// thread makes all estimates of a case.
Exploration explore(const std::vector<Case>& cases,
                    const std::vector<std::vector<strategies::Setting>>& settings,
                    const ExploreOptions& options);

// Merges points of one run that have equal time and memory, for example if a setting changes
// nothing. Example: without attention to recompute, {dp, dp:recompute=selective} becomes dp, whose
// same_as is {dp:recompute=selective}. The strategy with the fewest settings stays. `runs` gives
// the run of each case. Cases that differ only in strategy settings belong to the same run. Returns
// the new index of each former point.
std::vector<std::size_t> merge_equal(std::vector<Evaluated>& points,
                                     std::span<const std::size_t> runs);

// Returns the indices of all points by descending throughput. Equal points keep their order.
std::vector<std::size_t> rank_by_throughput(std::span<const Evaluated> points);

// Returns the Pareto front of the points `among`: those that no other point beats in both memory
// and throughput. Equal points stay together. Indices ascend.
//   (10 GB, 5/s), (20 GB, 4/s), (20 GB, 8/s) -> {0, 2}
std::vector<std::size_t> find_pareto_front(std::span<const Evaluated> points,
                                           std::span<const std::size_t> among);

// Return the indices of a case's points, and of all points of an exploration.
std::vector<std::size_t> list_case_points(const Exploration& exploration, std::size_t case_number);
std::vector<std::size_t> list_points(const Exploration& exploration);

// Returns the fastest of the points `among`, or with kLimited the fastest that fits. Returns
// nullopt if there is none.
enum class MemoryConstraint { kLimited, kUnlimited };
std::optional<std::size_t> find_fastest(std::span<const Evaluated> points,
                                        std::span<const std::size_t> among,
                                        MemoryConstraint memory);

}  // namespace tandem::search
