#include "unity/unity.h"

#include <chrono>
#include <utility>

#include "search/contest.h"
#include "search/strategy_search.h"
#include "unity/splitting.h"
#include "unity/to_plan.h"

namespace tandem::unity {

namespace {

class Search {
 public:
  Search(const graph::Graph& model, const machine::Machine& machine, const search::Options& search,
         const Options& options)
      : options_(options),
        contest_(model, machine, search),
        placements_(contest_.digits(), contest_.costs()),
        substitutions_(contest_.digits(), placements_,
                       {.caches = options.caches, .programs = options.programs, .is_over = [this] {
                          return is_over();
                        }}) {}

  search::Result run() {
    const auto start = std::chrono::steady_clock::now();
    search::StrategySearch baselines(contest_, true);
    baselines.cost_baselines();
    enter(solve());
    auto& out = contest_.result();
    out.rewritings = candidates_;
    if (out.stop_reason == "done") out.stop_reason = why_;
    out.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(out);
  }

 private:
  std::vector<SolvedPiece> solve() {
    const Substitution how{.alpha = contest_.options().alpha,
                           .candidates = options_.piece_candidates,
                           .patience = options_.patience,
                           .is_over = [this] { return is_over(); },
                           .costed = [this] { count(); }};
    if (options_.splits) {
      auto split = solve_in_pieces(contest_.model(), options_.least_nodes, how, substitutions_);
      if (!split.is_complete && why_ == "done") why_ = "rewritings";
      return std::move(split.pieces);
    }
    SolvedPiece whole{{contest_.model()}, {}, {}};
    for (auto id : contest_.model().ids()) whole.model_node.push_back(id);
    const auto found = substitutions_.best_of(whole.piece, how);
    if (!found.is_complete && why_ == "done") why_ = "rewritings";
    whole.steps = found.steps;
    return {std::move(whole)};
  }

  void enter(const std::vector<SolvedPiece>& pieces) {
    const auto made = to_plan(contest_.model(), pieces, substitutions_);
    if (substitutions_.mapping().is_cut() && why_ == "done") why_ = "beam";
    if (!made) return;
    // Also when the time is over: then it is the best there is by then.
    auto costed = cost(*made);
    auto& result = contest_.result();
    ++result.candidates;
    if (costed.feasible && (!result.best || search::is_better(costed, *result.best))) {
      result.runner_up = std::exchange(result.best, std::move(costed));
      return;
    }
    // What was found is shown beside what it falls back on.
    costed.family = "unity";
    result.baselines.push_back(std::move(costed));
  }

  search::Costed cost(const Made& made) {
    const auto& how = contest_.options();
    plan::Schedule schedule;
    schedule.precision = how.precision;
    const auto& graph = made.rewritten ? made.rewritten->graph : contest_.model();
    auto out = search::cost_choices(graph, contest_.machine(), kName, made.choices, schedule,
                                    how.optimizer, contest_.result().limits);
    out.rewritten = made.rewritten;
    return out;
  }

  void count() {
    ++candidates_;
    if (candidates_ % 256 == 0) contest_.report_progress(candidates_);
  }

  bool is_over() {
    if (options_.candidates && candidates_ >= *options_.candidates) why_ = "candidates";
    return why_ == "candidates" || contest_.is_over();
  }

  static constexpr const char* kName = "search:unity";

  const Options& options_;
  search::Contest contest_;
  Placements placements_;
  Substitutions substitutions_;
  std::size_t candidates_ = 0;
  std::string why_ = "done";
};

}  // namespace

search::Result search(const graph::Graph& model, const machine::Machine& machine,
                      const search::Options& search, const Options& options) {
  return Search(model, machine, search, options).run();
}

}  // namespace tandem::unity
