#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "search/bounds.h"
#include "search/improve.h"
#include "search/limits.h"
#include "search/neighbours/branches.h"
#include "search/neighbours/earlier.h"
#include "search/neighbours/layout_search.h"
#include "search/neighbours/rewritings.h"
#include "search/neighbours/side_by_side.h"
#include "search/neighbours/storage.h"
#include "search/neighbours/taso_flexflow.h"
#include "search/pool.h"
#include "search/strategy_search.h"

namespace tandem::search {

namespace {

class Search {
 public:
  Search(const graph::Graph& model, const machine::Machine& machine, const Options& options)
      : options_(options), pool_(model, machine, options), layouts_(pool_) {}

  Result run() {
    const auto start = std::chrono::steady_clock::now();
    const bool may_fit = pool_.may_fit();
    if (may_fit && options_.algebra == Algebra::kSequential) {
      add_rewritings({.keep = 1, .one_device = true});
    }
    // If the model was rewritten first, the original model cannot win.
    const bool model_may_win = rewritings_.empty();
    StrategySearch strategies(pool_, model_may_win);
    const bool asks_what_fits =
        !may_fit || options_.until.first_fit || strategies.are_far_too_large();
    if (!asks_what_fits || !strategies.cost_smallest()) {
      strategies.cost_baselines();
      strategies.cost_grid();
      improve(pool_, neighbourhoods(strategies, may_fit, model_may_win));
    }
    strategies.try_simpler();
    pool_.choose();
    tell_bound(strategies);
    auto& out = pool_.result();
    out.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(out);
  }

 private:
  // Lists the neighbourhoods of the best strategies, in order from settings to layouts to the
  // graph.
  std::vector<Neighbourhood> neighbourhoods(StrategySearch& strategies, bool may_fit,
                                            bool model_may_win) {
    std::vector<Neighbourhood> out;
    if (options_.semantics != plan::Semantics::kSynchronous || !may_fit) return out;
    if (model_may_win) {
      out.push_back({"settings by rank", [&] { strategies.mix_by_rank(); }});
      out.push_back({"layouts inside stages", [&] { strategies.lay_out_steps(); }});
    }
    if (!options_.layouts) return out;
    const bool is_joint = options_.algebra == Algebra::kJoint;
    out.push_back({"layouts by operator", [this, &strategies, model_may_win] {
                     settings_ = strategies.best();
                     if (!model_may_win) return;
                     layouts_.search({pool_.model(), pool_.digits()}, nullptr, strategies.seeds());
                   }});
    // The ranking of rewrites prices memory at what the model's layouts had to pay for it.
    if (is_joint) out.push_back({"rewrites", [this] { rewrite(settings_); }});
    out.push_back({"layouts of rewrites", [this] {
                     const auto most = pool_.is_large() ? limits::kLargeRewrittenStrategies
                                                        : limits::kRewrittenStrategies;
                     for (const auto& rewritten : rewritings_) {
                       search_rewritten(rewritten, settings_, most);
                     }
                     before_ = rewriting_of_the_best();
                   }});
    if (is_joint) {
      out.push_back({"matmuls that begin earlier", [&] { begin_earlier(strategies.best(true)); }});
      out.push_back({"random walk", [this] { walk(); }});
    }
    out.push_back({"embedding tables and branches",
                   [this] {
                     place_side_by_side({rewriting_of_the_best(), before_, for_one_device_});
                   },
                   true});
    if (is_joint) {
      out.push_back({"rewrites beside these tables", [&] { rewrite_side_by_side(strategies); }});
    }
    out.push_back({"storage of weights", [this] { store_weights_otherwise(); }, true});
    return out;
  }

  [[nodiscard]] std::shared_ptr<const Rewritten> rewriting_of_the_best() const {
    const auto& best = pool_.best_candidate();
    return best ? best->rewritten : nullptr;
  }

  // Places tables and branches in the best plans of each rewrite. The best rewrite alone is not
  // enough: starting matmuls earlier pays less once tables take less time.
  void place_side_by_side(const std::vector<std::shared_ptr<const Rewritten>>& rewritings) {
    if (options_.finder.by == Finder::By::kWalk) return;
    std::vector<std::vector<Candidate>> from;
    for (const auto& rewritten : rewritings) {
      auto leaders = pool_.leaders(rewritten);
      const auto is_it = [&](const auto& some) { return some[0].rewritten == rewritten; };
      if (!leaders.empty() && std::ranges::none_of(from, is_it)) from.push_back(std::move(leaders));
    }
    for (const auto& plans : from) search::place_side_by_side(pool_, plans);
    for (const auto& plans : from) (void)place_branches(pool_, plans);
  }

