#include "unity/unity.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "search/bounds.h"
#include "search/pool.h"
#include "search/strategy_search.h"
#include "strategies/pipeline.h"
#include "strategies/storage.h"
#include "unity/pipelines.h"
#include "unity/splitting.h"
#include "unity/to_plan.h"

namespace tandem::unity {

namespace {

class Search {
 public:
  Search(const graph::Graph& model, const machine::Machine& machine, const search::Options& search,
         const Options& options)
      : options_(options), pool_(model, machine, search) {}

  search::Result run() {
    search::StrategySearch baselines(pool_, true);
    baselines.cost_baselines();
    seeds_ = seeds_of(baselines.seeds(), pool_.digits());
    const auto ways = this->ways();
    for (std::size_t w = 0; w < ways.size(); ++w) {
      share_what_is_left(ways.size() - w);
      follow(ways[w]);
    }
    pool_.choose();
    enter_found();
    auto& out = pool_.result();
    out.rewritings = candidates_;
    if (out.stop_reason == search::StopReason::kDone) out.stop_reason = why_;
    search::tell_bound(pool_, {});
    out.search_s = std::chrono::duration<double>(Clock::now() - begin_).count();
    return std::move(out);
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] std::vector<Way> ways() const {
    const bool delayed = pool_.options().semantics == plan::Semantics::kDelayed1;
    std::vector<Way> out;
    if (!delayed) out.emplace_back();
    if (options_.pipelines) std::ranges::copy(pipelines(pool_), std::back_inserter(out));
    return out;
  }

  // Gives the next way an equal share of the remaining time and candidates. `ways` is the number of
  // remaining ways.
  void share_what_is_left(std::size_t ways) {
    const auto& seconds = pool_.options().until.seconds;
    if (seconds) {
      const auto left = std::chrono::duration<double>(*seconds) - (Clock::now() - begin_);
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(left / ways);
    }
    if (options_.candidates) most_ = candidates_ + (*options_.candidates - candidates_) / ways;
  }

  void follow(const Way& way) {
    const auto& model = pool_.model();
    std::optional<graph::Graph> part;  // a micro-batch
    if (way.micro_batches > 1) {
      const auto& network = *pool_.options().network;
      part = network.model->build(network.batch / way.micro_batches, network.dtype);
      if (part->size() != model.size()) return;
    }
    const auto ranks = *strategies::rank_digits(pool_.digits(), way.stages);
    Placements placements(pool_.digits(), pool_.costs(), {ranks, way.micro_batches});
    Substitutions substitutions(placements, {.caches = options_.caches,
                                             .programs = options_.programs,
                                             .is_over = [this] { return is_over(); }});
    const auto& graph = part ? *part : model;
    const auto seeds = way.stages > 1 ? seeds_of_stages(pool_, ranks) : seeds_;
    for (std::size_t s = 0; s < std::min(kFollowed, seeds.size()); ++s) {
      follow_seed(way, graph, seeds[s], substitutions);
    }
    auto how = this->how();
    how.seeds = seeds;
    finish(way, solve(graph, how, substitutions), substitutions);
  }

  // Costs a strategy by itself, then searches near it. Additive costs ignore overlap, so
  // simulations decide between these results and the best of all.
  void follow_seed(const Way& way, const graph::Graph& graph, const Seed& seed,
                   Substitutions& substitutions) {
    if (!substitutions.is_reached(graph, seed)) return;
    const auto& model = pool_.model();
    cost(way, {.choices = choices_of(model, seed, pool_.digits()),
               .rewritten = nullptr,
               .node_seconds = {},
               .seconds = 0});
    if (is_over()) return;
    auto how = this->how();
    how.seeds = {&seed, 1};
    how.follows_seed = true;
    finish(way, solve(graph, how, substitutions), substitutions);
  }

  void finish(const Way& way, const std::vector<SolvedPiece>& pieces,
              Substitutions& substitutions) {
    const auto made = to_plan(pool_.model(), pieces, substitutions);
    if (substitutions.mapping().is_cut() && why_ == search::StopReason::kDone)
      why_ = search::StopReason::kBeam;
    // Also after the time is over: this is the best result so far.
    if (made) cost(way, *made);
  }

  Substitution how() {
    return {.alpha = options_.alpha,
            .candidates = options_.piece_candidates,
            .patience = options_.patience,
            .is_over = [this] { return is_over(); },
            .costed = [this] { count(); }};
  }

  std::vector<SolvedPiece> solve(const graph::Graph& model, const Substitution& how,
                                 Substitutions& substitutions) {
    if (options_.splits) {
      auto split = solve_in_pieces(model, options_.least_nodes, how, substitutions);
      if (!split.is_complete && why_ == search::StopReason::kDone)
        why_ = search::StopReason::kRewrites;
      return std::move(split.pieces);
    }
    SolvedPiece whole{{.graph = model, .seeds = {how.seeds.begin(), how.seeds.end()}}, {}, {}};
    for (auto id : model.ids()) whole.model_node.push_back(id);
    const auto found = substitutions.best_of(whole.piece, how);
    if (!found.is_complete && why_ == search::StopReason::kDone)
      why_ = search::StopReason::kRewrites;
    whole.steps = found.steps;
    return {std::move(whole)};
  }

  void cost(const Way& way, const Made& made) {
    if (way.stages > 1) {
      for (const auto& candidate : candidates_of(way, made, pool_)) cost(candidate);
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
    store_in_parts(candidate);
    if (candidate.choices != made.choices) cost(candidate);
  }

  // Shards weights between their uses, except for embedding tables. Unity's costs do not cover
  // this. It is a choice outside its space that simulations decide, like the number of
  // micro-batches.
  void store_in_parts(search::Candidate& candidate) const {
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
      source = strategies::stored_in_parts(source, node.type.shape.sizes, digits.all(), digits);
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

  void enter_found() {
    if (!found_) return;
    auto& result = pool_.result();
    if (found_->feasible && (!result.best || search::is_better(*found_, *result.best))) {
      result.runner_up = std::exchange(result.best, std::move(found_));
      result.fastest = result.best->simulation.iteration;
      return;
    }
    // The result is shown beside the baseline that the plan falls back on.
    found_->family = "unity";
    result.baselines.push_back(*std::move(found_));
  }

  void count() {
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

  const Options& options_;
  search::CandidatePool pool_;
  Clock::time_point begin_ = Clock::now();
  std::optional<Clock::time_point> deadline_;  // of the current way
  std::optional<std::size_t> most_;            // limit of candidates_ for the current way
  std::size_t candidates_ = 0;
  std::vector<Seed> seeds_;                 // known strategies, the fastest first
  std::optional<search::Evaluated> found_;  // the best that is not a baseline
  search::StopReason why_ = search::StopReason::kDone;
};

}  // namespace

search::Result search(const graph::Graph& model, const machine::Machine& machine,
                      const search::Options& search, const Options& options) {
  return Search(model, machine, search, options).run();
}

}  // namespace tandem::unity
