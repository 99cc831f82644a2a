#include "unity/substitution.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <unordered_set>

#include "unity/sample_cuts.h"

namespace tandem::unity {

namespace {

using rewrite::Draft;
using rewrite::Match;
using rewrite::Matches;
using rewrite::Rule;
using rewrite::Slot;

// Relative difference below which costs are equal: they were summed in another order.
constexpr double kSame = 1e-9;

// Graphs expanded without a gain before a search is given up.
constexpr std::size_t kGraphs = 10;

std::vector<Rule> list_simplifications() {
  auto out = list_search_rules();
  std::erase_if(out, [](const Rule& rule) { return !is_simplification(rule); });
  return out;
}

}  // namespace

Substitutions::Substitutions(Placements& placements, MappingOptions mapping)
    : rules_(list_search_rules(), dictionary_,
             {.degrees = list_degrees(placements.digits(), placements.free_digits())}),
      simplifiers_(list_simplifications(), dictionary_, {}),
      placements_(placements),
      tasks_(dictionary_, placements),
      mapping_(placements, std::move(mapping)) {
  for (std::uint32_t r = 0; r < rules_.rules().size(); ++r) {
    simplifies_.push_back(is_simplification(rules_.rules()[r]));
    if (simplifies_.back()) simplifying_.push_back(r);
  }
}

void Substitutions::simplify(Draft& draft, std::vector<Match>& steps) const {
  std::vector<Slot> changed;
  while (true) {
    const auto all = Matches::find(simplifiers_, draft).all();
    if (all.empty()) return;
    auto match = *std::ranges::min_element(all);
    auto next = simplifiers_.apply(draft, match, changed);
    if (!next) return;
    draft = std::move(*next);
    match.rule = simplifying_[match.rule];
    steps.push_back(match);
  }
}

class Substitutions::SubstitutionSearch {
 public:
  SubstitutionSearch(Substitutions& shared, const ModelPiece& piece, const Substitution& options,
                     SubstitutionStart start)
      : shared_(shared), piece_(piece), options_(options), start_(start) {}

  Found run() {
    auto draft = Draft::from_graph(piece_.graph, shared_.dictionary_);
    Visit first;
    shared_.simplify(draft, first.steps);
    first.seconds = *cost(draft);
    first.draft = std::make_unique<const Draft>(std::move(draft));
    queue_.push({first.seconds, 0});
    visits_.push_back(std::move(first));
    if (start_ == SubstitutionStart::kSamples) add_sample_cuts();
    if (start_ == SubstitutionStart::kInitialLayouts) add_initial_layouts();
    bool complete = true;
    while (!queue_.empty() && complete) {
      const auto [seconds, at] = queue_.top();
      queue_.pop();
      if (seconds > options_.alpha * visits_[best_].seconds) break;
      complete = expand(at);
    }
    return {visits_[best_].seconds, trace_steps(best_), candidates_, complete};
  }

 private:
  struct Visit {
    std::size_t parent = 0;
    std::vector<Match> steps = {};  // from the parent's draft
    double seconds = 0;
    std::unique_ptr<const Draft> draft = {};  // set when it is expanded
  };
  struct QueuedGraph {
    double seconds = 0;
    std::size_t visit = 0;
    auto operator<=>(const QueuedGraph&) const = default;
  };

  // Applies every rule at every place. Returns false if the search ended before.
  bool expand(std::size_t at) {
    ++taken_up_;
    const auto& draft = build_draft(at);
    auto matches = Matches::find(shared_.rules_, draft).all();
    std::ranges::sort(matches);
    for (const auto& match : matches) {
      if (shared_.simplifies_[match.rule]) continue;
      if (is_over()) return false;
      try_match(at, draft, match);
    }
    return true;
  }

  void try_match(std::size_t from, const Draft& before, const Match& match) {
    auto draft = shared_.rules_.apply(before, match, changed_);
    if (!draft) return;
    Visit next{.parent = from, .steps = {match}};
    shared_.simplify(*draft, next.steps);
    add(std::move(next), *draft);
  }

  void add_sample_cuts() {
    const auto simplify = [&](Draft& draft, std::vector<Match>& steps) {
      shared_.simplify(draft, steps);
    };
    const auto cut = [&](const Draft& draft, const std::vector<Match>& steps) {
      if (!is_over()) add({.parent = 0, .steps = steps}, draft);
    };
    for (auto degree : shared_.rules_.limits().degrees) {
      for (const bool backward : {false, true}) {
        if (is_over()) return;
        cut_along_samples(*visits_[0].draft, degree, backward, shared_.rules_, shared_.dictionary_,
                          simplify, cut);
      }
    }
  }

  void add_initial_layouts() {
    const auto simplify = [&](Draft& draft, std::vector<Match>& steps) {
      shared_.simplify(draft, steps);
    };
    for (const auto& seed : piece_.initial_layouts) {
      if (is_over()) return;
      auto made = split_by_layouts(*visits_[0].draft, seed, shared_.placements_.digits(),
                                   shared_.rules_, shared_.dictionary_, simplify);
      add({.parent = 0, .steps = std::move(made.steps)}, made.draft);
    }
  }

