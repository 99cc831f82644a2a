#include "generate/parallel_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "generate/generated_rule.h"
#include "graph/graph.h"
#include "ops/signature.h"
#include "rewrite/rule_text.h"

namespace tandem::generate {

namespace {

using Texts = std::vector<std::string>;

constexpr std::array<std::string_view, kMaxArity> kOperands = {"?x", "?y", "?z"};

// An operator of the set, with operands for which it is legal.
struct OperatorUse {
  ops::Op op;
  std::string name;        // kebab-case
  std::string attributes;  // " stride=?stride": symbols for any legal values
  std::vector<TensorType> operands;
  std::vector<rewrite::Value> values;  // values of the attributes in the operator set

  [[nodiscard]] std::string format_call(const Texts& inputs) const {
    return fmt::format("({} {}{})", op.name(), join(inputs, " "), attributes);
  }
  [[nodiscard]] Texts variables() const {
    return {kOperands.begin(), kOperands.begin() + static_cast<std::ptrdiff_t>(operands.size())};
  }
  [[nodiscard]] std::string source() const { return format_call(variables()); }
  // Returns `text` of this operator with attribute values in place of symbols.
  [[nodiscard]] std::string to_literal(std::string text) const {
    const auto own = op.attribute_text().empty() ? "" : " " + op.attribute_text();
    std::size_t at = 0;
    while (!attributes.empty() && (at = text.find(attributes, at)) != std::string::npos) {
      text.replace(at, attributes.size(), own);
    }
    return text;
  }
};

std::string to_kebab_case(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string format_attribute_symbols(const ops::OpSpec& spec) {
  std::string out;
  for (const auto& [name, value] : spec.attributes) out += fmt::format(" {}=?{}", name, name);
  return out;
}

bool takes(const GeneratorOperation& operation, const std::vector<TensorType>& types) {
  std::vector<const TensorType*> pointers;
  pointers.reserve(types.size());
  for (const auto& t : types) pointers.push_back(&t);
  return std::ranges::all_of(operation.conditions, [&](const rewrite::Expression& c) {
    return rewrite::holds(c, {pointers, {}});
  });
}

// Adds uses of `op` with sizes that 2 and 3 divide, also with one more dimension.
void add_uses(const GeneratorOperation& operation, const ops::Op& op, std::vector<TensorType> types,
              std::vector<OperatorUse>& out) {
  std::vector<rewrite::Value> values;
  for (const auto& a : operation.pattern.nodes.back().attributes) values.push_back(a.literal);
  const auto add = [&] {
    try {
      (void)graph::infer_result_type(op, types);
    } catch (const UserError&) {
      return;
    }
    out.push_back(
        {op, to_kebab_case(op.name()), format_attribute_symbols(op.spec()), types, values});
  };
  if (!takes(operation, types)) return;
  for (auto& t : types) {
    Shape sizes = t.shape.sizes;
    for (auto& s : sizes) s *= s == 1 && sizes.rank() == 1 ? 1 : 6;
    t.shape = ParallelShape(sizes);
  }
  add();
  for (auto& t : types) {
    Shape sizes = {6};
    for (auto s : t.shape.sizes) sizes.push_back(s);
    t.shape = ParallelShape(sizes);
  }
  add();
}

// Returns the uses of all operators, for all types of the set's variables.
std::vector<OperatorUse> list_uses(const OperatorSet& set) {
  std::vector<OperatorUse> out;
  for (const auto& operation : set.operations) {
    const auto& nodes = operation.pattern.nodes;
    const bool single = nodes.size() == operation.arity + 1 && operation.arity > 0;
    if (!single || nodes.back().spec->role != ops::Role::kCompute) continue;
    const auto op = make_operator(nodes.back());
    std::vector<TensorType> types(operation.arity);
    const auto choose = [&](const auto& self, std::size_t i) -> void {
      if (i == types.size()) return add_uses(operation, op, types, out);
      for (const auto& group : set.variables) {
        types[i] = group.type;
        self(self, i + 1);
      }
    };
    choose(choose, 0);
  }
  return out;
}

class ParallelRules {
 public:
  explicit ParallelRules(const OperatorSet& set) : uses_(list_uses(set)) {}

  std::vector<ParallelRule> run() {
    for (const auto& use : uses_) add_factors(use);
    for (const auto& use : uses_) add_linear(use);
    for (const auto& use : uses_) add_replicated(use);
    for (const auto& use : uses_) add_joined(use);
    add_sum_of_join();
    add_chains();
    return std::move(rules_);
  }

 private:
  // Adds a rule if it is legal for the operands of `use` with a degree of 2, and not known yet.
  // `to_literal` has dimensions where `text` has symbols, and a name of its own.
  void add(const std::string& name, const std::string& text, const OperatorUse& use,
           const std::string& literal_name = {}, const std::string& literal = {}) {
    const auto [known, is_new] = numbers_.try_emplace(text, rules_.size());
    if (is_new) {
      auto rule = rewrite::parse_rule(fmt::format("{}: {}", name, text))[0];
      if (!is_legal_somewhere(rule, use)) {
        numbers_.erase(known);
        return;
      }
      rule.name = make_unique_name(name);
      rules_.push_back({std::move(rule), {}});
    }
    const auto own = use.to_literal(literal.empty() ? text : literal);
    if (own == text || !literals_.insert(own).second) return;
    const auto& own_name = literal.empty() ? name : literal_name;
    auto rule = rewrite::parse_rule(fmt::format("{}: {}", own_name, own))[0];
    if (!is_legal_somewhere(rule, use)) return;
    rule.name = make_unique_name(own_name);
    rules_[known->second].literal.push_back(std::move(rule));
  }

  static bool is_legal_somewhere(const rewrite::Rule& rule, const OperatorUse& use) {
    Assignment assignment;
    assignment.tensors = use.operands;
    assignment.tensors.resize(std::max(rule.tensors.size(), use.operands.size()), use.operands[0]);
    for (const auto& symbol : rule.symbols)
      assignment.symbols.push_back(find_symbol_value(symbol, use));
    bool legal = is_legal(rule, assignment);
    for (std::int64_t dim = 0; dim < 4 && !legal; ++dim) {
      for (std::size_t s = 0; s < rule.symbols.size(); ++s) {
        if (rule.symbols[s] == "i") assignment.symbols[s] = dim;
      }
      legal = is_legal(rule, assignment);
    }
    return legal;
  }

  static rewrite::Value find_symbol_value(const std::string& symbol, const OperatorUse& use) {
    for (std::size_t i = 0; i < use.op.spec().attributes.size(); ++i) {
      if (use.op.spec().attributes[i].first == symbol) return use.values[i];
    }
    return std::int64_t{symbol == "i" ? 0 : symbol == "j" ? 1 : 2};
  }

  std::string make_unique_name(const std::string& name) {
    const auto n = ++names_[name];
    return n == 1 ? name : fmt::format("{}-{}", name, n);
  }

  // Adds the rules parallelize-<op>-over-<factor>.
  void add_factors(const OperatorUse& use) {
    const auto& s = get_signature(use);
    for (ops::FactorId f = 0; f < s.map.factors.size(); ++f) {
      if (s.use[f] == ops::FactorUse::kWhole) continue;
      const int out = s.map.find_output_dim(f);
      std::vector<int> dims;
      for (std::size_t i = 0; i < use.operands.size(); ++i)
        dims.push_back(s.map.find_input_dim(i, f));
      add_factor(use, s.map.factors[f].name, dims, out);
    }
  }

  static const ops::Signature& get_signature(const OperatorUse& use) {
    std::vector<Shape> sizes;
    for (const auto& t : use.operands) sizes.push_back(t.shape.sizes);
    return ops::get_signature(use.op, sizes);
  }

  void add_factor(const OperatorUse& use, const std::string& factor, const std::vector<int>& dims,
                  int out) {
    // If the factor is the same dimension of all tensors that have it, the rule holds for any
    // dimension.
    const bool same =
        out >= 0 && std::ranges::all_of(dims, [&](int d) { return d < 0 || d == out; });
    const auto name = fmt::format("parallelize-{}-over-{}", use.name, factor);
    const auto literal = format_factor_rule(use, dims, out, false);
    if (!same) return add(name, literal, use);
    const auto of_any = fmt::format("parallelize-{}-over-any", use.name);
    add(of_any, format_factor_rule(use, dims, out, true), use, name, literal);
  }

  // Returns the rule that partitions these dimensions. If `any`, the dimension is a symbol.
  static std::string format_factor_rule(const OperatorUse& use, const std::vector<int>& dims,
                                        int out, bool any) {
    const auto dim = [&](int d) { return any ? std::string("?i") : std::to_string(d); };
    Texts inputs;
    std::string condition;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 0) {
        inputs.push_back(fmt::format("(replicate {} degree=?d)", kOperands[i]));
        continue;
      }
      inputs.push_back(fmt::format("(partition {} dim={} degree=?d)", kOperands[i], dim(dims[i])));
      if (condition.empty()) {
        condition = fmt::format("divides(?d, dim({0}, {1}) / degree({0}, {1}))", kOperands[i],
                                dim(dims[i]));
      }
    }
    const auto inner = use.format_call(inputs);
    const auto outer = out >= 0 ? fmt::format("(combine {} dim={} degree=?d)", inner, dim(out))
                                : fmt::format("(reduce {} degree=?d)", inner);
    return fmt::format("{} => {} choose {}?d if {}", use.source(), outer, any ? "?i, " : "",
                       condition);
  }

