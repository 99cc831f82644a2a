#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "search/bounds.h"
#include "search/improve.h"
#include "search/limits.h"
#include "search/neighbours/branches.h"
#include "search/neighbours/layout_search.h"
#include "search/neighbours/matmul_splits.h"
#include "search/neighbours/rewrite_ranking.h"
#include "search/neighbours/table_placement.h"
#include "search/neighbours/taso_flexflow.h"
#include "search/neighbours/weight_storage.h"
#include "search/pool.h"
#include "search/rewritten_strategies.h"
#include "search/strategy_search.h"

namespace tandem::search {

namespace {

class PlanSearch {
 public:
  PlanSearch(const graph::Graph& model, const machine::Machine& machine, const Options& options)
      : options_(options), pool_(model, machine, options), layouts_(pool_) {}

  Result run() {
    const auto start = std::chrono::steady_clock::now();
    const bool may_fit = pool_.may_fit();
    if (may_fit && options_.algebra == RewriteSearch::kSequential) {
      add_rewrites({.max_graphs = 1, .one_device = true});
    }
    // If the model was rewritten first, the original model cannot win.
    const bool model_may_win = rewrites_.empty();
    StrategySearch strategies(pool_, model_may_win);
    const bool asks_what_fits =
        !may_fit || options_.until.first_fit || strategies.are_far_too_large();
    if (!asks_what_fits || !strategies.cost_smallest()) {
      strategies.cost_baselines();
      strategies.cost_grid();
      improve(pool_, list_neighbourhoods(strategies, may_fit, model_may_win));
    }
    strategies.try_simpler();
    pool_.choose_best();
    record_lower_bound(strategies);
    auto& out = pool_.result();
    out.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(out);
  }

 private:
  // Lists the neighbourhoods of the best strategies, in order from settings to layouts to the
  // graph.
  std::vector<Neighbourhood> list_neighbourhoods(StrategySearch& strategies, bool may_fit,
                                                 bool model_may_win) {
    std::vector<Neighbourhood> out;
    if (options_.semantics != plan::Semantics::kSynchronous || !may_fit) return out;
    if (model_may_win) {
      out.push_back({"settings by rank", [&] { strategies.mix_by_rank(); }});
      out.push_back({"layouts inside stages", [&] { strategies.lay_out_steps(); }});
    }
    if (!options_.layouts) return out;
    const bool is_joint = options_.algebra == RewriteSearch::kJoint;
    out.push_back(
        {"layouts by operator", [this, &strategies, model_may_win] {
           settings_ = strategies.list_best_settings();
           if (!model_may_win) return;
           layouts_.search({pool_.model(), pool_.digits()}, nullptr, strategies.initial_choices());
         }});
    // The ranking of rewrites prices memory at what the model's layouts had to pay for it.
    if (is_joint) out.push_back({"rewrites", [this] { rewrite(settings_); }});
    out.push_back({"layouts of rewrites", [this] {
                     const auto most = pool_.is_large() ? limits::kLargeRewrittenStrategies
                                                        : limits::kRewrittenStrategies;
                     for (const auto& rewritten : rewrites_) {
                       search_rewritten(rewritten, settings_, most);
                     }
                     before_ = get_best_rewrite();
                   }});
    out.push_back({"settings of rewrites", [&] { strategies.change_rewritten_setting(); }, true});
    if (is_joint) {
      out.push_back({"matmuls that begin earlier",
                     [&] { split_matmuls(strategies.list_best_settings(true)); }});
      out.push_back({"random walk", [this] { run_random_walk(); }});
    }
    out.push_back({"embedding tables and branches",
                   [this] {
                     place_tables_and_branches({get_best_rewrite(), before_, for_one_device_});
                   },
                   true});
    if (is_joint) {
      out.push_back({"rewrites beside these tables", [&] { retry_rewrites(strategies); }});
    }
    out.push_back({"storage of weights", [this] { vary_weight_storage(); }, true});
    return out;
  }

  [[nodiscard]] std::shared_ptr<const Rewritten> get_best_rewrite() const {
    const auto& best = pool_.best_candidate();
    return best ? best->rewritten : nullptr;
  }

  // Places tables and branches in the best plans of each rewrite. The best rewrite alone is not
  // enough: starting matmuls earlier pays less once tables take less time.
  void place_tables_and_branches(const std::vector<std::shared_ptr<const Rewritten>>& rewrites) {
    if (options_.finder.by == Finder::By::kWalk) return;
    std::vector<std::vector<Candidate>> from;
    for (const auto& rewritten : rewrites) {
      auto leaders = pool_.list_leaders(rewritten);
      const auto is_it = [&](const auto& some) { return some[0].rewritten == rewritten; };
      if (!leaders.empty() && std::ranges::none_of(from, is_it)) from.push_back(std::move(leaders));
    }
    for (const auto& plans : from) search::place_tables(pool_, plans);
    for (const auto& plans : from) (void)place_branches(pool_, plans);
  }

