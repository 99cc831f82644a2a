#include "verify/smt.h"

#ifdef TANDEM_HAVE_Z3

#include <fmt/format.h>
#include <z3++.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/error.h"
#include "ops/op.h"
#include "verify/shape_keeping.h"

namespace tandem::verify {

using rewrite::Expression;
using rewrite::Operation;
using rewrite::PatternNode;
using rewrite::Rule;
using rewrite::Side;

namespace {

// An operator with a number of operands: one function in Z3.
struct SmtOperator {
  const ops::OpSpec* spec = nullptr;
  std::size_t operands = 0;
  auto operator<=>(const SmtOperator&) const = default;
};

SmtOperator get_operator(const PatternNode& node) { return {node.spec, node.inputs.size()}; }

std::set<SmtOperator> collect_operators(const Side& side) {
  std::set<SmtOperator> out;
  for (const auto& node : side.nodes) {
    if (!node.is_variable()) out.insert(get_operator(node));
  }
  return out;
}

// The functions and sorts that describe tensors. All numbers have the sort of integers, and so do
// lists and words in attributes. A word is an integer of its own, a list is a function of its
// items, and a real number is a constant.
class Vocabulary {
 public:
  Vocabulary()
      : tensor_(z3_.uninterpreted_sort("Tensor")), shape_(z3_.uninterpreted_sort("Shape")) {}

  z3::context& z3() { return z3_; }
  z3::expr tensor(const std::string& name) { return z3_.constant(name.c_str(), tensor_); }
  z3::expr number(std::int64_t value) { return z3_.int_val(value); }
  z3::expr symbol(const std::string& name) { return z3_.int_const(name.c_str()); }

  z3::expr legal(const z3::expr& t) { return call("legal", z3_.bool_sort(), {t}); }
  z3::expr shape(const z3::expr& t) { return call("shape", shape_, {t}); }
  z3::expr rank(const z3::expr& t) { return call("rank", z3_.int_sort(), {shape(t)}); }
  z3::expr dim(const z3::expr& t, const z3::expr& i) {
    return call("dim", z3_.int_sort(), {shape(t), i});
  }
  z3::expr degree(const z3::expr& t, const z3::expr& i) {
    return call("degree", z3_.int_sort(), {t, i});
  }
  z3::expr replicas(const z3::expr& t) { return call("replicas", z3_.int_sort(), {t}); }
  z3::expr partial(const z3::expr& t) { return call("partial", z3_.int_sort(), {t}); }
  z3::expr function(const std::string& name, const std::vector<z3::expr>& arguments) {
    return call(name, z3_.int_sort(), arguments);
  }

  z3::expr apply(const SmtOperator& op, const std::vector<z3::expr>& arguments) {
    return call(fmt::format("{}/{}", op.spec->name, op.operands), tensor_, arguments);
  }
  // Returns the shape of a result as a function of the shapes of the operands.
  z3::expr result_shape(const SmtOperator& op, std::vector<z3::expr> arguments) {
    for (auto i = op.spec->attributes.size(); i < arguments.size(); ++i) {
      arguments[i] = shape(arguments[i]);
    }
    return call(fmt::format("{}/{}'s shape", op.spec->name, op.operands), shape_, arguments);
  }

  z3::expr literal(const rewrite::Value& value) {
    if (const auto* i = std::get_if<std::int64_t>(&value)) return number(*i);
    if (const auto* d = std::get_if<double>(&value)) return symbol(fmt::format("real {}", *d));
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      std::vector<z3::expr> items;
      items.reserve(list->size());
      for (auto i : *list) items.push_back(number(i));
      return this->list(items);
    }
    constexpr std::int64_t kFirstWord = std::int64_t{1} << 40U;  // larger than any size
    const auto [at, fresh] = words_.emplace(std::get<std::string>(value), words_.size());
    return number(kFirstWord + static_cast<std::int64_t>(at->second));
  }
  z3::expr list(const std::vector<z3::expr>& items) {
    return function(fmt::format("list/{}", items.size()), items);
  }

 private:
  z3::expr call(const std::string& name, const z3::sort& range,
                const std::vector<z3::expr>& arguments) {
    z3::expr_vector list(z3_);
    for (const auto& a : arguments) list.push_back(a);
    auto known = functions_.find(name);
    if (known == functions_.end()) {
      z3::sort_vector domain(z3_);
      for (const auto& a : arguments) domain.push_back(a.get_sort());
      known = functions_.emplace(name, z3_.function(name.c_str(), domain, range)).first;
    }
    return known->second(list);
  }

