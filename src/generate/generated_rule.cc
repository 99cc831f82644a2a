#include "generate/generated_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "base/disjoint_sets.h"
#include "base/error.h"
#include "rewrite/type_table.h"

namespace tandem::generate {

using rewrite::Expression;
using rewrite::PatternId;
using rewrite::PatternNode;
using rewrite::Rule;
using rewrite::Side;
using rewrite::Value;

namespace {

std::string make_variable_name(std::size_t number) {
  constexpr std::array<std::string_view, 6> kNames = {"x", "y", "z", "u", "v", "w"};
  return number < kNames.size() ? std::string(kNames[number]) : fmt::format("x{}", number);
}

class RuleMaker {
 public:
  RuleMaker(const Formulas& formulas, const std::map<TypeId, std::int64_t>& index_types)
      : formulas_(formulas), index_types_(index_types) {}

  GeneratedRule run(const std::vector<FormulaId>& source, const std::vector<FormulaId>& target) {
    fill(result_.rule.source, source);
    fill(result_.rule.target, target);
    return std::move(result_);
  }

 private:
  void fill(Side& side, const std::vector<FormulaId>& roots) {
    images_.clear();
    for (auto root : roots) side.outputs.push_back(add(side, root));
  }

  PatternId add(Side& side, FormulaId id) {
    if (const auto known = images_.find(id); known != images_.end()) return known->second;
    const auto& f = formulas_[id];
    PatternId out = 0;
    if (f.is_variable()) {
      out = side.add({.variable = find_or_add_variable(id)});
    } else {
      std::vector<PatternId> operands;
      for (auto o : formulas_.operands(id)) operands.push_back(add(side, o));
      out = add_pattern(side, formulas_.operation(id), operands);
    }
    images_.emplace(id, out);
    return out;
  }

  PatternId add_pattern(Side& side, const GeneratorOperation& operation,
                        const std::vector<PatternId>& operands) {
    const auto& pattern = operation.symbols.empty() ? operation.pattern : operation.general;
    const auto first = result_.rule.symbols.size();
    for (std::size_t s = 0; s < operation.symbols.size(); ++s) {
      add_symbol(operation.symbols[s], operation.sizes[s]);
    }
    std::vector<PatternId> images;
    for (auto node : pattern.nodes) {
      if (node.is_variable()) {
        images.push_back(operands[node.variable]);
        continue;
      }
      for (auto& i : node.inputs) i = images[i];
      for (auto& attribute : node.attributes) shift(attribute, first);
      images.push_back(side.add(std::move(node)));
    }
    return images[pattern.outputs[0]];
  }

  void add_symbol(const std::string& name, std::int64_t size) {
    auto& names = result_.rule.symbols;
    std::string free = name;
    for (int i = 2; std::ranges::find(names, free) != names.end(); ++i) {
      free = fmt::format("{}{}", name, i);
    }
    names.push_back(free);
    result_.found.symbols.emplace_back(size);
  }

  static void shift(Expression& e, std::size_t by) {
    if (e.operation == rewrite::Operation::kSymbol) {
      e.variables[0] = static_cast<std::uint16_t>(e.variables[0] + by);
    }
    for (auto& o : e.operands) shift(o, by);
  }

  std::uint16_t find_or_add_variable(FormulaId id) {
    const auto at = std::ranges::find(variables_, id);
    const auto number = static_cast<std::uint16_t>(at - variables_.begin());
    if (at != variables_.end()) return number;
    variables_.push_back(id);
    result_.rule.tensors.push_back(make_variable_name(number));
    result_.found.tensors.push_back(formulas_.type(id));
    const auto below = index_types_.find(formulas_[id].type);
    result_.found.below.push_back(below == index_types_.end() ? 0 : below->second);
    return number;
  }

