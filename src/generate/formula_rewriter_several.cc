// Rewrites of graphs with several outputs. There are few states, so they are looked up in sets.
#include <algorithm>

#include "generate/formula_rewriter.h"

namespace tandem::generate {

void FormulaRewriter::forget(const Equation& equation) {
  std::erase(several_, StepOfSeveral{equation.left, equation.right});
}

FormulaRewriter::State FormulaRewriter::list_parts(const State& state) const {
  State out;
  for (auto output : state) {
    formulas_.for_each_part(output, [&](FormulaId part) {
      if (formulas_[part].is_variable()) return;
      if (std::ranges::find(out, part) == out.end()) out.push_back(part);
    });
  }
  return out;
}

std::optional<FormulaRewriter::State> FormulaRewriter::replace_parts(
    const State& state, std::span<const Formulas::Image> images) {
  State out;
  for (auto output : state) {
    const auto made = formulas_.replace(output, images);
    if (!made) return std::nullopt;
    out.push_back(*made);
  }
  return out;
}

// Returns whether `step` holds for new variables of the types in `match`, like holds() for one
// output.
bool FormulaRewriter::holds_at(const StepOfSeveral& step, const FormulaMatch& match) {
  FormulaMatch general = match;
  for (std::size_t i = 0; i < general.count; ++i) {
    auto& image = general.images[i].image;
    image = formulas_.add_variable(formulas_[image].type, static_cast<std::uint32_t>(i));
  }
  const auto patterns = replace_parts(step.patterns, general.all());
  const auto replacements = replace_parts(step.replacements, general.all());
  if (!patterns || !replacements) return false;
  return std::ranges::equal(*patterns, *replacements,
                            [&](FormulaId a, FormulaId b) { return formulas_.are_equal(a, b); });
}

// Applies `step` at every choice of different parts for its outputs. No part may contain another,
// because a tensor and its operand cannot be computed together.
void FormulaRewriter::rewrite_by(const StepOfSeveral& step, const State& state,
                                 std::vector<State>& out) {
  const auto parts = list_parts(state);
  State chosen;
  const auto is_apart = [&](FormulaId part) {
    return std::ranges::none_of(chosen, [&](FormulaId other) {
      const auto below = formulas_.list_parts(part);
      const auto below_other = formulas_.list_parts(other);
      return std::ranges::find(below, other) != below.end() ||
             std::ranges::find(below_other, part) != below_other.end();
    });
  };
  const auto apply = [&] {
    Open open;
    for (std::size_t o = 0; o < chosen.size(); ++o) open.add(step.patterns[o], chosen[o]);
    std::vector<FormulaMatch> matches;
    match_all(open, {}, matches);
    for (const auto& match : matches) {
      if (!holds_at(step, match)) continue;
      const auto images = replace_parts(step.replacements, match.all());
      if (!images) continue;
      std::vector<Formulas::Image> places;
      for (std::size_t o = 0; o < chosen.size(); ++o) places.push_back({chosen[o], (*images)[o]});
      if (auto made = replace_parts(state, places)) out.push_back(std::move(*made));
    }
  };
  const auto choose = [&](const auto& self) -> void {
    const auto o = chosen.size();
    if (o == step.patterns.size()) return apply();
    const auto pattern = get_roots(step.patterns[o]);
    for (auto part : parts) {
      if (formulas_[part].operation != pattern.operation) continue;
      if (!may_fit(pattern, get_roots(part)) || !is_apart(part)) continue;
      chosen.push_back(part);
      self(self);
      chosen.pop_back();
    }
  };
  choose(choose);
}

std::vector<FormulaRewriter::State> FormulaRewriter::find_state_rewrites(const State& state) {
  std::vector<State> out;
  for (auto part : list_parts(state)) {
    for (auto image : std::vector(find_rewrites(part))) {
      const Formulas::Image place{part, image};
      if (auto made = replace_parts(state, {&place, 1})) out.push_back(std::move(*made));
    }
  }
  for (const auto& step : several_) rewrite_by(step, state, out);
  return out;
}

bool FormulaRewriter::derives(const Equation& equation, FormulaRewriter& backward,
                              const Bounds& bounds) {
  const auto limit =
      std::max(formulas_.operators(equation.left), formulas_.operators(equation.right)) +
      bounds.growth;
  std::array<std::set<State>, 2> reached = {std::set<State>{equation.left},
                                            std::set<State>{equation.right}};
  std::array<std::vector<State>, 2> frontiers = {std::vector<State>{equation.left},
                                                 std::vector<State>{equation.right}};
  std::size_t looked_at = 0;
  while (!frontiers[0].empty() || !frontiers[1].empty()) {
    const std::size_t side =
        frontiers[0].empty() || (!frontiers[1].empty() && frontiers[1].size() < frontiers[0].size())
            ? 1
            : 0;
    std::vector<State> next;
    for (const auto& state : frontiers[side]) {
      if (++looked_at > bounds.states) return false;
      auto& steps = side == 0 ? *this : backward;
      for (auto& made : steps.find_state_rewrites(state)) {
        if (reached[1 - side].contains(made)) return true;
        if (formulas_.operators(made) > limit || !reached[side].insert(made).second) continue;
        next.push_back(std::move(made));
      }
    }
    frontiers[side] = std::move(next);
  }
  return false;
}

}  // namespace tandem::generate