  z3::context z3_;
  z3::sort tensor_;
  z3::sort shape_;
  std::map<std::string, z3::func_decl> functions_;
  std::map<std::string, std::size_t> words_;
};

// A rule as Z3 expressions, for one set of names of its variables.
class Translation {
 public:
  Translation(Vocabulary& words, const Rule& rule, const std::string& prefix) : words_(words) {
    for (const auto& name : rule.tensors) tensors_.push_back(words.tensor(prefix + name));
    for (const auto& name : rule.symbols) symbols_.push_back(words.symbol(prefix + name));
    source_ = translate(rule.source);
    // This also adds the conditions under which the target's attributes have values.
    target_ = translate(rule.target);
    for (const auto& condition : rule.conditions) conditions_.push_back(translate_truth(condition));
  }

  [[nodiscard]] const std::vector<z3::expr>& source() const { return source_; }  // by node
  [[nodiscard]] const std::vector<z3::expr>& target() const { return target_; }
  [[nodiscard]] const std::vector<z3::expr>& conditions() const { return conditions_; }
  [[nodiscard]] const std::vector<z3::expr>& symbols() const { return symbols_; }

  [[nodiscard]] std::vector<z3::expr> variables() const {
    auto out = tensors_;
    out.insert(out.end(), symbols_.begin(), symbols_.end());
    return out;
  }

  z3::expr translate_measure(const Measure& m) {
    using Kind = Measure::MeasureKind;
    const auto index = static_cast<std::size_t>(m.number);
    if (m.kind == Kind::kNumber) return words_.number(m.number);
    if (m.kind == Kind::kSymbol) return symbols_[index];
    const auto t = at(m.place);
    if (m.kind == Kind::kRank) return words_.rank(t);
    const auto i = m.at_symbol ? symbols_[index] : words_.number(m.number);
    return words_.dim(t, i);
  }
  [[nodiscard]] const z3::expr& at(PlaceInRule place) const {
    return (place.in_target ? target_ : source_)[place.node];
  }

 private:
  std::vector<z3::expr> translate(const Side& side) {
    std::vector<z3::expr> out;
    out.reserve(side.nodes.size());
    for (const auto& node : side.nodes) {
      if (node.is_variable()) {
        out.push_back(tensors_[node.variable]);
        continue;
      }
      std::vector<z3::expr> arguments;
      arguments.reserve(node.attributes.size() + node.inputs.size());
      for (const auto& a : node.attributes) arguments.push_back(translate_number(a));
      for (auto input : node.inputs) arguments.push_back(out[input]);
      out.push_back(words_.apply(get_operator(node), arguments));
    }
    return out;
  }

  std::vector<z3::expr> translate_numbers(const std::vector<Expression>& operands) {
    std::vector<z3::expr> out;
    out.reserve(operands.size());
    for (const auto& operand : operands) out.push_back(translate_number(operand));
    return out;
  }

  z3::expr translate_number(const Expression& e) {
    if (e.operation == Operation::kLiteral) return words_.literal(e.literal);
    if (e.operation == Operation::kSymbol) return symbols_[e.variables[0]];
    const auto of = [&](std::size_t i) -> const z3::expr& { return tensors_[e.variables[i]]; };
    const auto operands = translate_numbers(e.operands);
    switch (e.operation) {
      case Operation::kList:
        return words_.list(operands);
      case Operation::kDim:
        return words_.dim(of(0), operands[0]);
      case Operation::kRank:
        return words_.rank(of(0));
      case Operation::kDegree:
        return words_.degree(of(0), operands[0]);
      case Operation::kReplicas:
        return words_.replicas(of(0));
      case Operation::kPartial:
        return words_.partial(of(0));
      case Operation::kAdd:
        return operands[0] + operands[1];
      case Operation::kSubtract:
        return operands[0] - operands[1];
      case Operation::kMultiply:
        return operands[0] * operands[1];
      case Operation::kNegate:
        return -operands[0];
      case Operation::kDivide:
        return quotient(operands[0], operands[1]);
      case Operation::kRemainder:
        return remainder(operands[0], operands[1]);
      default:
        throw UserError("rule", "", "a truth value stands where a number is needed");
    }
  }