  void record_lower_bound(const StrategySearch& strategies) {
    if (!pool_.result().best) return;
    std::vector<Bound> bounds;
    const auto of_grid = strategies.compute_grid_bound();
    const auto of_layouts = layouts_.compute_bound(compute_useful_bound(of_grid));
    if (const auto bound = of_layouts) {
      for (const auto& e : pool_.simulated()) {
        if (options_.dims == Dims{} && is_covered_by_layout_bound(*e.setting)) {
          check_bound(e.time(), *bound, e.name);
        }
      }
      // Otherwise the plan is outside the bound's scope. The bound then says nothing of how near
      // the plan is to the best.
      if (*bound <= pool_.result().fastest) {
        bounds.push_back({*bound, "these rewrites and layouts"});
      }
    }
    if (of_grid) {
      const auto& best = pool_.best_candidate();
      bounds.push_back(
          {.time = *of_grid,
           .scope = "strategies of the grid that fit",
           .has_plan = best && best->setting && !best->is_in_part && !best->rewritten});
      if (of_layouts && *of_layouts >= *of_grid) {
        bounds.back().scope += ", these rewrites and layouts";
      }
    }
    search::record_largest_bound(pool_, std::move(bounds));
  }

  // Returns how high a bound of layouts is useful: near the best time. The best may be a pipeline,
  // which is not in the scope of the layouts. Then it need not exceed the bound of the grid, since
  // it only widens that bound's scope.
  Seconds compute_useful_bound(std::optional<Seconds> of_grid) {
    const auto near = limits::kBoundClose * pool_.result().fastest;
    const auto& schedule = pool_.best_candidate()->schedule;
    const bool is_pass = schedule.stages == 1 && schedule.micro_batches == 1;
    return is_pass || !of_grid ? near : std::min(near, *of_grid);
  }

  // Returns whether the setting is one of the layouts that the bound of layouts covers.
  static bool is_covered_by_layout_bound(const strategies::Setting& setting) {
    using strategies::Family;
    const bool is_one_pass = setting.pp * setting.micro.value_or(1) == 1;
    const bool stores = setting.family == Family::kDp ||
                        (setting.family == Family::kMegatron && setting.zero.value_or(0) == 0);
    return is_one_pass && stores && setting.cp == 1 &&
           setting.recompute == strategies::Recompute::kNone;
  }

  // Tries other storage of weights, for the best rewrite and for the rewrite that is best on one
  // device. A plan is thus no worse than one whose graph was rewritten first.
  void vary_weight_storage() {
    if (pool_.is_large() || !pool_.result().best) return;
    vary_weight_storage(get_best_rewrite());
    if (for_one_device_) vary_weight_storage(for_one_device_);
  }
  void vary_weight_storage(const std::shared_ptr<const Rewritten>& rewritten) {
    auto plans = pool_.list_leaders(rewritten);
    plans.resize(std::min(plans.size(), limits::kStored));
    for (const auto& plan : plans) {
      if (!pool_.is_over()) enter_storage_variants(pool_, plan);
    }
  }

  // Ranks rewrites and keeps the best, including the one that is best on one device. A plan is thus
  // no worse than one whose graph was rewritten first and then laid out.
  void rewrite(const std::vector<strategies::Setting>& settings) {
    if (pool_.is_over()) return;
    RankingOptions ranking;
    for (const auto& setting : settings) {
      if (setting.pp == 1 && ranking.initial_settings.size() < limits::kRankedUnder)
        ranking.initial_settings.push_back(setting);
    }
    remove_equal_layouts(ranking.initial_settings);
    ranking.max_graphs = pool_.is_large() ? 1 : 2;
    ranking.per_byte = layouts_.memory_price();
    add_rewrites(ranking);
    if (!pool_.is_large()) for_one_device_ = add_rewrites({.max_graphs = 1, .one_device = true});
  }

  // Removes settings that differ from others only in the storage of weights.
  void remove_equal_layouts(std::vector<strategies::Setting>& settings) const {
    const strategies::Problem problem(pool_.model(), pool_.digits());
    std::set<std::vector<machine::NodeLayout>> seen;
    std::erase_if(settings, [&](const auto& setting) {
      const auto made = make_pass(setting, problem);
      const auto* choices = std::get_if<strategies::Choices>(&made);
      if (choices == nullptr) return true;
      return !seen.insert(get_node_layouts(*choices)).second;
    });
  }

  // Returns the best of the ranked rewrites; null if that is the model itself.
  std::shared_ptr<const Rewritten> add_rewrites(const RankingOptions& options) {
    const auto ranked = rank_rewrites(pool_, options);
    pool_.result().rewrites += ranked.ranked;
    for (const auto& made : ranked.best) {
      if (!is_known(*made)) rewrites_.push_back(made);
    }
    return ranked.best.empty() ? nullptr : ranked.best[0];
  }

  [[nodiscard]] bool is_known(const Rewritten& made) const {
    const auto is_it = [hash = made.graph.identity_hash()](const auto& other) {
      return other->graph.identity_hash() == hash;
    };
    return std::ranges::any_of(rewrites_, is_it) || std::ranges::any_of(matmul_splits_, is_it);
  }