  // Adds rules for operators that are linear in some operands together: they pass on partial sums
  // of these.
  void add_linear(const OperatorUse& use) {
    for (auto mask : get_signature(use).partial_inputs) {
      Texts reduced;
      Texts spread;
      for (std::size_t i = 0; i < use.operands.size(); ++i) {
        const bool partial = ((mask >> i) & 1U) != 0;
        reduced.push_back(partial ? fmt::format("(reduce {} degree=?d)", kOperands[i])
                                  : std::string(kOperands[i]));
        spread.push_back(partial ? std::string(kOperands[i])
                                 : fmt::format("(replicate {} degree=?d)", kOperands[i]));
      }
      auto partial = use;
      for (std::size_t i = 0; i < use.operands.size(); ++i) {
        if (((mask >> i) & 1U) != 0) partial.operands[i].shape.partial = 2;
      }
      add_both_directions(use.name + "-of-reduce", use.format_call(reduced),
                          fmt::format("(reduce {} degree=?d)", use.format_call(spread)), partial);
    }
  }

  void add_both_directions(const std::string& name, const std::string& a, const std::string& b,
                           const OperatorUse& use) {
    add(name, fmt::format("{} => {}", a, b), use);
    add(name + "-reversed", fmt::format("{} => {}", b, a), use);
  }

