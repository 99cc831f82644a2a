#include "generate/formula_rewriter.h"

#include <algorithm>

namespace tandem::generate {

void FormulaRewriter::add(const Equation& equation) {
  if (equation.left.size() != 1) return several_.push_back({equation.left, equation.right});
  add_step(equation.left[0], equation.right[0]);
  add_step(equation.right[0], equation.left[0]);
}

void FormulaRewriter::add_step(FormulaId pattern, FormulaId replacement) {
  if (formulas_[pattern].is_variable()) return;  // a variable would match everything
  const auto bound = formulas_.list_variables(pattern);
  for (auto v : formulas_.list_variables(replacement)) {
    if (std::ranges::find(bound, v) == bound.end()) return;
  }
  steps_[formulas_[pattern].operation].push_back(
      {pattern, replacement, get_roots(pattern), number_of_steps_++});
}

FormulaRewriter::Roots FormulaRewriter::get_roots(FormulaId id) const {
  Roots out{.operation = formulas_[id].operation};
  const auto operands = formulas_.operands(id);
  for (std::size_t i = 0; i < std::min(operands.size(), out.operands.size()); ++i) {
    out.operands[i] = formulas_[operands[i]].operation;
  }
  return out;
}

bool FormulaRewriter::may_fit(const Roots& pattern, const Roots& formula) const {
  const auto fits = [](std::uint16_t p, std::uint16_t f) { return p == kVariable || p == f; };
  const auto& [p, q] = pattern.operands;
  const auto& [f, g] = formula.operands;
  return (fits(p, f) && fits(q, g)) ||
         (table_.commutes(pattern.operation) && fits(p, g) && fits(q, f));
}

void FormulaRewriter::match_all(Open open, FormulaMatch match,
                                std::vector<FormulaMatch>& out) const {
  while (open.count > 0) {
    const auto [pattern, formula] = open.pairs[--open.count];
    const auto& p = formulas_[pattern];
    const auto& f = formulas_[formula];
    if (p.is_variable()) {
      const auto all = match.all();
      const auto known = std::ranges::find(all, pattern, &Formulas::Image::part);
      if (known == all.end()) {
        CHECK(match.count < FormulaMatch::kMost);
        match.images[match.count++] = {pattern, formula};
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
      other.add(p.operands[0], f.operands[1]);
      other.add(p.operands[1], f.operands[0]);
      match_all(other, match, out);
    }
    for (std::size_t i = arity; i-- > 0;) open.add(p.operands[i], f.operands[i]);
  }
  out.push_back(match);
}

// Returns whether `step` holds for the types in `match`. A step that holds for some sizes may fail
// for others. Each case is tested once, on new variables of these types.
bool FormulaRewriter::holds(const FormulaRewriteStep& step, const FormulaMatch& match) {
  Hash key = 0;
  for (const auto& [variable, image] : match.all()) {
    key += mix((Hash{variable} << 32U) | formulas_[image].type);  // independent of the order
  }
  const auto question = hash_combine(step.number, key);
  if (!asked_.insert(question)) return hold_.contains(question);
  FormulaMatch general = match;
  for (std::size_t i = 0; i < general.count; ++i) {
    auto& image = general.images[i].image;
    image = formulas_.add_variable(formulas_[image].type, static_cast<std::uint32_t>(i));
  }
  const auto pattern = formulas_.replace(step.pattern, general.all());
  const auto replacement = formulas_.replace(step.replacement, general.all());
  const bool holds = pattern && replacement && formulas_.are_equal(*pattern, *replacement);
  if (holds) hold_.insert(question);
  return holds;
}

const std::vector<FormulaId>& FormulaRewriter::find_rewrites(FormulaId formula) {
  static const std::vector<FormulaId> kNothing;
  const auto& steps = steps_[formulas_[formula].operation];
  if (steps.empty()) return kNothing;
  if (known_at_.size() <= formula) known_at_.resize(formulas_.size());
  auto& at = known_at_[formula];
  if (at == 0) {
    known_.emplace_back();
    at = static_cast<std::uint32_t>(known_.size());
  }
  auto& known = known_[at - 1];
  const auto roots = get_roots(formula);
  for (; known.steps < steps.size(); ++known.steps) {
    const auto& step = steps[known.steps];
    if (!may_fit(step.roots, roots)) continue;
    matches_.clear();
    Open open;
    open.add(step.pattern, formula);
    match_all(open, {}, matches_);
    for (const auto& match : matches_) {
      if (!holds(step, match)) continue;
      const auto image = formulas_.replace(step.replacement, match.all());
      if (!image || *image == formula) continue;
      if (std::ranges::find(known.images, *image) == known.images.end()) {
        known.images.push_back(*image);
      }
    }
  }
  return known.images;
}

// Appends to `next` the results of one step from `state`. Returns whether the other side had
// reached one of them.
bool FormulaRewriter::expand(FormulaId state, std::size_t limit, bool side,
                             std::vector<FormulaId>& next) {
  parts_.clear();
  formulas_.for_each_part(state, [&](FormulaId part) {
    if (!formulas_[part].is_variable()) parts_.push_back(part);
  });
  for (auto part : parts_) {
    for (auto image : find_rewrites(part)) {
      const auto made = formulas_.replace(state, {{part, image}});
      if (!made) continue;
      reached_.resize(formulas_.size());
      auto& reached = reached_[*made];
      if (reached / 2 == search_) {  // most results were reached before
        if ((reached % 2 == 1) != side) return true;
        continue;
      }
      if (formulas_.operators({&*made, 1}) > limit) continue;
      reached = 2 * search_ + (side ? 1 : 0);
      next.push_back(*made);
    }
  }
  return false;
}

bool FormulaRewriter::derives(const Equation& equation, const Bounds& bounds) {
  if (equation.left == equation.right) return true;
  CHECK(equation.left.size() == 1);
  const auto limit =
      std::max(formulas_.operators(equation.left), formulas_.operators(equation.right)) +
      bounds.growth;
  ++search_;
  reached_.resize(formulas_.size());
  std::array<std::vector<FormulaId>, 2> frontiers = {equation.left, equation.right};
  for (std::uint32_t side : {0, 1}) reached_[frontiers[side][0]] = 2 * search_ + side;
  std::size_t looked_at = 0;
  while (!frontiers[0].empty() || !frontiers[1].empty()) {
    // Expand the smaller frontier first.
    const bool side = frontiers[0].empty() ||
                      (!frontiers[1].empty() && frontiers[1].size() < frontiers[0].size());
    std::vector<FormulaId> next;
    for (auto state : frontiers[side ? 1 : 0]) {
      if (++looked_at > bounds.states) return false;
      if (expand(state, limit, side, next)) return true;
    }
    frontiers[side ? 1 : 0] = std::move(next);
  }
  return false;
}

}  // namespace tandem::generate
