#include "unity/substitution.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <unordered_set>

namespace tandem::unity {

namespace {

using rewrite::Draft;
using rewrite::Match;
using rewrite::Matches;
using rewrite::Slot;

// What costs so little less is the same, added up in another order.
constexpr double kSame = 1e-9;

}  // namespace

Substitutions::Substitutions(const machine::Digits& digits, Placements& placements,
                             MappingOptions mapping)
    : rules_(search_rules(), dictionary_, {.degrees = degrees_on(digits)}),
      placements_(placements),
      mapping_(placements, std::move(mapping)) {
  for (const auto& rule : rules_.rules()) simplifies_.push_back(is_simplification(rule));
}

// A graph in the queue: its draft, and what can be done next.
struct Substitutions::Visit {
  Draft draft;
  Matches matches;
  std::size_t parent = 0;
  std::vector<Match> steps;  // from the parent's draft
  double seconds = 0;
};

class Substitutions::Search {
 public:
  Search(Substitutions& shared, const Piece& piece, const Substitution& options)
      : shared_(shared), piece_(piece), options_(options) {}

  Found run() {
    auto draft = Draft::of(piece_.graph, shared_.dictionary_);
    auto matches = Matches::find(shared_.rules_, draft);
    auto first = std::make_unique<Visit>(Visit{std::move(draft), std::move(matches), 0, {}});
    simplify(*first);
    seen_.insert(first->draft.hash());
    first->seconds = cost(first->draft);
    best_ = 0;
    queue_.push({first->seconds, 0});
    visits_.push_back(std::move(first));
    bool complete = true;
    while (!queue_.empty() && complete) {
      const auto [seconds, at] = queue_.top();
      queue_.pop();
      if (seconds > options_.alpha * visits_[best_]->seconds) break;
      complete = expand(at);
    }
    return {visits_[best_]->seconds, steps_to(best_), candidates_, complete};
  }

 private:
  struct Entry {
    double seconds = 0;
    std::size_t visit = 0;
    auto operator<=>(const Entry&) const = default;
  };

  // Every rule at every place; false where the search is over before.
  bool expand(std::size_t at) {
    auto matches = visits_[at]->matches.all();
    std::ranges::sort(matches);
    for (const auto& match : matches) {
      if (shared_.simplifies_[match.rule]) continue;
      if (candidates_ >= options_.candidates || (options_.is_over && options_.is_over())) {
        return false;
      }
      try_match(at, match);
    }
    visits_[at]->matches = {};
    return true;
  }

  void try_match(std::size_t from, const Match& match) {
    auto draft = shared_.rules_.apply(visits_[from]->draft, match, changed_);
    if (!draft) return;
    auto next = std::make_unique<Visit>(Visit{std::move(*draft), {}, from, {match}});
    next->matches = visits_[from]->matches.after(shared_.rules_, next->draft, changed_);
    simplify(*next);
    if (!seen_.insert(next->draft.hash()).second) return;
    next->seconds = cost(next->draft);
    if (next->seconds > options_.alpha * visits_[best_]->seconds) return;
    queue_.push({next->seconds, visits_.size()});
    visits_.push_back(std::move(next));
    if (visits_.back()->seconds < (1 - kSame) * visits_[best_]->seconds) best_ = visits_.size() - 1;
  }

  void simplify(Visit& visit) {
    const auto next = [&]() -> std::optional<Match> {
      std::optional<Match> first;
      for (const auto& match : visit.matches.all()) {
        if (shared_.simplifies_[match.rule] && (!first || match < *first)) first = match;
      }
      return first;
    };
    while (const auto match = next()) {
      auto draft = shared_.rules_.apply(visit.draft, *match, changed_);
      if (!draft) return;
      visit.matches = visit.matches.after(shared_.rules_, *draft, changed_);
      visit.draft = std::move(*draft);
      visit.steps.push_back(*match);
    }
  }

  double cost(const Draft& draft) {
    ++candidates_;
    if (options_.costed) options_.costed();
    TaskGraphBuilder builder(shared_.dictionary_, shared_.placements_);
    const auto graph = builder.of_piece(draft, piece_.border, piece_.has_border_output);
    return shared_.mapping_.cost(graph);
  }

  [[nodiscard]] std::vector<Match> steps_to(std::size_t visit) const {
    std::vector<Match> out;
    for (auto v = visit;; v = visits_[v]->parent) {
      out.insert(out.begin(), visits_[v]->steps.begin(), visits_[v]->steps.end());
      if (v == 0) return out;
    }
  }

  Substitutions& shared_;
  const Piece& piece_;
  const Substitution& options_;
  std::vector<std::unique_ptr<Visit>> visits_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::unordered_set<Hash> seen_;
  std::size_t best_ = 0;
  std::size_t candidates_ = 0;
  std::vector<Slot> changed_;
};

Found Substitutions::best_of(const Piece& piece, const Substitution& options) {
  return Search(*this, piece, options).run();
}

std::vector<Draft> Substitutions::drafts_of(const Piece& piece, const std::vector<Match>& steps) {
  std::vector<Draft> out = {Draft::of(piece.graph, dictionary_)};
  std::vector<Slot> changed;
  for (const auto& step : steps) {
    auto next = rules_.apply(out.back(), step, changed);
    CHECK(next.has_value(), rules_.rules()[step.rule].name);
    out.push_back(std::move(*next));
  }
  return out;
}

}  // namespace tandem::unity
