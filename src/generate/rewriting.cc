#include "generate/rewriting.h"

#include <algorithm>
#include <array>

namespace tandem::generate {

void Rewriting::add(const Equation& equation) {
  if (equation.left.size() != 1) return;  // several outputs are not rewritten
  add_step(equation.left[0], equation.right[0]);
  add_step(equation.right[0], equation.left[0]);
}

void Rewriting::add_step(FormulaId pattern, FormulaId replacement) {
  if (formulas_[pattern].is_variable()) return;  // would match everything
  const auto bound = formulas_.variables(pattern);
  for (auto v : formulas_.variables(replacement)) {
    if (std::ranges::find(bound, v) == bound.end()) return;
  }
  steps_[formulas_[pattern].operation].push_back({pattern, replacement});
}

void Rewriting::match_all(std::vector<std::pair<FormulaId, FormulaId>> open,
                          std::vector<Binding> bound, std::vector<std::vector<Binding>>& out) {
  while (!open.empty()) {
    const auto [pattern, formula] = open.back();
    open.pop_back();
    const auto& p = formulas_[pattern];
    const auto& f = formulas_[formula];
    if (p.is_variable()) {
      const auto known = std::ranges::find(bound, pattern, &Binding::variable);
      if (known == bound.end()) {
        bound.push_back({pattern, formula});
      } else if (known->image != formula) {
        return;
      }
      continue;
    }
    if (p.operation != f.operation) return;
    const auto arity = formulas_.operands(pattern).size();
    if (arity == 0 && p.type != f.type) return;
    if (table_.commutes(p.operation)) {
      auto other = open;
      other.emplace_back(p.operands[0], f.operands[1]);
      other.emplace_back(p.operands[1], f.operands[0]);
      match_all(std::move(other), bound, out);
    }
    for (std::size_t i = arity; i-- > 0;) open.emplace_back(p.operands[i], f.operands[i]);
  }
  out.push_back(std::move(bound));
}

void Rewriting::match(FormulaId pattern, FormulaId formula,
                      std::vector<std::vector<Binding>>& out) {
  out.clear();
  match_all({{pattern, formula}}, {}, out);
}

// Only what has the formula's type and value: a step that holds for some sizes alone may not.
const std::vector<FormulaId>& Rewriting::rewrites(FormulaId formula) {
  auto& known = known_[formula];
  const auto steps = steps_.find(formulas_[formula].operation);
  if (steps == steps_.end()) return known.images;
  std::vector<std::vector<Binding>> matches;
  for (; known.steps < steps->second.size(); ++known.steps) {
    const auto step = steps->second[known.steps];
    match(step.pattern, formula, matches);
    for (const auto& bound : matches) {
      Formulas::Images images;
      images.reserve(bound.size());
      for (const auto& b : bound) images.emplace_back(b.variable, b.image);
      const auto image = formulas_.replace(step.replacement, std::move(images));
      if (!image || *image == formula || !formulas_.equal(*image, formula)) continue;
      if (std::ranges::find(known.images, *image) == known.images.end()) {
        known.images.push_back(*image);
      }
    }
  }
  return known.images;
}

// Adds what one step makes of `state`. Was one of them reached from the other side?
bool Rewriting::expand(const State& state, std::size_t limit, bool side, Reached& reached,
                       std::vector<State>& next) {
  std::vector<FormulaId> parts;
  for (auto root : state) {
    for (auto p : formulas_.parts(root)) {
      if (!formulas_[p].is_variable() && std::ranges::find(parts, p) == parts.end()) {
        parts.push_back(p);
      }
    }
  }
  for (auto part : parts) {
    for (auto image : rewrites(part)) {
      State made = state;
      bool legal = true;
      for (auto& root : made) {
        const auto changed = formulas_.replace(root, {{part, image}});
        legal = legal && changed.has_value();
        if (changed) root = *changed;
      }
      if (!legal) continue;
      // Most were reached before.
      if (const auto known = reached.find(made); known != reached.end()) {
        if (known->second != side) return true;
        continue;
      }
      if (formulas_.operators(made) > limit) continue;
      reached.emplace(made, side);
      next.push_back(std::move(made));
    }
  }
  return false;
}

bool Rewriting::derives(const Equation& equation, const Bounds& bounds) {
  const auto limit =
      std::max(formulas_.operators(equation.left), formulas_.operators(equation.right)) +
      bounds.growth;
  Reached reached = {{equation.left, false}, {equation.right, true}};
  if (equation.left == equation.right) return true;
  std::array<std::vector<State>, 2> frontiers;
  frontiers[0].push_back(equation.left);
  frontiers[1].push_back(equation.right);
  std::size_t looked_at = 0;
  while (!frontiers[0].empty() || !frontiers[1].empty()) {
    // The smaller frontier first.
    const bool side = frontiers[0].empty() ||
                      (!frontiers[1].empty() && frontiers[1].size() < frontiers[0].size());
    std::vector<State> next;
    for (const auto& state : frontiers[side ? 1 : 0]) {
      if (++looked_at > bounds.states) return false;
      if (expand(state, limit, side, reached, next)) return true;
    }
    frontiers[side ? 1 : 0] = std::move(next);
  }
  return false;
}

}  // namespace tandem::generate
