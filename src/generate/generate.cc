#include "generate/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "base/hash_set.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "base/text.h"
#include "generate/equations.h"
#include "generate/multi_output_equations.h"
#include "generate/parallel_rules.h"
#include "generate/pruning.h"
#include "generate/widen.h"
#include "rewrite/rule_text.h"

namespace tandem::generate {

namespace {

class RuleGenerator {
 public:
  RuleGenerator(const OperatorSet& set, const GeneratorOptions& options)
      : set_(set),
        options_(options),
        table_(set, options.threads),
        indices_(list_index_types(table_)),
        formulas_(table_.programs(), indices_) {}

  Generated run() {
    table_.fill(options_.max_ops, [&](const TableProgress& p) {
      report_progress(
          fmt::format("level {}: {} graphs, {} of {} parts", p.level, p.graphs, p.done, p.of));
    });
    out_.graphs = table_.graphs();
    out_.candidates = table_.equalities().size();
    record_count("equalities", out_.candidates);
    read_equations();
    prune();
    const auto several = select_multi_output_equations();
    add_commutativity();
    make_rules(several);
    add_parallel_rules();
    record_count("rules", out_.rules.size());
    return std::move(out_);
  }

 private:
  void report_progress(const std::string& line) const {
    throw_if_stopped();
    if (options_.progress) options_.progress(line);
  }
  void record_count(const std::string& what, std::size_t left) {
    out_.left.emplace_back(what, left);
  }

  void read_equations() {
    const auto equalities = drop_renamings(table_, options_.threads);
    record_count("without renamings", equalities.size());
    FormulaReader reader(table_, formulas_);
    std::set<std::pair<std::vector<FormulaId>, std::vector<FormulaId>>> seen;
    HashSet normalised_already;  // the normal form depends on no name
    for (std::size_t i = 0; i < equalities.size(); ++i) {
      if (i % 1000 == 0) report_progress(fmt::format("generalized {} of {}", i, equalities.size()));
      const Equation found{{reader.read(equalities[i].left)}, {reader.read(equalities[i].right)}};
      const auto general = generalize_equation(formulas_, found);
      if (!normalised_already.insert(compute_nameless_hash(formulas_, general))) continue;
      const auto equation = normalize_equation(table_, formulas_, general);
      if (is_unbound(formulas_, equation)) continue;
      if (seen.insert({equation.left, equation.right}).second) equations_.push_back(equation);
    }
    record_count("without common subgraphs", equations_.size());
  }

  // Sorts by size. Among equations of one size, more general ones come first.
  void sort(std::vector<Equation>& equations) const {
    const auto key = [&](const Equation& e) {
      const auto l = formulas_.operators(e.left);
      const auto r = formulas_.operators(e.right);
      return std::tuple(std::max(l, r), l + r,
                        -static_cast<std::int64_t>(formulas_.list_variables(e.left[0]).size()));
    };
    std::ranges::stable_sort(equations, {}, key);
  }

  void prune() {
    sort(equations_);
    Pruning pruning(table_, formulas_, options_.threads);
    const auto independent = pruning.select_independent(equations_, true, [&](std::size_t done) {
      report_progress(fmt::format("checked {} of {} for derivations", done, equations_.size()));
    });
    record_count("without those that follow from smaller ones", independent.size());
    independent_ = drop_special_cases(independent);
    record_count("without special cases", independent_.size());
  }

  // Drops special cases: equations with a constant where any tensor may be, or with one tensor
  // twice. A larger, more general equation may come after a smaller special case.
  std::vector<Equation> drop_special_cases(const std::vector<Equation>& equations) {
    Pruning pruning(table_, formulas_, options_.threads);
    std::vector<Equation> out;
    std::vector<Equation> special;
    for (const auto& e : equations) (is_special(e) ? special : out).push_back(e);
    for (const auto& e : out) pruning.add_given(e);
    const auto needed = pruning.select_independent(special, false, [&](std::size_t done) {
      report_progress(fmt::format("checked {} of {} special cases", done, special.size()));
    });
    out.insert(out.end(), needed.begin(), needed.end());
    sort(out);
    return out;
  }

  [[nodiscard]] bool is_special(const Equation& e) const {
    const auto constants = [&](FormulaId id) {
      const auto parts = formulas_.list_parts(id);
      return std::ranges::any_of(parts, [&](FormulaId p) {
        return !formulas_[p].is_variable() && formulas_.operands(p).empty();
      });
    };
    const auto repeats = [&](FormulaId id) {
      std::map<FormulaId, int> uses;
      for (auto p : formulas_.list_parts(id)) {
        for (auto o : formulas_.operands(p)) ++uses[o];
      }
      return std::ranges::any_of(uses, [](const auto& use) { return use.second > 1; });
    };
    return (constants(e.left[0]) && constants(e.right[0])) ||
           (repeats(e.left[0]) && repeats(e.right[0]));
  }

  // Returns equations that compute two separate tensors together. No rule of one output says this
  // from left to right.
  std::vector<Equation> select_multi_output_equations() {
    const auto all = find_multi_output_equations(formulas_, equations_);
    record_count("of several outputs", all.size());
    auto independent = select_independent_multi_output(table_, formulas_, independent_, all);
    record_count("of several outputs, without those that follow from others", independent.size());
    return independent;
  }