  const Formulas& formulas_;
  const std::map<TypeId, std::int64_t>& index_types_;
  GeneratedRule result_;
  std::vector<FormulaId> variables_;
  std::map<FormulaId, PatternId> images_;
};

struct Binding {
  std::vector<const TensorType*> tensors;
  explicit Binding(const Assignment& assignment) : symbols(assignment.symbols) {
    for (const auto& t : assignment.tensors) tensors.push_back(&t);
  }
  std::span<const std::optional<Value>> symbols;
  [[nodiscard]] rewrite::Bindings to_bindings() const { return {tensors, symbols}; }
};

using Types = std::vector<rewrite::TypeTable::TypeId>;

// Returns the types of the nodes, on one device. Returns nullopt if an operator does not take its
// operands.
std::optional<Types> infer_types(const Side& side, const Assignment& assignment) {
  const Binding binding(assignment);
  auto& table = rewrite::TypeTable::get_thread_local();
  Types types;
  Types inputs;
  for (const auto& node : side.nodes) {
    if (node.is_variable()) {
      types.push_back(table.intern(assignment.tensors[node.variable]));
      continue;
    }
    const auto op = table.make_op(node, binding.to_bindings());
    if (!op) return std::nullopt;
    inputs.clear();
    for (auto i : node.inputs) inputs.push_back(types[i]);
    types.push_back(table.infer_result_type(*op, inputs));
    if (types.back() == rewrite::TypeTable::kNone) return std::nullopt;
  }
  return types;
}

std::vector<Field> compute_value(const Side& side, std::size_t output, const Assignment& assignment,
                                 KernelCache& kernels) {
  std::vector<std::vector<Field>> values;
  std::vector<const Field*> pointers;
  values.reserve(assignment.tensors.size());
  for (std::size_t t = 0; t < assignment.tensors.size(); ++t) {
    values.push_back(
        draw_random_values(assignment.tensors[t], assignment.below[t], hash_combine(11, t), 0));
    pointers.push_back(values.back().data());
  }
  const auto& result = side.nodes[side.outputs[output]];
  if (result.is_variable()) return values[result.variable];
  const PatternProgram program(side, side.outputs[output], assignment.tensors, assignment.symbols,
                               kernels);
  std::vector<Field> out(program.size());
  PatternProgram::EvaluationMemory memory;
  program.run(pointers, out.data(), memory);
  return out;
}

}  // namespace

GeneratedRule make_rule(const Formulas& formulas, const std::vector<FormulaId>& source,
                        const std::vector<FormulaId>& target,
                        const std::map<TypeId, std::int64_t>& index_types) {
  return RuleMaker(formulas, index_types).run(source, target);
}

bool is_legal(const Rule& rule, const Assignment& assignment) {
  const auto source = infer_types(rule.source, assignment);
  if (!source) return false;
  const auto target = infer_types(rule.target, assignment);
  if (!target) return false;
  for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
    if ((*source)[rule.source.outputs[o]] != (*target)[rule.target.outputs[o]]) return false;
  }
  return true;
}

Verdict judge(const Rule& rule, const Assignment& assignment, KernelCache& kernels) {
  const Binding binding(assignment);
  for (const auto& c : rule.conditions) {
    if (!rewrite::holds(c, binding.to_bindings())) return Verdict::kNotLegal;
  }
  if (!is_legal(rule, assignment)) return Verdict::kNotLegal;
  for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
    if (compute_value(rule.source, o, assignment, kernels) !=
        compute_value(rule.target, o, assignment, kernels)) {
      return Verdict::kFails;
    }
  }
  return Verdict::kHolds;
}

