#include "unity/unity.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "search/bounds.h"
#include "search/pool.h"
#include "search/strategy_search.h"
#include "strategies/pipeline.h"
#include "strategies/weight_sharding.h"
#include "unity/pipelines.h"
#include "unity/splitting.h"
#include "unity/to_plan.h"

namespace tandem::unity {

namespace {

class UnitySearch {
 public:
  UnitySearch(const graph::Graph& model, const machine::Machine& machine,
              const search::Options& search, const UnityOptions& options)
      : options_(options), pool_(model, machine, search) {}

  search::Result run() {
    search::StrategySearch baselines(pool_, true);
    baselines.cost_baselines();
    initial_layouts_ = make_initial_layouts(baselines.initial_choices(), pool_.digits());
    const auto ways = this->choose_pipelines();
    for (std::size_t w = 0; w < ways.size(); ++w) {
      share_remaining_budget(ways.size() - w);
      search_pipeline(ways[w]);
    }
    pool_.choose_best();
    record_best();
    auto& out = pool_.result();
    out.rewrites = candidates_;
    if (out.stop_reason == search::StopReason::kDone) out.stop_reason = why_;
    search::record_largest_bound(pool_, {});
    out.search_s = std::chrono::duration<double>(Clock::now() - begin_).count();
    return std::move(out);
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] std::vector<UnityPipeline> choose_pipelines() const {
    const bool delayed = pool_.options().semantics == plan::Semantics::kDelayed1;
    std::vector<UnityPipeline> out;
    if (!delayed) out.emplace_back();
    if (options_.pipelines) std::ranges::copy(list_pipelines(pool_), std::back_inserter(out));
    return out;
  }

  // Gives the next way an equal share of the remaining time and candidates. `ways` is
  // the number of remaining ways.
  void share_remaining_budget(std::size_t ways) {
    const auto& seconds = pool_.options().until.seconds;
    if (seconds) {
      const auto left = std::chrono::duration<double>(*seconds) - (Clock::now() - begin_);
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(left / ways);
    }
    if (options_.candidates) most_ = candidates_ + (*options_.candidates - candidates_) / ways;
  }

  void search_pipeline(const UnityPipeline& way) {
    const auto& model = pool_.model();
    std::optional<graph::Graph> part;  // a micro-batch
    if (way.micro_batches > 1) {
      const auto& network = *pool_.options().network;
      part = network.model->build(network.batch / way.micro_batches, network.dtype);
      if (part->size() != model.size()) return;
    }
    const auto ranks = *strategies::find_rank_digits(pool_.digits(), way.stages);
    Placements placements(pool_.digits(), pool_.costs(), {ranks, way.micro_batches});
    Substitutions substitutions(placements, {.caches = options_.caches,
                                             .programs = options_.programs,
                                             .is_over = [this] { return is_over(); }});
    const auto& graph = part ? *part : model;
    const auto seeds = way.stages > 1 ? make_initial_stage_layouts(pool_, ranks) : initial_layouts_;
    for (std::size_t s = 0; s < std::min(kFollowed, seeds.size()); ++s) {
      follow_initial_layouts(way, graph, seeds[s], substitutions);
    }
    auto how = this->make_substitution();
    how.initial_layouts = seeds;
    finish(way, solve(graph, how, substitutions), substitutions);
  }

  // Costs a strategy by itself, then searches near it. Additive costs ignore overlap, so
  // simulations decide between these results and the best of all.
  void follow_initial_layouts(const UnityPipeline& way, const graph::Graph& graph,
                              const InitialLayouts& seed, Substitutions& substitutions) {
    if (!substitutions.can_reach(graph, seed)) return;
    const auto& model = pool_.model();
    cost(way, {.choices = make_choices(model, seed, pool_.digits()),
               .rewritten = nullptr,
               .node_seconds = {},
               .seconds = 0});
    if (is_over()) return;
    auto how = this->make_substitution();
    how.initial_layouts = {&seed, 1};
    how.only_initial_layouts = true;
    finish(way, solve(graph, how, substitutions), substitutions);
  }

  void finish(const UnityPipeline& way, const std::vector<PieceSolution>& pieces,
              Substitutions& substitutions) {
    const auto made = to_plan(pool_.model(), pieces, substitutions);
    if (substitutions.mapping().is_cut() && why_ == search::StopReason::kDone)
      why_ = search::StopReason::kBeam;
    // Also after the time is over: this is the best result so far.
    if (made) cost(way, *made);
  }

  Substitution make_substitution() {
    return {.alpha = options_.alpha,
            .candidates = options_.piece_candidates,
            .patience = options_.patience,
            .is_over = [this] { return is_over(); },
            .costed = [this] { count_candidate(); }};
  }