  void tell_bound(const StrategySearch& strategies) {
    if (!pool_.result().best) return;
    std::vector<Bound> bounds;
    const auto of_grid = strategies.bound();
    const auto of_layouts = layouts_.bound(enough(of_grid));
    if (const auto bound = of_layouts) {
      for (const auto& e : pool_.simulated()) {
        if (options_.dims == Dims{} && stores_as_used(*e.setting)) {
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
    search::tell_bound(pool_, std::move(bounds));
  }

  // Returns how high a bound of layouts is useful: near the best time. The best may be a pipeline,
  // which is not in the scope of the layouts. Then it need not exceed the bound of the grid, since
  // it only widens that bound's scope.
  Seconds enough(std::optional<Seconds> of_grid) {
    const auto near = limits::kBoundClose * pool_.result().fastest;
    const auto& schedule = pool_.best_candidate()->schedule;
    const bool is_pass = schedule.stages == 1 && schedule.micro_batches == 1;
    return is_pass || !of_grid ? near : std::min(near, *of_grid);
  }

  // Returns whether the setting is one of the layouts that the bound of layouts covers.
  static bool stores_as_used(const strategies::Setting& setting) {
    using strategies::Family;
    const bool is_one_pass = setting.pp * setting.micro.value_or(1) == 1;
    const bool stores = setting.family == Family::kDp ||
                        (setting.family == Family::kMegatron && setting.zero.value_or(0) == 0);
    return is_one_pass && stores && setting.cp == 1 && setting.recompute == "none";
  }

  // Tries other storage of weights, for the best rewrite and for the rewrite that is best on one
  // device. A plan is thus no worse than one whose graph was rewritten first.
  void store_weights_otherwise() {
    if (pool_.is_large() || !pool_.result().best) return;
    store_weights_otherwise(rewriting_of_the_best());
    if (for_one_device_) store_weights_otherwise(for_one_device_);
  }
  void store_weights_otherwise(const std::shared_ptr<const Rewritten>& rewritten) {
    auto plans = pool_.leaders(rewritten);
    plans.resize(std::min(plans.size(), limits::kStored));
    for (const auto& plan : plans) {
      if (!pool_.is_over()) store_otherwise(pool_, plan);
    }
  }

  // Ranks rewrites and keeps the best, including the one that is best on one device. A plan is thus
  // no worse than one whose graph was rewritten first and then laid out.
  void rewrite(const std::vector<strategies::Setting>& settings) {
    if (pool_.is_over()) return;
    RankingOptions ranking;
    for (const auto& setting : settings) {
      if (setting.pp == 1 && ranking.seeds.size() < limits::kRankedUnder)
        ranking.seeds.push_back(setting);
    }
    leave_out_equal_layouts(ranking.seeds);
    ranking.keep = pool_.is_large() ? 1 : 2;
    ranking.per_byte = layouts_.memory_price();
    add_rewritings(ranking);
    if (!pool_.is_large()) for_one_device_ = add_rewritings({.keep = 1, .one_device = true});
  }

  // Removes settings that differ from others only in the storage of weights.
  void leave_out_equal_layouts(std::vector<strategies::Setting>& settings) const {
    const strategies::Problem problem(pool_.model(), pool_.digits());
    std::set<std::vector<machine::NodeLayout>> seen;
    std::erase_if(settings, [&](const auto& setting) {
      const auto made = make_pass(setting, problem);
      const auto* choices = std::get_if<strategies::Choices>(&made);
      if (choices == nullptr) return true;
      return !seen.insert(node_layouts(*choices)).second;
    });
  }

  // Returns the best of the ranked rewrites; null if that is the model itself.
  std::shared_ptr<const Rewritten> add_rewritings(const RankingOptions& options) {
    const auto ranked = rank_rewritings(pool_, options);
    pool_.result().rewritings += ranked.ranked;
    for (const auto& made : ranked.best) {
      if (!is_known(*made)) rewritings_.push_back(made);
    }
    return ranked.best.empty() ? nullptr : ranked.best[0];
  }

  [[nodiscard]] bool is_known(const Rewritten& made) const {
    const auto is_it = [hash = made.graph.identity_hash()](const auto& other) {
      return other->graph.identity_hash() == hash;
    };
    return std::ranges::any_of(rewritings_, is_it) || std::ranges::any_of(begun_, is_it);
  }

  // Splits matmuls so that they begin before all of their operands have arrived, if devices are
  // stalled and as long as that pays. Splitting goes on only while it gains enough. There are many
  // splits of splits, and small gains are lost once tables are placed otherwise.
  void begin_earlier(const std::vector<strategies::Setting>& settings) {
    while (!pool_.is_large() && !pool_.is_over()) {
      const auto& best = pool_.result().best;
      if (!best || best->simulation.exposed_comm < limits::kWaits * best->simulation.iteration)
        return;
      const auto before = best->simulation.iteration;
      const bool will_change = has_tables_to_place(pool_, pool_.best_candidate().value());
      for (const auto& made : begun_earlier(pool_.model(), best->rewritten)) {
        if (is_known(*made)) continue;
        search_rewritten(made, settings, 1);
        begun_.push_back(made);
      }
      const auto enough = (will_change ? 1 - limits::kWaits : 1) * before;
      if (pool_.result().best->simulation.iteration >= enough) return;
    }
  }

  // Tries rewrites again that lost while tables were sharded, and the model itself. Their gain
  // depends on when the rows of tables arrive; so does, for example, the best number of matmuls to
  // split a layer into.
  void rewrite_side_by_side(StrategySearch& strategies) {
    const auto& best = pool_.best_candidate();
    if (!best || best->name != kSideBySide) return;
    auto others = rewritings_;
    others.push_back(nullptr);
    others.insert(others.end(), begun_.begin(), begun_.end());
    for (const auto& made : others) {
      if (made != pool_.best_candidate()->rewritten) {
        auto plans = pool_.leaders(made);
        plans.resize(std::min(plans.size(), limits::kBesides));
        place_like(pool_, plans, *pool_.best_candidate());
      }
    }
    lay_out_nearest(std::move(others), strategies.best(true));
  }

  // Lays out the rewrites that came nearest to the best under more strategies. They were laid out
  // under one strategy while their tables were sharded. With the present placement of tables
  // another strategy may be faster.
  void lay_out_nearest(std::vector<std::shared_ptr<const Rewritten>> rewritings,
                       const std::vector<strategies::Setting>& settings) {
    const auto seconds = [&](const auto& made) {
      return pool_.fastest(made).value_or(Seconds{std::numeric_limits<double>::infinity()});
    };
    const auto nearest = limits::kNearBest * pool_.result().best->simulation.iteration;
    std::erase_if(rewritings, [&](const auto& made) { return !made || seconds(made) > nearest; });
    std::ranges::stable_sort(rewritings, {}, seconds);
    rewritings.resize(std::min(rewritings.size(), limits::kNearest));
    for (const auto& made : rewritings) {
      const strategies::Problem problem(made->graph, pool_.digits());
      enter_strategies(problem, made, settings, limits::kOfNearest);
      const auto plans = pool_.leaders(made);
      place_like(pool_, plans, plans[0]);
    }
  }

  // Returns whether the best plan has stalled devices, and its network is simulated quickly.
  [[nodiscard]] bool waits() {
    if (pool_.is_large() || pool_.is_over() || !pool_.are_equal_devices()) return false;
    const auto& best = pool_.result().best;
    return best && best->simulation.exposed_comm >= limits::kWaits * best->simulation.iteration;
  }

  // Runs a random walk if devices are stalled. The cost tables do not model overlap. A walk may
  // therefore find layouts that are faster in the simulation than the cheapest ones. A plan is thus
  // no worse than those of TASO and FlexFlow.
  void walk() {
    const bool is_random = options_.finder.by == Finder::By::kWalk;
    if (is_random || !waits()) return;
    auto candidates = walked(pool_, for_one_device_, {});
    for (auto& candidate : candidates) candidate.name = "search:walk";
    pool_.compete(candidates);
  }

  // Lays out a rewrite under the strategies that were best for the model, and in layouts of its
  // own.
  void search_rewritten(const std::shared_ptr<const Rewritten>& rewritten,
                        const std::vector<strategies::Setting>& settings, std::size_t most) {
    if (pool_.is_over()) return;
    const strategies::Problem problem(rewritten->graph, pool_.digits());
    std::vector<std::vector<plan::Choice>> seeds;
    for (auto& candidate : enter_strategies(problem, rewritten, settings, most)) {
      if (candidate.schedule.micro_batches == 1 && candidate.schedule.stages == 1) {
        seeds.push_back(std::move(candidate.choices));
      }
    }
    layouts_.search(problem, rewritten, seeds);
  }

  std::vector<Candidate> enter_strategies(const strategies::Problem& problem,
                                          const std::shared_ptr<const Rewritten>& rewritten,
                                          const std::vector<strategies::Setting>& settings,
                                          std::size_t most) {
    std::vector<Candidate> candidates;
    for (const auto& setting : settings) {
      if (candidates.size() == most) break;
      auto made = make_strategy(setting, problem);
      auto* strategy = std::get_if<strategies::Strategy>(&made);
      if (strategy == nullptr || !pool_.is_within_dims(problem, strategy->choices)) continue;
      candidates.push_back(candidate_of(std::move(*strategy)));
      candidates.back().name.insert(0, "search:");
      candidates.back().rewritten = rewritten;
    }
    pool_.compete(candidates);
    return candidates;
  }

  const Options& options_;
  CandidatePool pool_;
  LayoutSearch layouts_;
  std::vector<strategies::Setting> settings_;  // best strategies of the model, in order
  std::shared_ptr<const Rewritten> before_;    // best rewrite before matmuls were split
  std::vector<std::shared_ptr<const Rewritten>> rewritings_;
  std::shared_ptr<const Rewritten> for_one_device_;
  std::vector<std::shared_ptr<const Rewritten>> begun_;  // rewrites with split matmuls
};

}  // namespace

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options) {
  return Search(model, machine, options).run();
}

}  // namespace tandem::search
