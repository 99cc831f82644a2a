// The first step of a search: known strategies. Baselines are evaluated. Thousands of strategies
// with pipelines, recomputation, micro-batches or sharded storage are estimated, and the best are
// simulated. These then get layouts of their own inside their steps.
#pragma once

#include <functional>
#include <limits>
#include <list>
#include <optional>
#include <vector>

#include "search/grid/folded_grid_model.h"
#include "search/grid/grid.h"
#include "search/pool.h"
#include "search/promising_settings.h"
#include "strategies/grid.h"

namespace tandem::search {

class StrategySearch {
 public:
  // If `may_win` is false, everything is evaluated only for comparison.
  StrategySearch(CandidatePool& pool, bool may_win);

  void cost_baselines();
  void cost_grid();
  // Gives the ranks of the best pipelines settings of their own.
  void mix_by_rank();
  // Lays out the operators inside the steps of the best grid strategies.
  void lay_out_steps();
  // Descends from the best plan, if it is a strategy of a rewritten graph, to strategies that
  // differ in one choice. Those of the unchanged model rank otherwise.
  void change_rewritten_setting();
  // Evaluates the estimated strategies that need the least memory. Returns whether that settles if
  // any strategy fits; for a large model, if these do.
  bool cost_smallest();
  // Returns whether all estimates of a large model need much more memory than there is. Layouts of
  // its own save some of it, but not that much.
  [[nodiscard]] bool are_far_too_large();

  // The result of a search for a step time alone.
  struct QuickResult {
    double time;                                      // in seconds
    std::optional<strategies::Setting> setting = {};  // of a plain strategy that was estimated
  };
  // Returns the fastest plain strategy that fits, if it takes less than `beat`. The search does
  // nothing else then.
  std::optional<QuickResult> find_fastest_plain(double beat);
  // Returns the cost of a step with layouts of its own divided by that of the plain strategy: the
  // smallest ratio of all kinds of devices; nullopt if it is unknown.
  std::optional<double> compute_layout_cost_ratio(const strategies::Setting& setting);

  // Simulates strategies that are simpler than the best candidates and may be nearly as fast.
  void try_simpler();

  // Returns a lower bound of the step times of all grid strategies that fit, if the grid was
  // evaluated.
  [[nodiscard]] std::optional<Seconds> compute_grid_bound() const;

  // Returns the best settings first: those simulated, and those that only their estimate kept from
  // simulation. `with_shardings` adds the shardings of a network without estimates, many of which
  // differ little.
  [[nodiscard]] std::vector<strategies::Setting> list_best_settings(
      bool with_shardings = false) const;
  // Returns the choices of the best few strategies of each family. All of them would leave a layout
  // search no room for states of its own.
  [[nodiscard]] const std::vector<std::vector<plan::Choice>>& initial_choices() const {
    return initial_choices_;
  }

 private:
  std::vector<strategies::Setting> list_changes(const strategies::Setting& setting, Seconds time);
  [[nodiscard]] std::vector<Evaluated> list_best_of_each_shape() const;
  void for_each_device_kind(const std::function<void(predict::CostModel&)>& use);
  void lay_out_step(const strategies::Setting& setting);
  // Returns the settings to simulate as baselines, with the estimates that there are.
  std::pair<std::vector<strategies::Setting>, std::vector<Evaluated>> choose_baseline_settings(
      const std::vector<strategies::Setting>& settings);
  // Evaluates strategies without duplicates. `known` has the estimates of some.
  void cost_distinct(const std::vector<strategies::Strategy>& strategies,
                     const std::vector<Evaluated>& known);
  void add_baseline(const strategies::Strategy& strategy, Evaluated costed);
  void choose_initial_choices(std::vector<Candidate> candidates,
                              const std::vector<std::optional<Evaluated>>& costed);
  [[nodiscard]] bool is_allowed(const strategies::Setting& setting) const;
  void cost_shardings();
  std::vector<Evaluated> cost_estimated(const std::vector<Evaluated>& estimated);
  const std::vector<Evaluated>& get_estimated_grid();
  std::vector<Evaluated> estimate_smallest();
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  // `beat`: GridOptions::beat.
  GridOptions make_grid_options(double beat = kNever);
  std::vector<Evaluated> estimate_grid(double beat = kNever);
  void simulate_grid(double beat = kNever);
  void simulate_smallest();
  GridResult simulate_grid(GridOptions grid);
  // Returns the grid strategies that were estimated, or else simulated.
  [[nodiscard]] const std::vector<Evaluated>& evaluated_grid() const {
    return grid_ && !grid_->empty() ? *grid_ : simulated_grid_;
  }
  [[nodiscard]] std::vector<strategies::Setting> choose_settings_to_simulate(
      const std::vector<Evaluated>& estimated) const;
  void simulate_the_best(const std::vector<strategies::Strategy>& strategies,
                         std::vector<Evaluated>& found);
  [[nodiscard]] bool is_clearly_worse(const Evaluated& tried, const Evaluated& best) const;
  [[nodiscard]] bool is_decided_by_smallest();
  [[nodiscard]] bool asks_only_if_strategy_fits() const;
  [[nodiscard]] bool is_decided_by_estimate(const Evaluated& estimated);
  [[nodiscard]] bool is_far_too_large(Bytes over) const;
  [[nodiscard]] bool can_estimate() const;
  [[nodiscard]] bool is_synchronous() const {
    return options_.semantics == plan::Semantics::kSynchronous;
  }
  // Estimates all settings with one estimator, since they share lowered stages.
  std::vector<Evaluated> estimate(const std::vector<strategies::Setting>& settings);
  [[nodiscard]] Case make_case() const;
  Estimates& get_estimates();
  [[nodiscard]] bool may_win(const std::vector<plan::Choice>& choices) const;

  CandidatePool& pool_;
  const Options& options_;
  const strategies::Problem problem_;
  bool may_win_;
  std::optional<Estimates> estimates_;        // kept: settings share lowered stages
  std::vector<machine::Machine> kinds_;       // of a machine with several kinds of devices
  std::list<predict::CostModel> kind_costs_;  // of kinds_
  std::optional<std::vector<Evaluated>> grid_;
  std::vector<Evaluated> simulated_grid_;
  std::vector<Evaluated> found_;  // best of the grid, simulated
  std::optional<double> others_;  // GridResult::others
  std::vector<Evaluated> tried_;
  std::vector<Evaluated> sharded_;
  std::vector<std::vector<plan::Choice>> initial_choices_;
};

}  // namespace tandem::search