  // Splits matmuls so that they begin before all of their operands have arrived, if devices are
  // stalled and as long as that pays. Splitting goes on only while it gains enough. There are many
  // splits of splits, and small gains are lost once tables are placed otherwise.
  void split_matmuls(const std::vector<strategies::Setting>& settings) {
    while (!pool_.is_large() && !pool_.is_over()) {
      const auto& best = pool_.result().best;
      if (!best || best->simulation.exposed_comm < limits::kWaits * best->simulation.iteration)
        return;
      const auto before = best->simulation.iteration;
      const bool will_change = has_tables_to_place(pool_, pool_.best_candidate().value());
      for (const auto& made : list_matmul_splits(pool_.model(), best->rewritten)) {
        if (is_known(*made)) continue;
        search_rewritten(made, settings, 1);
        matmul_splits_.push_back(made);
      }
      const auto enough = (will_change ? 1 - limits::kWaits : 1) * before;
      if (pool_.result().best->simulation.iteration >= enough) return;
    }
  }

  // Tries rewrites again that lost while tables were sharded, and the model itself. Their gain
  // depends on when the rows of tables arrive; so does, for example, the best number of matmuls to
  // split a layer into.
  void retry_rewrites(StrategySearch& strategies) {
    const auto& best = pool_.best_candidate();
    if (!best || best->name != kSideBySide) return;
    auto others = rewrites_;
    others.push_back(nullptr);
    others.insert(others.end(), matmul_splits_.begin(), matmul_splits_.end());
    for (const auto& made : others) {
      if (made != pool_.best_candidate()->rewritten) {
        auto plans = pool_.list_leaders(made);
        plans.resize(std::min(plans.size(), limits::kBesides));
        place_tables_like(pool_, plans, *pool_.best_candidate());
      }
    }
    lay_out_nearest(std::move(others), strategies.list_best_settings(true));
  }

  // Lays out the rewrites that came nearest to the best under more strategies. They were laid out
  // under one strategy while their tables were sharded. With the present placement of tables
  // another strategy may be faster.
  void lay_out_nearest(std::vector<std::shared_ptr<const Rewritten>> rewrites,
                       const std::vector<strategies::Setting>& settings) {
    const auto seconds = [&](const auto& made) {
      return pool_.find_fastest_time(made).value_or(
          Seconds{std::numeric_limits<double>::infinity()});
    };
    const auto nearest = limits::kNearBest * pool_.result().best->simulation.iteration;
    std::erase_if(rewrites, [&](const auto& made) { return !made || seconds(made) > nearest; });
    std::ranges::stable_sort(rewrites, {}, seconds);
    rewrites.resize(std::min(rewrites.size(), limits::kNearest));
    for (const auto& made : rewrites) {
      const strategies::Problem problem(made->graph, pool_.digits());
      enter_rewritten_strategies(pool_, problem, made, settings, limits::kOfNearest);
      const auto plans = pool_.list_leaders(made);
      place_tables_like(pool_, plans, plans[0]);
    }
  }

  // Returns whether the best plan has stalled devices, and its network is simulated quickly.
  [[nodiscard]] bool has_stalled_devices() {
    if (pool_.is_large() || pool_.is_over() || !pool_.has_equal_devices()) return false;
    const auto& best = pool_.result().best;
    return best && best->simulation.exposed_comm >= limits::kWaits * best->simulation.iteration;
  }

  // Runs a random walk if devices are stalled. The cost tables do not model overlap. A walk may
  // therefore find layouts that are faster in the simulation than the cheapest ones. A plan is thus
  // no worse than those of TASO and FlexFlow.
  void run_random_walk() {
    const bool is_random = options_.finder.by == Finder::By::kWalk;
    if (is_random || !has_stalled_devices()) return;
    auto candidates = walk_layouts(pool_, for_one_device_, {});
    for (auto& candidate : candidates) candidate.name = "search:walk";
    pool_.enter_without_records(candidates);
  }

  // Lays out a rewrite under the strategies that were best for the model, and in layouts of its
  // own.
  void search_rewritten(const std::shared_ptr<const Rewritten>& rewritten,
                        const std::vector<strategies::Setting>& settings, std::size_t most) {
    if (pool_.is_over()) return;
    const strategies::Problem problem(rewritten->graph, pool_.digits());
    std::vector<std::vector<plan::Choice>> seeds;
    for (auto& candidate : enter_rewritten_strategies(pool_, problem, rewritten, settings, most)) {
      if (candidate.schedule.micro_batches == 1 && candidate.schedule.stages == 1) {
        seeds.push_back(std::move(candidate.choices));
      }
    }
    layouts_.search(problem, rewritten, seeds);
  }

  const Options& options_;
  CandidatePool pool_;
  LayoutSearch layouts_;
  std::vector<strategies::Setting> settings_;  // best strategies of the model, in order
  std::shared_ptr<const Rewritten> before_;    // best rewrite before matmuls were split
  std::vector<std::shared_ptr<const Rewritten>> rewrites_;
  std::shared_ptr<const Rewritten> for_one_device_;
  std::vector<std::shared_ptr<const Rewritten>> matmul_splits_;  // rewrites with split matmuls
};

}  // namespace

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options) {
  return PlanSearch(model, machine, options).run();
}

}  // namespace tandem::search
