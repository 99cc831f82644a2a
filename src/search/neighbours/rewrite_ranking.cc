#include "search/neighbours/rewrite_ranking.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_set>

#include "base/error.h"
#include "predict/folded.h"
#include "rewrite/collection.h"
#include "rewrite/rule_text.h"
#include "search/limits.h"
#include "search/neighbours/rewrite_moves.h"
#include "search/space/layout_network.h"
#include "strategies/grid.h"

namespace tandem::search {

namespace {

using graph::Graph;

// Computes the cost of a graph's cheapest layouts. Similar graphs share most cost tables.
class Ranker {
 public:
  Ranker(CandidatePool& pool, const RankingOptions& options)
      : pool_(pool),
        digits_(pool.digits()),
        search_(pool.options()),
        settings_(options.initial_settings),
        costs_(pool.costs()),
        states_(is_small(digits_) ? search_.states_per_node : limits::kRankingStates),
        is_one_device_(options.one_device),
        saves_(options.saves),
        prices_{.per_byte = options.per_byte} {
    if (is_one_device_) pass_.redundant = digits_.all();
  }

  double cost(const Graph& graph) {
    if (!search_.shares_tables || priced_.size() > limits::kMostTableEntries) {
      priced_ = LayoutNetwork::Priced{prices_};
    }
    LayoutNetwork network(graph, digits_, costs_, search_.dims, states_,
                          make_initial_choices(graph), pass_, pool_.get_tables());
    if (saves_) network.allow_saving();
    return network.cost(priced_, is_one_device_ ? Finder{} : search_.finder);
  }

 private:
  std::vector<strategies::Choices> make_initial_choices(const Graph& graph) const {
    std::vector<strategies::Choices> out;
    if (settings_.empty()) return out;
    const strategies::Problem problem(graph, digits_);
    for (const auto& setting : settings_) {
      auto made = make_pass(setting, problem);
      if (auto* choices = std::get_if<strategies::Choices>(&made)) {
        out.push_back(std::move(*choices));
      }
    }
    return out;
  }

  CandidatePool& pool_;
  const machine::Digits& digits_;
  const Options& search_;
  const std::vector<strategies::Setting>& settings_;
  predict::CostModel& costs_;
  std::size_t states_;
  bool is_one_device_;
  bool saves_;
  predict::Prices prices_;
  Pass pass_;
  LayoutNetwork::Priced priced_{prices_};
};

struct VisitedGraph {
  RewriteState at;
  std::size_t parent = 0;
  Move move;
  double cost = 0;
  std::optional<std::vector<Move>> moves = {};  // set when first expanded
  std::size_t tried = 0;                        // of these moves
};

// A queue entry: the cheapest first, then the oldest.
struct QueuedVisit {
  double cost = 0;
  std::size_t visit = 0;
  auto operator<=>(const QueuedVisit&) const = default;
};

class BestFirst {
 public:
  BestFirst(const Graph& first, rewrite::RuleSet& rules, rewrite::Dictionary& dictionary,
            Ranker& ranker, CandidatePool& pool)
      : first_(first),
        dictionary_(dictionary),
        ranker_(ranker),
        pool_(pool),
        search_(pool.options()) {
    RewriteState at(first, rules, dictionary);
    seen_.insert(at.draft().hash());
    const auto cost = ranker.cost(first);
    visits_.push_back({std::move(at), 0, {}, cost});
    queue_.push({cost, 0});
    best_ = cost;
  }

  void run() {
    while (!queue_.empty()) {
      const auto [cost, visit] = queue_.top();
      queue_.pop();
      if (cost > search_.alpha * best_) continue;
      if (!visits_[visit].moves) visits_[visit].moves = order_moves(visits_[visit].at);
      if (!try_moves(visit)) return;
    }
    is_complete_ = true;
  }

  [[nodiscard]] std::size_t ranked() const { return ranked_; }
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  [[nodiscard]] double least() const { return best_; }

