// Exploration: what every strategy of a list would take, in time and memory, on every case of a
// sweep. Nothing is searched for; points that do not fit are kept and say so.
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

// What strategies are tried on.
struct Case {
  Values values;  // that tell it from the others of its sweep
  const strategies::Problem* problem = nullptr;
  const machine::Machine* machine = nullptr;
  std::int64_t batch = 0;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  std::function<plan::Precision(strategies::Family)> precision = {};  // none: a default one
  lower::Phase phase = lower::Phase::kTraining;
  std::vector<Bytes> limits = {};  // memory_limits
  // Where the problem's graph is this network as it is: so that steps can be estimated.
  const models::Model* network = nullptr;
  DType dtype = DType::kFp32;  // of the network
};

// A strategy that a case cannot have, and why.
struct Refused {
  std::size_t case_number = 0;
  std::string strategy;
  std::string why;
};

// "message (hint)", of a UserError or a refusal.
std::string reason(const std::string& message, const std::string& hint);

// The one place where a setting becomes a point, by the event simulation.
std::variant<Evaluated, Refused> evaluate(const Case& on, const strategies::Setting& setting);

struct Exploration {
  std::vector<Evaluated> points;  // by case, then in the order of its settings
  std::vector<Refused> refused;
  std::size_t asked = 0;  // points and refusals; more than there are where it was stopped
  // By case: the throughput that others are compared with, of `fsdp`, and where there are tables of
  // `madmax`, which is the same but for tables that are split. Nothing where it was not explored.
  std::vector<std::optional<double>> reference = {};

  [[nodiscard]] bool is_complete() const { return points.size() + refused.size() == asked; }
};

struct ExploreOptions {
  std::size_t threads = 1;
  std::function<void(std::size_t done, std::size_t of)> progress = {};  // called by one thread
  std::function<bool()> stop = {};                                      // asked before every point
};

// `settings[i]` on `cases[i]`. Steps are estimated where there is an estimate
// (predict/estimator.h), else simulated. The result does not depend on the number of threads:
// each case's estimates are made by one.
Exploration explore(const std::vector<Case>& cases,
                    const std::vector<std::vector<strategies::Setting>>& settings,
                    const ExploreOptions& options);

// Merges points of one run that come to the same time and memory, as where a setting changes
// nothing: {dp, dp:recompute=selective} without attention that can be recomputed becomes dp, whose
// same_as is {dp:recompute=selective}. The strategy with the fewest settings stays. `runs`: by
// case, equal for cases that differ in settings of strategies alone. Returns, by former index,
// where a point is now.
std::vector<std::size_t> merge_equal(std::vector<Evaluated>& points,
                                     std::span<const std::size_t> runs);

// All points, those with the highest throughput first; of equals the earlier.
std::vector<std::size_t> ranking(std::span<const Evaluated> points);

// Of these, what nothing else beats in both, less memory and more throughput; equals stay together.
// Ascending.
std::vector<std::size_t> pareto_front(std::span<const Evaluated> points,
                                      std::span<const std::size_t> among);

// Indices of a case's points; of those of a whole exploration.
std::vector<std::size_t> points_of(const Exploration& exploration, std::size_t case_number);
std::vector<std::size_t> all_points(const Exploration& exploration);

// The fastest of these, whether it fits or not, or of those that fit; nothing where there is none.
enum class Memory { kLimited, kUnlimited };
std::optional<std::size_t> fastest(std::span<const Evaluated> points,
                                   std::span<const std::size_t> among, Memory memory);

}  // namespace tandem::search