  // A remainder by a variable divisor is an unknown function.
  z3::expr remainder(const z3::expr& a, const z3::expr& b) {
    return b.is_numeral() ? z3::mod(a, b) : words_.function("remainder", {a, b});
  }
  z3::expr quotient(const z3::expr& a, const z3::expr& b) {
    conditions_.push_back(remainder(a, b) == 0);
    return b.is_numeral() ? a / b : words_.function("quotient", {a, b});
  }

  z3::expr translate_truth(const Expression& e) {
    const auto both = [&](auto make) {
      const auto operands = translate_numbers(e.operands);
      return make(operands[0], operands[1]);
    };
    switch (e.operation) {
      case Operation::kNot:
        return !translate_truth(e.operands[0]);
      case Operation::kAnd:
        return translate_truth(e.operands[0]) && translate_truth(e.operands[1]);
      case Operation::kOr:
        return translate_truth(e.operands[0]) || translate_truth(e.operands[1]);
      case Operation::kSameShape:
        return words_.shape(tensors_[e.variables[0]]) == words_.shape(tensors_[e.variables[1]]);
      case Operation::kEqual:
        return both([](const auto& a, const auto& b) { return a == b; });
      case Operation::kNotEqual:
        return both([](const auto& a, const auto& b) { return a != b; });
      case Operation::kLess:
        return both([](const auto& a, const auto& b) { return a < b; });
      case Operation::kAtMost:
        return both([](const auto& a, const auto& b) { return a <= b; });
      case Operation::kDivides:
        return both([this](const auto& d, const auto& n) { return remainder(n, d) == 0; });
      default:
        return translate_number(e) == words_.literal(std::string("true"));
    }
  }

  Vocabulary& words_;
  std::vector<z3::expr> tensors_;
  std::vector<z3::expr> symbols_;
  std::vector<z3::expr> source_;
  std::vector<z3::expr> target_;
  std::vector<z3::expr> conditions_;
};

z3::expr make_conjunction(z3::context& z3, const std::vector<z3::expr>& parts) {
  z3::expr_vector list(z3);
  for (const auto& part : parts) list.push_back(part);
  return z3::mk_and(list);
}

// Quantifies `body` over `variables`. Z3 instantiates it at terms that match all of `triggers`.
z3::expr for_all(z3::context& z3, const std::vector<z3::expr>& variables,
                 const std::vector<z3::expr>& triggers, const z3::expr& body) {
  if (variables.empty()) return body;
  std::vector<Z3_app> bound(variables.begin(), variables.end());
  std::vector<Z3_ast> terms(triggers.begin(), triggers.end());
  const auto pattern = Z3_mk_pattern(z3, static_cast<unsigned>(terms.size()), terms.data());
  z3.check_error();
  const z3::ast owner(z3, Z3_pattern_to_ast(z3, pattern));
  const auto out = Z3_mk_forall_const(z3, 0, static_cast<unsigned>(bound.size()), bound.data(), 1,
                                      &pattern, body);
  z3.check_error();
  return {z3, out};
}

// Returns the statement that the source's outputs equal the target's.
z3::expr make_outputs_equal(z3::context& z3, const Rule& rule, const Translation& t) {
  std::vector<z3::expr> parts;
  for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
    parts.push_back(t.source()[rule.source.outputs[o]] == t.target()[rule.target.outputs[o]]);
  }
  return make_conjunction(z3, parts);
}

std::vector<z3::expr> collect_outputs(const Side& side, const std::vector<z3::expr>& nodes) {
  std::vector<z3::expr> out;
  out.reserve(side.outputs.size());
  for (auto output : side.outputs) out.push_back(nodes[output]);
  return out;
}

// The statement that is added to the known ones in order to find a contradiction.
enum class Goal : std::uint8_t { kSidesDiffer, kNone };

SmtAnswer run_solver(z3::solver& solver) {
  SmtAnswer out;
  const auto begin = std::chrono::steady_clock::now();
  const auto result = solver.check();
  out.time =
      Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  out.proved = result == z3::unsat;
  if (out.proved) {
    for (const auto& name : solver.unsat_core()) out.used.push_back(name.decl().name().str());
    std::ranges::sort(out.used);
  } else if (result == z3::unknown) {
    out.reason = solver.reason_unknown();
  } else {
    out.reason = "the properties allow them to differ";
  }
  return out;
}

}  // namespace

struct SmtProver::ProverState {
  struct Property {
    Rule rule;
    z3::expr axiom;
    std::set<SmtOperator> needs;   // operators of the source
    std::set<SmtOperator> brings;  // operators of the target
  };