namespace {

// Finds which sizes are tied together. The unknowns are the dimensions of variables and the symbols
// for sizes. Example: (matmul ?x ?y) ties dim(?x, 1) to dim(?y, 0).
class SizeClasses {
 public:
  explicit SizeClasses(const GeneratedRule& made) : generated_(made) {
    for (const auto& type : made.found.tensors) {
      first_of_tensor_.push_back(sets_.size());
      for (std::size_t d = 0; d < type.shape.rank(); ++d) sets_.add();
    }
    first_symbol_ = sets_.size();
    for (std::size_t s = 0; s < made.found.symbols.size(); ++s) sets_.add();
    unknowns_ = sets_.size();
    const auto a = tie_side(made.rule.source);
    const auto b = tie_side(made.rule.target);
    for (std::size_t o = 0; o < a.size() && o < b.size(); ++o) {
      for (std::size_t d = 0; d < a[o].size() && d < b[o].size(); ++d) unite(a[o][d], b[o][d]);
    }
  }

  // Returns the class number of each unknown.
  [[nodiscard]] std::vector<std::size_t> compute_classes() {
    std::vector<std::size_t> out;
    std::map<std::size_t, std::size_t> numbers;
    for (std::size_t u = 0; u < unknowns_; ++u) {
      out.push_back(numbers.emplace(sets_.root(u), numbers.size()).first->second);
    }
    return out;
  }
  [[nodiscard]] std::vector<std::int64_t> list_found_sizes() const {
    std::vector<std::int64_t> out;
    for (const auto& type : generated_.found.tensors) {
      out.insert(out.end(), type.shape.sizes.begin(), type.shape.sizes.end());
    }
    for (const auto& s : generated_.found.symbols) {
      const auto* size = std::get_if<std::int64_t>(&*s);
      out.push_back(size != nullptr ? *size : 0);
    }
    return out;
  }
  [[nodiscard]] Assignment make_assignment(const std::vector<std::int64_t>& sizes) const {
    Assignment out = generated_.found;
    std::size_t u = 0;
    for (auto& type : out.tensors) {
      Shape shape;
      for (std::size_t d = 0; d < type.shape.rank(); ++d) shape.push_back(sizes[u++]);
      type.shape = ParallelShape(shape);
    }
    for (auto& s : out.symbols) {
      if (std::holds_alternative<std::int64_t>(*s)) s = sizes[u];
      ++u;
    }
    return out;
  }

 private:
  // Joins two classes. The least number of a class represents it.
  void unite(std::size_t a, std::size_t b) {
    const auto [least, other] = std::minmax({sets_.root(a), sets_.root(b)});
    sets_.join(least, other);
  }

  // Ties the dimensions of one side. Returns the dimensions of each output.
  std::vector<std::vector<std::size_t>> tie_side(const Side& side) {
    const auto types = infer_types(side, generated_.found);
    if (!types) return {};
    const Binding binding(generated_.found);
    auto& table = rewrite::TypeTable::get_thread_local();
    const auto shape = [&](std::size_t node) -> const Shape& {
      return table.type((*types)[node]).shape.sizes;
    };
    std::vector<std::vector<std::size_t>> dims;
    for (std::size_t n = 0; n < side.nodes.size(); ++n) {
      const auto& node = side.nodes[n];
      std::vector<std::size_t> own;
      for (std::size_t d = 0; d < shape(n).rank(); ++d) {
        own.push_back(node.is_variable() ? first_of_tensor_[node.variable] + d : sets_.add());
      }
      dims.push_back(own);
      if (node.is_variable()) continue;
      tie_to_symbols(node, own);
      if (node.spec->role != ops::Role::kCompute) continue;
      std::vector<Shape> sizes;
      for (auto i : node.inputs) sizes.push_back(shape(i));
      tie_by_factors(ops::get_signature(*table.make_op(node, binding.to_bindings()), sizes), node,
                     dims);
    }
    std::vector<std::vector<std::size_t>> out;
    for (auto o : side.outputs) out.push_back(dims[o]);
    return out;
  }