  // Returns the moves to graphs that are cheaper than the first graph, cheapest first.
  [[nodiscard]] std::vector<std::vector<Move>> list_best_moves(std::size_t most) const {
    std::vector<std::size_t> order;
    for (std::size_t v = 1; v < visits_.size(); ++v) {
      if (visits_[v].cost < (1 - limits::kSameCost) * visits_[0].cost) order.push_back(v);
    }
    std::ranges::stable_sort(order, {}, [&](std::size_t v) { return visits_[v].cost; });
    std::vector<std::vector<Move>> out;
    std::vector<double> costs;
    for (auto v : order) {
      if (out.size() == most) break;
      // Graphs of equal cost differ in ways that do not matter.
      if (!costs.empty() && visits_[v].cost < (1 + limits::kSameCost) * costs.back()) continue;
      costs.push_back(visits_[v].cost);
      auto moves = drop_useless_moves(trace_moves(v), visits_[v].cost);
      // The list may be empty, because some layouts were dropped without being costed.
      if (!moves.empty()) out.push_back(std::move(moves));
    }
    return out;
  }

 private:
  // Tries the moves of a visited graph. Returns false when the search is over. After a move that
  // pays, the search continues with its result and tries the remaining moves later. For the first
  // graph it tries all moves.
  bool try_moves(std::size_t visit) {
    const auto cost = visits_[visit].cost;
    while (visits_[visit].tried < visits_[visit].moves->size()) {
      if (is_over()) return false;
      auto move = (*visits_[visit].moves)[visits_[visit].tried++];
      const auto after = add(visit, move);
      if (after && *after < (1 - limits::kSameCost) * cost) {
        if (visit == 0) continue;
        queue_.push({cost, visit});
        return true;
      }
      if (!search_.folds) continue;
      // A move that does not pay everywhere may pay at every other place: for example, of two
      // layers the one that is column-parallel.
      for (const auto which : {Move::Which::kEven, Move::Which::kOdd}) {
        move.which = which;
        if (is_over()) return false;
        add(visit, move);
      }
    }
    has_tried_single_ = has_tried_single_ || visit == 0;
    return true;
  }

  // Returns the moves, first those of rules that have paid: they often pay at other places, too.
  [[nodiscard]] std::vector<Move> order_moves(const RewriteState& at) const {
    auto out = search_.folds ? at.list_moves() : at.list_single_moves();
    std::stable_partition(out.begin(), out.end(),
                          [&](const Move& m) { return paid_.contains(m.rule); });
    return out;
  }

  bool is_over() {
    const bool is_stuck =
        ranked_ >= std::max(limits::kLeastRanked, best_at_ + best_at_ / 2) && has_tried_single_;
    return ranked_ >= search_.max_rewrites || is_stuck || pool_.is_over();
  }

  // Returns the cost after the move, or nullopt if the graph was seen before.
  std::optional<double> add(std::size_t from, const Move& move) {
    auto next = visits_[from].at.apply(move);
    if (!next || !seen_.insert(next->draft().hash()).second) return std::nullopt;
    ++ranked_;
    pool_.report_progress(ranked_);
    const auto cost = compute_cost(*next);
    if (cost < (1 - limits::kSameCost) * visits_[from].cost) paid_.insert(move.rule);
    if (cost > search_.alpha * best_) return cost;
    if (cost < (1 - limits::kRewriteGain) * best_) best_at_ = ranked_;
    best_ = std::min(best_, cost);
    queue_.push({cost, visits_.size()});
    visits_.push_back({std::move(*next), from, move, cost});
    return cost;
  }

  double compute_cost(const RewriteState& at) const {
    return ranker_.cost(at.draft().to_graph(first_, dictionary_));
  }