  std::vector<PieceSolution> solve(const graph::Graph& model, const Substitution& how,
                                   Substitutions& substitutions) {
    if (options_.splits) {
      auto split = solve_in_pieces(model, options_.least_nodes, how, substitutions);
      if (!split.is_complete && why_ == search::StopReason::kDone)
        why_ = search::StopReason::kRewrites;
      return std::move(split.pieces);
    }
    PieceSolution whole{
        {.graph = model,
         .initial_layouts = {how.initial_layouts.begin(), how.initial_layouts.end()}},
        {},
        {}};
    for (auto id : model.ids()) whole.model_node.push_back(id);
    const auto found = substitutions.find_best(whole.piece, how);
    if (!found.is_complete && why_ == search::StopReason::kDone)
      why_ = search::StopReason::kRewrites;
    whole.steps = found.steps;
    return {std::move(whole)};
  }

  void cost(const UnityPipeline& way, const UnityPlan& made) {
    if (way.stages > 1) {
      for (const auto& candidate : make_candidates(way, made, pool_)) cost(candidate);
      return;
    }
    plan::Schedule schedule;
    schedule.precision = pool_.options().precision;
    search::Candidate candidate{.name = kName,
                                .choices = made.choices,
                                .schedule = schedule,
                                .may_win = true,
                                .rewritten = made.rewritten};
    cost(candidate);
    shard_weights(candidate);
    if (candidate.choices != made.choices) cost(candidate);
  }

  // Shards weights between their uses, except for embedding tables. Unity's costs do not cover
  // this. It is a choice outside its space that simulations decide, like the number of
  // micro-batches.
  void shard_weights(search::Candidate& candidate) const {
    const auto& graph = candidate.rewritten ? candidate.rewritten->graph : pool_.model();
    const auto& digits = pool_.digits();
    const auto consumers = graph.consumers();
    for (auto id : graph.ids()) {
      const auto& node = graph.node(id);
      const auto& users = consumers[id.index()];
      if (!is_weight(node) || !is_trained(node) || users.size() != 1) continue;
      const auto table = graph.node(users[0]).op.spec().row_sparse_operand;
      if (table && graph.inputs(users[0])[*table] == id) continue;
      auto& source = candidate.choices[id.index()].source;
      source = strategies::shard_weight(source, node.type.shape.sizes, digits.all(), digits);
    }
  }

  void cost(const search::Candidate& candidate) {
    const auto& graph = candidate.rewritten ? candidate.rewritten->graph : pool_.model();
    auto costed =
        search::cost_choices(graph, pool_.machine(), candidate.name, candidate.choices,
                             candidate.schedule, pool_.options().optimizer, pool_.result().limits);
    costed.rewritten = candidate.rewritten;
    ++pool_.result().candidates;
    if (!found_ || search::is_better(costed, *found_)) found_ = std::move(costed);
  }

  void record_best() {
    if (!found_) return;
    auto& result = pool_.result();
    if (found_->feasible && (!result.best || search::is_better(*found_, *result.best))) {
      result.runner_up = std::exchange(result.best, std::move(found_));
      result.fastest = result.best->simulation.iteration;
      return;
    }
    // The result is shown next to the baseline that the plan falls back on.
    found_->family = "unity";
    result.baselines.push_back(*std::move(found_));
  }

  void count_candidate() {
    ++candidates_;
    if (candidates_ % 256 == 0) pool_.report_progress(candidates_);
  }

  bool is_over() {
    const bool are_enough = most_ && candidates_ >= *most_;
    const bool is_late = deadline_ && Clock::now() > *deadline_;
    if (are_enough) why_ = search::StopReason::kCandidates;
    if (is_late) why_ = search::StopReason::kBudget;
    return are_enough || is_late || pool_.is_over();
  }

  // Number of strategies that are followed separately: the fastest ones.
  static constexpr std::size_t kFollowed = 3;
  static constexpr const char* kName = "search:unity";

  const UnityOptions& options_;
  search::CandidatePool pool_;
  Clock::time_point begin_ = Clock::now();
  std::optional<Clock::time_point> deadline_;  // of the current way
  std::optional<std::size_t> most_;            // limit of candidates_ for the current way
  std::size_t candidates_ = 0;
  std::vector<InitialLayouts> initial_layouts_;  // known strategies, the fastest first
  std::optional<search::Evaluated> found_;       // the best that is not a baseline
  search::StopReason why_ = search::StopReason::kDone;
};

}  // namespace

search::Result search(const graph::Graph& model, const machine::Machine& machine,
                      const search::Options& search, const UnityOptions& options) {
  return UnitySearch(model, machine, search, options).run();
}

}  // namespace tandem::unity