  // Ties the result's sizes to the symbols in an attribute `shape`.
  void tie_to_symbols(const PatternNode& node, const std::vector<std::size_t>& own) {
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      const auto& e = node.attributes[i];
      if (node.spec->attributes[i].first != "shape" || e.operands.size() != own.size()) continue;
      for (std::size_t d = 0; d < own.size(); ++d) {
        if (e.operands[d].operation == rewrite::Operation::kSymbol) {
          unite(own[d], first_symbol_ + e.operands[d].variables[0]);
        }
      }
    }
  }

  // Ties dimensions that run over one whole factor, because they have its size.
  void tie_by_factors(const ops::Signature& s, const PatternNode& node,
                      const std::vector<std::vector<std::size_t>>& dims) {
    std::map<term::FactorId, std::size_t> of_factor;
    const auto tie_dims = [&](const term::Dims& read, const std::vector<std::size_t>& ids) {
      for (std::size_t d = 0; d < read.size(); ++d) {
        const auto& at = read[d].at;
        if (at.parts.size() != 1 || at.constant != 0 || at.parts[0].coefficient != 1) continue;
        const auto f = at.parts[0].factor;
        if (s.map.factors[f].size != read[d].size) continue;
        const auto known = of_factor.emplace(f, ids[d]).first;
        unite(known->second, ids[d]);
      }
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      tie_dims(s.map.inputs[i], dims[node.inputs[i]]);
    }
    tie_dims(s.map.output, dims.back());
  }

  const GeneratedRule& generated_;
  DisjointSets sets_;
  std::vector<std::size_t> first_of_tensor_;
  std::size_t first_symbol_ = 0;
  std::size_t unknowns_ = 0;
};

}  // namespace

std::vector<Assignment> list_larger_sizes(const GeneratedRule& made) {
  SizeClasses sizes(made);
  const auto classes = sizes.compute_classes();
  const auto found = sizes.list_found_sizes();
  const auto count = classes.empty() ? 0 : *std::ranges::max_element(classes) + 1;
  std::vector<Assignment> out = {made.found};
  for (std::int64_t factor : {2, 3}) {
    for (std::size_t c = 0; c <= count; ++c) {
      auto changed = found;
      for (std::size_t u = 0; u < found.size(); ++u) {
        if (c == count || classes[u] == c) changed[u] *= factor;
      }
      out.push_back(sizes.make_assignment(changed));
    }
  }
  return out;
}

std::vector<Assignment> list_other_sizes(const GeneratedRule& made) {
  SizeClasses sizes(made);
  const auto classes = sizes.compute_classes();
  const auto found = sizes.list_found_sizes();
  const auto count = classes.empty() ? 0 : *std::ranges::max_element(classes) + 1;
  std::vector<Assignment> out = {made.found};
  const auto add = [&](auto&& size) {
    auto changed = found;
    for (std::size_t u = 0; u < found.size(); ++u) changed[u] = size(u);
    out.push_back(sizes.make_assignment(changed));
  };
  for (std::int64_t factor : {2, 3}) {
    add([&](std::size_t u) { return found[u] * factor; });
  }
  for (std::size_t c = 0; c < count; ++c) {
    add([&](std::size_t u) { return classes[u] == c ? found[u] + 1 : found[u]; });
    add([&](std::size_t u) { return classes[u] == c ? found[u] * 2 : found[u]; });
    add([&](std::size_t u) { return classes[u] == c ? found[u] * 3 : found[u]; });
    add([&](std::size_t u) { return classes[u] == c ? 1 : found[u]; });
  }
  for (std::size_t u = 0; u < found.size(); ++u) {
    add([&](std::size_t v) { return u == v ? 1 : found[v]; });
  }
  // Give one variable the shape of another.
  for (std::size_t a = 0; a < made.found.tensors.size(); ++a) {
    for (std::size_t b = 0; b < made.found.tensors.size(); ++b) {
      if (made.found.tensors[a].shape == made.found.tensors[b].shape) continue;
      out.push_back(made.found);
      out.back().tensors[a].shape = made.found.tensors[b].shape;
    }
  }
  std::mt19937 random(1);  // NOLINT: the same every time
  constexpr int kRandom = 10;
  for (int i = 0; i < kRandom; ++i) {
    std::vector<std::int64_t> of_class(count);
    for (auto& s : of_class) s = static_cast<std::int64_t>(random() % 6 + 1);
    add([&](std::size_t u) { return of_class[classes[u]]; });
    // Every second time, also try even sizes.
    if (i % 2 == 0) add([&](std::size_t u) { return of_class[classes[u]] * 2; });
  }
  return out;
}