  void add(Visit next, const Draft& draft) {
    const auto seconds = cost(draft);
    if (!seconds || *seconds > options_.alpha * visits_[best_].seconds) return;
    next.seconds = *seconds;
    queue_.push({next.seconds, visits_.size()});
    visits_.push_back(std::move(next));
    if (*seconds >= (1 - kSame) * visits_[best_].seconds) return;
    best_ = visits_.size() - 1;
    best_at_ = candidates_;
    best_taken_up_ = taken_up_;
  }

  // An expanded graph has as many candidates as places for rules. Therefore expanded graphs count,
  // too; otherwise a whole model would be abandoned sooner than a piece of it.
  [[nodiscard]] bool is_out_of_patience() const {
    const auto idle = candidates_ - best_at_;
    return taken_up_ > best_taken_up_ + kGraphs && idle >= std::max(options_.patience, best_at_);
  }

  bool is_over() {
    return candidates_ >= options_.candidates || is_out_of_patience() ||
           (options_.is_over && options_.is_over());
  }

  // Drafts are rebuilt when they are expanded, since most queued graphs never are.
  const Draft& build_draft(std::size_t at) {
    auto& visit = visits_[at];
    if (!visit.draft) {
      auto draft = *visits_[visit.parent].draft;
      for (const auto& step : visit.steps) {
        auto next = shared_.rules_.apply(draft, step, changed_);
        CHECK(next.has_value(), shared_.rules_.rules()[step.rule].name);
        draft = std::move(*next);
      }
      visit.draft = std::make_unique<const Draft>(std::move(draft));
    }
    return *visit.draft;
  }

  // Returns the cost, or nullopt if the same tasks were costed before.
  std::optional<double> cost(const Draft& draft) {
    const auto graph =
        shared_.tasks_.build_for_piece(draft, piece_.border, piece_.has_border_output);
    if (!seen_.insert(graph.hash()).second) return std::nullopt;
    ++candidates_;
    if (options_.costed) options_.costed();
    return shared_.mapping_.cost(graph);
  }

  [[nodiscard]] std::vector<Match> trace_steps(std::size_t visit) const {
    std::vector<Match> out;
    for (auto v = visit;; v = visits_[v].parent) {
      out.insert(out.begin(), visits_[v].steps.begin(), visits_[v].steps.end());
      if (v == 0) return out;
    }
  }

  Substitutions& shared_;
  const ModelPiece& piece_;
  const Substitution& options_;
  SubstitutionStart start_;  // initial candidates besides the piece
  std::vector<Visit> visits_;
  std::priority_queue<QueuedGraph, std::vector<QueuedGraph>, std::greater<>> queue_;
  std::unordered_set<Hash> seen_;  // hashes of task graphs
  std::size_t best_ = 0;
  std::size_t best_at_ = 0;  // candidates_ when the best was found
  std::size_t candidates_ = 0;
  std::size_t taken_up_ = 0;
  std::size_t best_taken_up_ = 0;  // taken_up_ when the best was found
  std::vector<Slot> changed_;
};

// Runs one search per kind of initial candidate. Next to a good one, alpha would drop the way from
// the piece itself to a better graph.
Found Substitutions::find_best(const ModelPiece& piece, const Substitution& options) {
  std::vector<SubstitutionStart> starts;
  if (!piece.initial_layouts.empty()) starts.push_back(SubstitutionStart::kInitialLayouts);
  if (!options.only_initial_layouts)
    starts.insert(starts.end(), {SubstitutionStart::kSamples, SubstitutionStart::kPiece});
  Found out;
  auto share = options;
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const auto left = options.candidates - out.candidates;
    if (s > 0 && (left == 0 || (options.is_over && options.is_over()))) {
      out.is_complete = false;
      break;
    }
    share.candidates = (left + starts.size() - s - 1) / (starts.size() - s);
    auto next = SubstitutionSearch(*this, piece, share, starts[s]).run();
    next.is_complete = next.is_complete && (s == 0 || out.is_complete);
    next.candidates += out.candidates;
    if (s > 0 && next.seconds >= (1 - kSame) * out.seconds) {
      out.candidates = next.candidates;
      out.is_complete = next.is_complete;
    } else {
      out = std::move(next);
    }
  }
  return out;
}

bool Substitutions::can_reach(const graph::Graph& model, const InitialLayouts& seed) {
  return split_by_layouts(Draft::from_graph(model, dictionary_), seed, placements_.digits(), rules_,
                          dictionary_, [](Draft&, std::vector<Match>&) {})
      .is_all;
}

std::vector<Draft> Substitutions::replay_steps(const ModelPiece& piece,
                                               const std::vector<Match>& steps) {
  std::vector<Draft> out = {Draft::from_graph(piece.graph, dictionary_)};
  std::vector<Slot> changed;
  for (const auto& step : steps) {
    auto next = rules_.apply(out.back(), step, changed);
    CHECK(next.has_value(), rules_.rules()[step.rule].name);
    out.push_back(std::move(*next));
  }
  return out;
}

}  // namespace tandem::unity
