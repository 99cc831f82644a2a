#include "generate/multi_output_equations.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/hash_set.h"
#include "generate/formula_rewriter.h"

namespace tandem::generate {

namespace {

std::set<FormulaId> list_variables(const Formulas& formulas, const std::vector<FormulaId>& roots) {
  std::set<FormulaId> out;
  for (auto root : roots) {
    for (auto v : formulas.list_variables(root)) out.insert(v);
  }
  return out;
}

// Finds outputs of one line on the same operands. Each output must equal a formula that lacks
// variables of the others.
class MultiOutputFinder {
 public:
  MultiOutputFinder(Formulas& formulas, const std::vector<Equation>& equations)
      : formulas_(formulas) {
    for (const auto& e : equations) {
      const auto more = formulas.list_variables(e.left[0]).size();
      if (more > formulas.list_variables(e.right[0]).size()) apart_.emplace(e.left[0], e.right[0]);
    }
  }

  std::vector<Equation> run() {
    std::vector<Equation> out;
    HashSet seen;
    for (const auto& [together, unused] : apart_) {
      if (formulas_[together].is_variable()) continue;
      Equation found;
      if (!find_siblings(together, found) || found.right[0] != together) continue;
      const auto general = generalize_equation(formulas_, found);
      if (is_rule(general) && seen.insert(compute_nameless_hash(formulas_, general))) {
        out.push_back(general);
      }
    }
    return out;
  }

 private:
  bool find_siblings(FormulaId id, Equation& out) {
    const auto f = formulas_[id];
    const auto& operations = formulas_.programs().operations();
    const auto line = operations[f.operation].line;
    const auto arity = operations[f.operation].arity;
    for (std::uint16_t o = 0; o < operations.size(); ++o) {
      if (operations[o].line != line) continue;
      const auto sibling = formulas_.apply(o, std::span(f.operands).first(arity));
      const auto known = sibling ? apart_.find(*sibling) : apart_.end();
      if (known == apart_.end()) return false;
      out.right.push_back(known->first);
      out.left.push_back(known->second);
    }
    return out.left.size() > 1;
  }

  // Returns whether the left side begins at operators and has all variables of the right side.
  [[nodiscard]] bool is_rule(const Equation& e) const {
    const bool bare = std::ranges::any_of(
        e.left, [&](FormulaId output) { return formulas_[output].is_variable(); });
    return !bare && std::ranges::includes(list_variables(formulas_, e.left),
                                          list_variables(formulas_, e.right));
  }

  Formulas& formulas_;
  std::map<FormulaId, FormulaId> apart_;  // by the formula that is computed together
};

// Returns whether each direction is a rule.
bool is_reversible(const Formulas& formulas, const Equation& e) {
  return !formulas[e.left[0]].is_variable() && !formulas[e.right[0]].is_variable() &&
         list_variables(formulas, e.left) == list_variables(formulas, e.right);
}

}  // namespace

std::vector<Equation> find_multi_output_equations(Formulas& formulas,
                                                  const std::vector<Equation>& equations) {
  return MultiOutputFinder(formulas, equations).run();
}

std::vector<Equation> select_independent_multi_output(const TensorTable& table, Formulas& formulas,
                                                      const std::vector<Equation>& of_one_output,
                                                      std::vector<Equation> several) {
  const auto key = [&](const Equation& e) {
    const auto l = formulas.operators(e.left);
    const auto r = formulas.operators(e.right);
    return std::tuple(std::max(l, r), l + r,
                      -static_cast<std::int64_t>(list_variables(formulas, e.left).size()));
  };
  std::ranges::stable_sort(several, {}, key);
  FormulaRewriter rewrite(table, formulas);
  FormulaRewriter backward(table, formulas);
  for (const auto& e : of_one_output) {
    rewrite.add(e);
    if (is_reversible(formulas, e)) backward.add(e);
  }
  std::vector<Equation> independent;
  for (const auto& e : several) {
    if (rewrite.derives(e, backward, {})) continue;
    rewrite.add(e);
    independent.push_back(e);
  }
  // An equation with one tensor twice is smaller than its general form, and so came first.
  std::erase_if(independent, [&](const Equation& e) {
    rewrite.forget(e);
    const bool follows = rewrite.derives(e, backward, {});
    if (!follows) rewrite.add(e);
    return follows;
  });
  return independent;
}

}  // namespace tandem::generate