namespace {

std::vector<Expression> list_candidates(const GeneratedRule& made, const std::vector<bool>& bound) {
  std::vector<Expression> out;
  for (std::uint16_t s = 0; s < bound.size(); ++s) {
    if (bound[s]) out.push_back({.operation = rewrite::Operation::kSymbol, .variables = {s}});
  }
  for (std::uint16_t t = 0; t < made.found.tensors.size(); ++t) {
    for (std::size_t d = 0; d < made.found.tensors[t].shape.rank(); ++d) {
      Expression index{.literal = static_cast<std::int64_t>(d)};
      out.push_back({.operation = rewrite::Operation::kDim, .variables = {t}, .operands = {index}});
    }
  }
  return out;
}

void substitute(Expression& e, std::uint16_t symbol, const Expression& by) {
  if (e.operation == rewrite::Operation::kSymbol && e.variables[0] == symbol) {
    e = by;
    return;
  }
  for (auto& o : e.operands) substitute(o, symbol, by);
}

// Removes the symbols for which `is_used` is false.
void drop_symbols(GeneratedRule& made, const std::vector<bool>& is_used) {
  std::vector<std::uint16_t> image(is_used.size());
  GeneratedRule out = made;
  out.rule.symbols.clear();
  out.found.symbols.clear();
  for (std::size_t s = 0; s < is_used.size(); ++s) {
    image[s] = static_cast<std::uint16_t>(out.rule.symbols.size());
    if (!is_used[s]) continue;
    out.rule.symbols.push_back(made.rule.symbols[s]);
    out.found.symbols.push_back(made.found.symbols[s]);
  }
  const auto rename = [&](const auto& self, Expression& e) -> void {
    if (e.operation == rewrite::Operation::kSymbol) e.variables[0] = image[e.variables[0]];
    for (auto& o : e.operands) self(self, o);
  };
  for (auto* side : {&out.rule.source, &out.rule.target}) {
    for (auto& node : side->nodes) {
      for (auto& attribute : node.attributes) rename(rename, attribute);
    }
  }
  for (auto& c : out.rule.conditions) rename(rename, c);
  made = std::move(out);
}

}  // namespace

bool bind_open_symbols(GeneratedRule& made) {
  std::vector<bool> bound(made.rule.symbols.size());
  for (const auto& node : made.rule.source.nodes) {
    for (const auto& attribute : node.attributes) {
      rewrite::for_each_binder(attribute, [&](std::uint16_t s) { bound[s] = true; });
    }
  }
  if (std::ranges::find(bound, false) == bound.end()) return true;
  auto assignments = list_larger_sizes(made);
  std::erase_if(assignments, [&](const Assignment& a) { return !is_legal(made.rule, a); });
  for (std::uint16_t s = 0; s < bound.size(); ++s) {
    if (bound[s]) continue;
    const auto always = [&](const Expression& e) {
      return std::ranges::all_of(assignments, [&](const Assignment& a) {
        return rewrite::evaluate(e, Binding(a).to_bindings()) == a.symbols[s];
      });
    };
    const auto all = list_candidates(made, bound);
    const auto chosen = std::ranges::find_if(all, always);
    if (chosen == all.end()) return false;
    for (auto& node : made.rule.target.nodes) {
      for (auto& attribute : node.attributes) substitute(attribute, s, *chosen);
    }
  }
  drop_symbols(made, bound);
  return true;
}

}  // namespace tandem::generate