  Vocabulary words;
  std::vector<Property> properties;
  std::map<SmtOperator, std::vector<z3::expr>> laws;  // laws of shapes and legality, by operator

  explicit ProverState(std::span<const Rule> rules) {
    for (const auto& rule : rules) {
      properties.push_back(
          {rule, make_axiom(rule), collect_operators(rule.source), collect_operators(rule.target)});
    }
  }

  // Returns the property as an axiom. All illegal tensors are one tensor, which is not legal.
  // `legal` is therefore a function of values.
  z3::expr make_axiom(const Rule& rule) {
    CHECK(rule.choices.empty(), rule.name, "a property chooses nothing");
    const Translation t(words, rule, "");
    auto given = t.conditions();
    const auto outputs = collect_outputs(rule.source, t.source());
    for (const auto& output : outputs) given.push_back(words.legal(output));
    const auto body =
        z3::implies(make_conjunction(words.z3(), given), make_outputs_equal(words.z3(), rule, t));
    return for_all(words.z3(), t.variables(), outputs, body);
  }

  const std::vector<z3::expr>& get_laws(const SmtOperator& op) {
    const auto known = laws.find(op);
    return known != laws.end() ? known->second : laws.emplace(op, make_laws(op)).first->second;
  }

  std::vector<z3::expr> make_laws(const SmtOperator& op) {
    std::vector<z3::expr> out;
    if (op.operands == 0) return out;
    const auto attributes = op.spec->attributes.size();
    std::vector<z3::expr> arguments;
    for (std::size_t i = 0; i < attributes; ++i) {
      arguments.push_back(words.symbol(fmt::format("a{}", i)));
    }
    for (std::size_t i = 0; i < op.operands; ++i) {
      arguments.push_back(words.tensor(fmt::format("t{}", i)));
    }
    const auto result = words.apply(op, arguments);
    const auto legal = words.legal(result);
    const auto shape = words.shape(result);
    std::vector<z3::expr> strict;
    for (auto i = attributes; i < arguments.size(); ++i) {
      strict.push_back(words.legal(arguments[i]));
    }
    auto& z3 = words.z3();
    out.push_back(
        for_all(z3, arguments, {legal}, z3::implies(legal, make_conjunction(z3, strict))));
    const auto operand_shape = words.shape(arguments[attributes]);
    const auto keeps = find_shape_keeping(*op.spec, op.operands);
    if (keeps == ShapeKeeping::kAlways) {
      out.push_back(for_all(z3, arguments, {shape}, z3::implies(legal, shape == operand_shape)));
      return out;
    }
    out.push_back(for_all(z3, arguments, {shape}, shape == words.result_shape(op, arguments)));
    if (keeps == ShapeKeeping::kOfEqual) {
      std::vector<z3::expr> given = {legal};
      for (auto i = attributes + 1; i < arguments.size(); ++i) {
        given.push_back(words.shape(arguments[i]) == operand_shape);
      }
      out.push_back(for_all(z3, arguments, {shape},
                            z3::implies(make_conjunction(z3, given), shape == operand_shape)));
    }
    return out;
  }

  z3::solver make_solver(Seconds limit) {
    z3::solver solver(words.z3(), z3::solver::simple());
    z3::params p(words.z3());
    p.set("timeout", static_cast<unsigned>(limit.value * 1000));
    p.set("mbqi", false);
    // Otherwise an interrupt ends the query but not the command. With several threads, one may even
    // leave Z3's handler installed for good.
    p.set("ctrl_c", false);
    p.set("auto_config", false);
    p.set("arith.nl", false);  // products of symbols are compared as written
    solver.set(p);
    return solver;
  }