  // Returns the moves without those that gain nothing.
  [[nodiscard]] std::vector<Move> drop_useless_moves(std::vector<Move> moves, double cost) const {
    for (std::size_t i = moves.size(); i-- > 0;) {
      auto fewer = moves;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      auto at = visits_[0].at;
      bool possible = true;
      for (const auto& move : fewer) {
        auto next = at.apply(move);
        possible = possible && next.has_value();
        if (next) at = std::move(*next);
      }
      if (possible && compute_cost(at) < (1 + kRounding) * cost) moves = std::move(fewer);
    }
    return moves;
  }

  [[nodiscard]] std::vector<Move> trace_moves(std::size_t visit) const {
    std::vector<Move> out;
    for (auto v = visit; v != 0; v = visits_[v].parent) out.push_back(visits_[v].move);
    std::ranges::reverse(out);
    return out;
  }

  // Relative rounding error of costs that are summed in another order.
  static constexpr double kRounding = 1e-9;

  const Graph& first_;
  const rewrite::Dictionary& dictionary_;
  Ranker& ranker_;
  CandidatePool& pool_;
  const Options& search_;
  std::vector<VisitedGraph> visits_;
  std::unordered_set<Hash> seen_;
  std::unordered_set<std::uint32_t> paid_;  // rules that have lowered the cost
  std::priority_queue<QueuedVisit, std::vector<QueuedVisit>, std::greater<>> queue_;
  double best_ = 0;
  std::size_t best_at_ = 0;  // value of ranked_ when best_ improved
  std::size_t ranked_ = 1;
  bool has_tried_single_ = false;  // whether all moves of the first graph were tried
  bool is_complete_ = false;
};

// Returns the model after the moves, or null if one of them does not apply.
std::shared_ptr<const Rewritten> apply_moves(const std::vector<Move>& moves, const Graph& model,
                                             const rewrite::RuleSet& rules,
                                             rewrite::Dictionary& dictionary) {
  auto out = std::make_shared<Rewritten>();
  RewriteState at(model, rules, dictionary);
  for (const auto& move : moves) {
    auto next = at.apply(move, &out->derivation);
    if (!next) return nullptr;
    at = std::move(*next);
    const auto text = to_text(rules.rules()[move.rule]);
    if (std::ranges::find(out->rules, text) == out->rules.end()) out->rules.push_back(text);
  }
  out->graph = at.draft().to_graph(model, dictionary);
  return out;
}

}  // namespace

std::vector<rewrite::Rule> list_algebraic_rules() {
  const auto is_parallel = [](const rewrite::Side& side) {
    return std::ranges::any_of(side.nodes, [](const rewrite::PatternNode& node) {
      return !node.is_variable() && node.spec->role != ops::Role::kCompute &&
             node.spec->role != ops::Role::kSource;
    });
  };
  auto out = rewrite::list_usable_rules();
  std::erase_if(out, [&](const rewrite::Rule& rule) {
    return !rule.choices.empty() || is_parallel(rule.source) || is_parallel(rule.target);
  });
  return out;
}

Ranking rank_rewrites(CandidatePool& pool, const RankingOptions& options) {
  const auto& model = pool.model();
  const auto& search = pool.options();
  rewrite::Dictionary dictionary;
  rewrite::RuleSet rules(list_algebraic_rules(), dictionary, {});
  Ranker ranker(pool, options);
  std::optional<predict::Folded> folded;
  if (search.network && search.folds) {
    folded = predict::fold(*search.network->model, search.network->batch, search.network->dtype);
  }
  const auto& first = folded ? folded->graph : model;
  BestFirst graphs(first, rules, dictionary, ranker, pool);
  graphs.run();
  Ranking out{{}, graphs.ranked(), graphs.is_complete(), graphs.least()};
  for (const auto& moves : graphs.list_best_moves(options.max_graphs)) {
    const auto made = apply_moves(moves, model, rules, dictionary);
    const auto is_it = [&](const auto& other) {
      return other->graph.identity_hash() == made->graph.identity_hash();
    };
    if (made && std::ranges::none_of(out.best, is_it)) out.best.push_back(made);
  }
  return out;
}

}  // namespace tandem::search
