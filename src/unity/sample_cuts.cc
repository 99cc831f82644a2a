#include "unity/sample_cuts.h"

#include <algorithm>
#include <optional>

namespace tandem::unity {

namespace {

using rewrite::Draft;
using rewrite::Match;
using rewrite::Slot;

bool is_cut(const ParallelShape& shape, std::int64_t degree) {
  return shape.rank() == 0 ? shape.partial == degree : shape.degrees[0] == degree;
}

class SampleCutter {
 public:
  SampleCutter(std::int64_t degree, const rewrite::RuleSet& rules,
               const rewrite::Dictionary& dictionary)
      : degree_(degree), rules_(rules), dictionary_(dictionary) {}

  // Returns the first rule's match that splits the operator this way, and stores the result in
  // `after`.
  std::optional<Match> find_cut(const Draft& draft, Slot slot, Draft& after) {
    std::vector<Match> matches;
    rules_.match_single(draft, slot, matches);
    std::ranges::sort(matches);
    for (const auto& match : matches) {
      const auto& choices = rules_.rules()[match.rule].choices;
      const auto chosen = std::span(match.choices).first(choices.size());
      if (std::ranges::find(chosen, degree_) == chosen.end()) continue;
      auto next = rules_.apply(draft, match, changed_);
      if (!next || !has_cut(*next, draft.node(slot).op)) continue;
      after = std::move(*next);
      return match;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool has_cut(const Draft& draft, rewrite::OpId op) const {
    return std::ranges::any_of(changed_, [&](Slot slot) {
      const auto& node = draft.node(slot);
      return node.op == op && is_cut(dictionary_.type(node.type).shape, degree_);
    });
  }

  std::int64_t degree_;
  const rewrite::RuleSet& rules_;
  const rewrite::Dictionary& dictionary_;
  std::vector<Slot> changed_;
};

}  // namespace

void cut_along_samples(Draft draft, std::int64_t degree, bool backward,
                       const rewrite::RuleSet& rules, const rewrite::Dictionary& dictionary,
                       const Simplify& simplify, const Cut& cut) {
  SampleCutter cutter(degree, rules, dictionary);
  std::vector<Slot> operators;
  for (auto slot : draft.order()) {
    const auto role = dictionary.op(draft.node(slot).op).role();
    if (role == ops::Role::kCompute) operators.push_back(slot);
  }
  if (backward) std::ranges::reverse(operators);
  std::vector<Match> steps;
  for (auto slot : operators) {
    Draft after;
    const auto match = cutter.find_cut(draft, slot, after);
    if (!match) continue;
    draft = std::move(after);
    steps.push_back(*match);
    simplify(draft, steps);
    cut(draft, steps);
  }
}

}  // namespace tandem::unity