  // Adds rules in which every replica computes the same.
  void add_replicated(const OperatorUse& use) {
    Texts inputs;
    for (std::size_t i = 0; i < use.operands.size(); ++i) {
      inputs.push_back(fmt::format("(replicate {} degree=?d)", kOperands[i]));
    }
    add_both_directions(use.name + "-of-replicate", use.format_call(inputs),
                        fmt::format("(replicate {} degree=?d)", use.source()), use);
  }

  // Adds rules for operators that are linear in one operand, applied to a join.
  void add_joined(const OperatorUse& use) {
    for (auto mask : get_signature(use).partial_inputs) {
      if (std::popcount(mask) != 1) continue;
      const auto joined = static_cast<std::size_t>(std::countr_zero(mask));
      Texts inputs;
      Texts second;
      for (std::size_t i = 0; i < use.operands.size(); ++i) {
        const std::string other = i == joined ? "?v" : std::string(kOperands[i]);
        inputs.push_back(i == joined ? fmt::format("(join {} ?v)", kOperands[i])
                                     : fmt::format("(replicate {} degree=2)", kOperands[i]));
        second.push_back(other);
      }
      auto two = use;
      // ?v is numbered by its first mention.
      two.operands.insert(two.operands.begin() + static_cast<std::ptrdiff_t>(joined) + 1,
                          use.operands[joined]);
      const auto apart = fmt::format("(join {} {})", use.source(), use.format_call(second));
      add(use.name + "-of-join", fmt::format("{} => {}", use.format_call(inputs), apart), two);
      two.operands = use.operands;
      two.operands.push_back(use.operands[joined]);
      add(use.name + "-of-join-reversed", fmt::format("{} => {}", apart, use.format_call(inputs)),
          two);
    }
  }