  // Adds the commutativity of operations, because pruning has it built in.
  void add_commutativity() {
    for (std::uint16_t o = 0; o < table_.programs().operations().size(); ++o) {
      if (!table_.commutes(o)) continue;
      for (const auto& group : table_.variables()) {
        const auto type = table_.programs().type_id(group.type);
        const std::array two = {formulas_.add_variable(type, 0), formulas_.add_variable(type, 1)};
        const auto forward = formulas_.apply(o, two);
        const auto backward = formulas_.apply(o, std::array{two[1], two[0]});
        if (!forward || !backward) continue;
        independent_.insert(independent_.begin(), Equation{{*forward}, {*backward}});
        break;
      }
    }
  }

  struct Direction {
    const std::vector<FormulaId>* source;
    const std::vector<FormulaId>* target;
  };

  [[nodiscard]] bool is_rule(const Direction& d) const {
    std::set<FormulaId> bound;
    for (auto s : *d.source) {
      if (formulas_[s].is_variable()) return false;
      for (auto v : formulas_.list_variables(s)) bound.insert(v);
    }
    for (auto t : *d.target) {
      for (auto v : formulas_.list_variables(t)) {
        if (!bound.contains(v)) return false;
      }
    }
    return true;
  }

  void make_rules(const std::vector<Equation>& several) {
    std::vector<Direction> directions;
    for (const auto& e : independent_) {
      if (is_rule({&e.left, &e.right})) directions.push_back({&e.left, &e.right});
      // Equations of constants alone are rules only towards fewer operators.
      const bool closed = formulas_.list_variables(e.left[0]).empty();
      if (!closed && is_rule({&e.right, &e.left})) directions.push_back({&e.right, &e.left});
    }
    for (const auto& e : several) directions.push_back({&e.left, &e.right});
    record_count("directions", directions.size());
    std::vector<std::optional<GeneratedRule>> rules(directions.size());
    std::vector<GeneratedRule> literal(directions.size());
    std::atomic<std::size_t> done = 0;
    std::atomic<std::size_t> next = 0;
    parallel_for(options_.threads, options_.threads, [&](std::size_t thread) {
      KernelCache kernels;
      for (auto i = next++; i < directions.size(); i = next++) {
        throw_if_stopped();
        auto made = make_rule(formulas_, *directions[i].source, *directions[i].target, indices_);
        if (bind_open_symbols(made)) {
          literal[i] = made;
          free_attributes(made, kernels);
          if (add_conditions(made, kernels)) rules[i] = std::move(made);
        }
        ++done;
        if (thread == 0)
          report_progress(fmt::format("widened {} of {}", done.load(), directions.size()));
      }
    });
    store_rules(rules, literal);
  }

  static std::string make_side_name(const rewrite::Side& side) {
    std::vector<std::string> names;
    for (std::size_t n = side.nodes.size(); n-- > 0;) {
      const auto& node = side.nodes[n];
      if (node.is_variable()) continue;
      auto name = node.spec->name;
      std::ranges::replace(name, '_', '-');
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names.empty() ? "nothing" : join(names, "-");
  }

  static std::string format_without_conditions(rewrite::Rule rule) {
    rule.conditions.clear();
    return rewrite::to_text(rule);
  }

  // Stores the rules, equal ones once, under names that list the operators of both sides.
  void store_rules(std::vector<std::optional<GeneratedRule>>& made,
                   std::vector<GeneratedRule>& literal) {
    std::set<std::string> seen;
    for (const auto& m : made) {
      if (m && m->rule.conditions.empty()) seen.insert(format_without_conditions(m->rule));
    }
    const auto unconditional = seen;
    seen.clear();
    std::map<std::string, int> names;
    std::size_t without_condition = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      auto& m = made[i];
      if (!m) {
        ++without_condition;
        continue;
      }
      auto& rule = m->rule;
      if (!rule.conditions.empty() && unconditional.contains(format_without_conditions(rule)))
        continue;
      if (!seen.insert(rewrite::to_text(rule)).second) continue;
      const auto base = make_side_name(rule.source) + "-to-" + make_side_name(rule.target);
      const auto number = ++names[base];
      rule.name = number == 1 ? base : fmt::format("{}-{}", base, number);
      out_.rules.push_back(std::move(rule));
      out_.found.push_back(std::move(m->found));
      literal[i].rule.name = out_.rules.back().name;
      out_.literal.push_back(std::move(literal[i]));
    }
    record_count("dropped for want of a condition", without_condition);
    record_count("of one device", out_.rules.size());
  }

  void add_parallel_rules() {
    auto rules = make_parallel_rules(set_);
    record_count("parallel", rules.size());
    for (auto& rule : rules) {
      out_.rules.push_back(std::move(rule.rule));
      out_.parallel_literal.push_back(std::move(rule.literal));
    }
  }

  const OperatorSet& set_;
  const GeneratorOptions& options_;
  TensorTable table_;
  std::map<TypeId, std::int64_t> indices_;
  Formulas formulas_;
  std::vector<Equation> equations_;
  std::vector<Equation> independent_;
  Generated out_;
};

}  // namespace

std::vector<rewrite::Rule> make_literal_rules(const Generated& generated, std::size_t rule) {
  if (is_parallel_rule(generated, rule)) {
    return generated.parallel_literal[rule - generated.literal.size()];
  }
  auto made = generated.literal[rule];
  KernelCache kernels;
  if (!add_conditions(made, kernels)) return {};
  if (to_text(made.rule) == to_text(generated.rules[rule])) return {};
  return {made.rule};
}

Generated generate(const OperatorSet& set, const GeneratorOptions& options) {
  return RuleGenerator(set, options).run();
}

}  // namespace tandem::generate