  // Adds the properties that can matter for terms of these operators, and the laws of the latter.
  void add_properties(z3::solver& solver, std::set<SmtOperator> operators,
                      std::span<const std::string> excluded) {
    std::vector<bool> added(properties.size());
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < properties.size(); ++i) {
        const auto& p = properties[i];
        if (added[i] || !std::ranges::includes(operators, p.needs)) continue;
        if (std::ranges::find(excluded, p.rule.name) != excluded.end()) continue;
        added[i] = changed = true;
        operators.insert(p.brings.begin(), p.brings.end());
        solver.add(p.axiom, p.rule.name.c_str());
      }
    }
    for (const auto& op : operators) {
      for (const auto& law : get_laws(op)) solver.add(law);
    }
  }

  void add_facts(z3::solver& solver, Translation& t, const SizeFacts& facts) {
    for (const auto& [a, b] : facts.equal)
      solver.add(t.translate_measure(a) == t.translate_measure(b));
    for (const auto& [m, least] : facts.at_least) {
      solver.add(t.translate_measure(m) >= words.number(least));
    }
    for (const auto& [a, b] : facts.same_shape) {
      solver.add(words.shape(t.at(a)) == words.shape(t.at(b)));
    }
  }

  SmtAnswer prove(std::span<const std::string> excluded, const Rule& rule, const SizeFacts& facts,
                  Seconds limit, Goal goal = Goal::kSidesDiffer) {
    Translation t(words, rule, "!");
    auto solver = make_solver(limit);
    auto operators = collect_operators(rule.source);
    operators.merge(collect_operators(rule.target));
    add_properties(solver, std::move(operators), excluded);
    add_facts(solver, t, facts);
    add_legal(solver, t);
    if (goal == Goal::kSidesDiffer) solver.add(!make_outputs_equal(words.z3(), rule, t));
    return run_solver(solver);
  }

  void add_legal(z3::solver& solver, const Translation& t) {
    for (const auto& condition : t.conditions()) solver.add(condition);
    for (const auto& node : t.source()) solver.add(words.legal(node));
    for (const auto& node : t.target()) solver.add(words.legal(node));
  }
};

bool SmtProver::is_available() { return true; }

SmtProver::SmtProver(std::span<const Rule> properties)
    : state_(std::make_unique<ProverState>(properties)) {}

SmtAnswer SmtProver::prove_without(std::span<const std::string> excluded, const Rule& rule,
                                   const SizeFacts& facts, Seconds limit) const {
  try {
    auto out = state_->prove(excluded, rule, {}, limit);
    const auto left = limit - out.time;
    if (out.proved || facts.is_empty() || left.value <= 0) return out;
    const auto begin = out.time;
    out = state_->prove(excluded, rule, facts, left);
    out.time += begin;
    out.needs_sizes = out.proved;
    // If sizes and properties contradict each other, any rule would be proved.
    if (out.proved && state_->prove(excluded, rule, facts, left, Goal::kNone).proved) {
      SmtAnswer vacuous;
      vacuous.reason = "the sizes of its instances contradict the properties";
      return vacuous;
    }
    return out;
  } catch (const z3::exception& e) {
    SmtAnswer failed;
    failed.reason = e.msg();
    return failed;
  }
}

SmtAnswer SmtProver::find_contradiction(Seconds limit) const {
  try {
    auto& words = state_->words;
    auto solver = state_->make_solver(limit);
    std::set<SmtOperator> operators;
    for (const auto& p : state_->properties) {
      operators.insert(p.needs.begin(), p.needs.end());
      const Translation t(words, p.rule, p.rule.name + "!");
      for (const auto& condition : t.conditions()) solver.add(condition);
      for (const auto& node : t.source()) solver.add(words.legal(node));
      z3::expr_vector tensors(words.z3());
      for (std::size_t i = 0; i < p.rule.tensors.size(); ++i) tensors.push_back(t.variables()[i]);
      if (tensors.size() > 1) solver.add(z3::distinct(tensors));
    }
    state_->add_properties(solver, std::move(operators), {});
    return run_solver(solver);
  } catch (const z3::exception& e) {
    SmtAnswer failed;
    failed.reason = e.msg();
    return failed;
  }
}

#else

namespace tandem::verify {

struct SmtProver::ProverState {};

bool SmtProver::is_available() { return false; }

SmtProver::SmtProver(std::span<const rewrite::Rule> /*properties*/) {}

SmtAnswer SmtProver::prove_without(std::span<const std::string> /*excluded*/,
                                   const rewrite::Rule& /*rule*/, const SizeFacts& /*facts*/,
                                   Seconds /*limit*/) const {
  return {.reason = "built without Z3"};
}

SmtAnswer SmtProver::find_contradiction(Seconds /*limit*/) const {
  return {.reason = "built without Z3"};
}

#endif

SmtProver::SmtProver(SmtProver&&) noexcept = default;
SmtProver& SmtProver::operator=(SmtProver&&) noexcept = default;
SmtProver::~SmtProver() = default;

SmtAnswer SmtProver::prove(const rewrite::Rule& rule, const SizeFacts& facts, Seconds limit) const {
  return prove_without({}, rule, facts, limit);
}

}  // namespace tandem::verify