  // Adds Figure 11b of Unity: an addition is the reduction of a join, which moves no data.
  void add_sum_of_join() {
    for (const auto& use : uses_) {
      if (use.op.name() != "add") continue;
      add("add-as-reduce-of-join",
          "(add ?x ?y) => (reduce (join ?x ?y) degree=2) if same_shape(?x, ?y)", use);
      add("reduce-of-join-as-add", "(reduce (join ?x ?y) degree=2) => (add ?x ?y)", use);
      add("join-of-two-orders", "(join ?x ?y) => (join ?y ?x)", use);
      break;
    }
  }

  struct ParallelizationOperator {
    std::string_view name;
    bool has_dim;
    std::string_view undoes;  // the operator that it cancels
  };

  static std::string format_parallelization(const ParallelizationOperator& change,
                                            const std::string& to, std::string_view dim,
                                            std::string_view degree) {
    return change.has_dim ? fmt::format("({} {} dim={} degree={})", change.name, to, dim, degree)
                          : fmt::format("({} {} degree={})", change.name, to, degree);
  }

  // Adds rules for two parallelization operators: cancelled, fused, split, exchanged, and applied
  // to a join.
  void add_chains() {
    constexpr std::array kChanges = {ParallelizationOperator{"partition", true, "combine"},
                                     ParallelizationOperator{"combine", true, "partition"},
                                     ParallelizationOperator{"replicate", false, "unreplicate"},
                                     ParallelizationOperator{"unreplicate", false, "replicate"},
                                     ParallelizationOperator{"reduce", false, ""}};
    OperatorUse use = uses_.front();
    use.operands.assign(2, TensorType{});
    use.operands[0].shape = *parse_parallel_shape("[48/4, 48/4]*4+4");
    use.operands[1] = use.operands[0];
    for (const auto& a : kChanges) {
      if (!a.undoes.empty()) {
        const auto& b = *std::ranges::find(kChanges, a.undoes, &ParallelizationOperator::name);
        add(fmt::format("{}-of-{}", b.name, a.name),
            format_parallelization(b, format_parallelization(a, "?x", "?i", "?d"), "?i", "?d") +
                " => ?x",
            use);
      }
      add(fmt::format("{}-twice", a.name),
          fmt::format(
              "{} => {}",
              format_parallelization(a, format_parallelization(a, "?x", "?i", "?d"), "?i", "?e"),
              format_parallelization(a, "?x", "?i", "?d*?e")),
          use);
      add(fmt::format("{}-in-two", a.name),
          fmt::format("{} => {} choose ?d if divides(?d, ?e)",
                      format_parallelization(a, "?x", "?i", "?e"),
                      format_parallelization(a, format_parallelization(a, "?x", "?i", "?d"), "?i",
                                             "?e/?d")),
          with_four(use));
      for (const auto& b : kChanges) {
        add(fmt::format("{}-then-{}", a.name, b.name),
            fmt::format(
                "{} => {}",
                format_parallelization(b, format_parallelization(a, "?x", "?i", "?d"), "?j", "?e"),
                format_parallelization(a, format_parallelization(b, "?x", "?j", "?e"), "?i", "?d")),
            use);
      }
      add_both_directions(fmt::format("{}-of-join", a.name),
                          format_parallelization(a, "(join ?x ?y)", "?i", "?d"),
                          fmt::format("(join {} {})", format_parallelization(a, "?x", "?i", "?d"),
                                      format_parallelization(a, "?y", "?i", "?d")),
                          use);
    }
  }

  static OperatorUse with_four(const OperatorUse& use) { return use; }

  std::vector<OperatorUse> uses_;
  std::map<std::string, std::size_t> numbers_;  // index in rules_, by text
  std::set<std::string> literals_;
  std::map<std::string, int> names_;
  std::vector<ParallelRule> rules_;
};

}  // namespace

std::vector<ParallelRule> make_parallel_rules(const OperatorSet& set) {
  return ParallelRules(set).run();
}

}  // namespace tandem::generate
