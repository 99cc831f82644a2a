#include "verify/layouts.h"

#include <algorithm>

#include "ops/registry.h"
#include "ops/signature.h"
#include "verify/linear_system.h"

namespace tandem::verify {

namespace {

using rewrite::Expression;
using rewrite::Operation;
using rewrite::PatternNode;
using Logarithm = LinearSystem::AffineForm;

constexpr std::size_t kMostSystems = 2000;  // limit on systems solved for a pattern

bool is_compute(const PatternNode& node) {
  return !node.is_variable() && node.spec->role == ops::Role::kCompute;
}

bool is_supported(const PatternNode& node) {
  const ops::OpSpec* const parallel[] = {&ops::kPartition, &ops::kCombine,     &ops::kReplicate,
                                         &ops::kReduce,    &ops::kUnreplicate, &ops::kSend};
  return node.is_variable() || node.spec->role != ops::Role::kParallel ||
         std::ranges::find(parallel, node.spec) != std::end(parallel);
}

bool mentions_layouts(const Expression& expression) {
  bool out = false;
  rewrite::for_each_part(expression, [&](const Expression& part) {
    out = out || part.operation == Operation::kDegree || part.operation == Operation::kReplicas ||
          part.operation == Operation::kPartial;
  });
  return out;
}

const Expression& get_attribute(const PatternNode& node, std::string_view name) {
  const auto& all = node.spec->attributes;
  const auto at = std::ranges::find(all, name, [](const auto& pair) { return pair.first; });
  return node.attributes[static_cast<std::size_t>(at - all.begin())];
}

// A rule whose sides are both the source without parallelization operators. Joins become sums.
struct Erased {
  Rule rule;
  std::vector<rewrite::PatternId> nodes;  // by node of the source

  explicit Erased(const Rule& from) : rule(from) {
    rule.choices.clear();
    std::erase_if(rule.conditions, mentions_layouts);
    Side side;
    for (const auto& node : from.source.nodes) {
      PatternNode copy = node;
      for (auto& input : copy.inputs) input = nodes[input];
      if (is_compute(node) || node.is_variable()) {
        nodes.push_back(side.add(std::move(copy)));
      } else if (node.spec->role == ops::Role::kJoin) {
        auto sum = copy.inputs[0];
        for (std::size_t i = 1; i < copy.inputs.size(); ++i) {
          sum = side.add({.spec = &ops::kAdd, .inputs = {sum, copy.inputs[i]}});
        }
        nodes.push_back(sum);
      } else {
        nodes.push_back(copy.inputs[0]);
      }
    }
    for (auto output : from.source.outputs) side.outputs.push_back(nodes[output]);
    rule.source = side;
    rule.target = std::move(side);
  }
};

// Logarithms of a tensor's degrees, replicas and partial sums. The logarithm of 2 is 1.
struct LogLayout {
  std::vector<Logarithm> degrees;
  Logarithm replicas;
  Logarithm partial;
};

// The layouts of the source at one choice of sizes.
class Layouts {
 public:
  Layouts(const Rule& rule, const Instance& instance, const Erased& erased, const TypedSide& sizes)
      : rule_(rule), instance_(instance), erased_(erased), sizes_(sizes) {
    layouts_.resize(rule.source.nodes.size());
  }

  // Returns how many nodes are legal together in some layout, as far as the equations show.
  std::size_t count_legal_nodes() {
    visit(0);
    return farthest_;
  }

 private:
  void visit(std::size_t n) {
    farthest_ = std::max(farthest_, n);
    if (is_over_limit()) farthest_ = layouts_.size();
    if (farthest_ == layouts_.size()) return;
    const auto& node = rule_.source.nodes[n];
    if (is_compute(node)) return visit_compute(n);
    const auto size = system_.size();
    if (node.is_variable()) {
      layouts_[n] = make_unknown_layout(n);
    } else if (!add_parallel(n)) {
      return;
    }
    visit_next_if_solvable(n);
    system_.shrink(size);
  }

  void visit_next_if_solvable(std::size_t n) {
    ++solved_;
    if (system_.may_have_solution()) visit(n + 1);
  }

  [[nodiscard]] bool is_over_limit() const { return solved_ > kMostSystems; }

  [[nodiscard]] const TypedNode& get_typed_node(std::size_t n) const {
    return sizes_.nodes[erased_.nodes[n]];
  }

  // Returns a layout of new unknowns. Each variable has one node in a side.
  LogLayout make_unknown_layout(std::size_t n) {
    LogLayout out;
    for (std::size_t d = 0; d < get_typed_node(n).type.shape.rank(); ++d) {
      out.degrees.push_back(system_.add_variable());
    }
    out.replicas = system_.add_variable();
    out.partial = system_.add_variable();
    return out;
  }

  // Returns the logarithm of a degree, which is 1 or more. The logarithm of another prime is at
  // least that of 2.
  Logarithm make_logarithm(std::int64_t n) {
    Logarithm out;
    for (std::int64_t prime = 2; n > 1; ++prime) {
      if (prime * prime > n) prime = n;
      for (; n % prime == 0; n /= prime) {
        out.constant += 1;
        if (prime == 2) continue;
        const auto [at, fresh] = primes_.try_emplace(prime);
        if (fresh) at->second = system_.add_variable();
        out.add(at->second);
      }
    }
    return out;
  }

  Logarithm make_logarithm(const Expression& e) {
    if (e.operation == Operation::kSymbol) {
      const auto [at, fresh] = symbols_.try_emplace(e.variables[0]);
      if (fresh) at->second = system_.add_variable();
      return at->second;
    }
    const auto* n =
        e.operation == Operation::kLiteral ? std::get_if<std::int64_t>(&e.literal) : nullptr;
    return n != nullptr && *n > 0 ? make_logarithm(*n) : system_.add_variable();
  }

  // Returns `from` minus `what`, as an unknown that is not negative.
  Logarithm subtract(const Logarithm& from, const Logarithm& what) {
    auto out = system_.add_variable();
    system_.add_equation(from, Logarithm(out).add(what));
    return out;
  }

  // Returns the dimension that an operator names, or nullopt if the tensor has no such dimension.
  [[nodiscard]] std::optional<std::size_t> find_dim(const PatternNode& node,
                                                    std::size_t rank) const {
    std::vector<const TensorType*> tensors;
    for (const auto& t : instance_.tensors) tensors.push_back(&t);
    const auto value = rewrite::evaluate(get_attribute(node, "dim"), {tensors, instance_.symbols});
    const auto* n = value ? std::get_if<std::int64_t>(&*value) : nullptr;
    if (n == nullptr || *n < 0 || *n >= static_cast<std::int64_t>(rank)) return std::nullopt;
    return static_cast<std::size_t>(*n);
  }

  // Adds a parallelization operator or a join. Returns false if the operator does not fit.
  bool add_parallel(std::size_t n) {
    const auto& node = rule_.source.nodes[n];
    auto layout = layouts_[node.inputs[0]];
    if (node.spec->role == ops::Role::kJoin) {
      for (auto i : node.inputs) equate(layout, layouts_[i]);
      layout.partial.add(make_logarithm(static_cast<std::int64_t>(node.inputs.size())));
    } else if (node.spec == &ops::kReplicate) {
      layout.replicas.add(make_logarithm(get_attribute(node, "degree")));
    } else if (node.spec == &ops::kUnreplicate) {
      layout.replicas = subtract(layout.replicas, make_logarithm(get_attribute(node, "degree")));
    } else if (node.spec == &ops::kReduce) {
      layout.partial = subtract(layout.partial, make_logarithm(get_attribute(node, "degree")));
    } else if (node.spec == &ops::kPartition || node.spec == &ops::kCombine) {
      const auto dim = find_dim(node, layout.degrees.size());
      if (!dim) return false;
      auto& degree = layout.degrees[*dim];
      const auto change = make_logarithm(get_attribute(node, "degree"));
      degree = node.spec == &ops::kCombine ? subtract(degree, change) : degree.add(change);
    }
    layouts_[n] = std::move(layout);
    return true;
  }

  void equate(const LogLayout& a, const LogLayout& b) {
    for (std::size_t d = 0; d < std::min(a.degrees.size(), b.degrees.size()); ++d) {
      system_.add_equation(a.degrees[d], b.degrees[d]);
    }
    system_.add_equation(a.replicas, b.replicas);
    system_.add_equation(a.partial, b.partial);
  }

  // Visits the node once for each set of operands through which partial sums may pass.
  void visit_compute(std::size_t n) {
    std::vector<Shape> sizes;
    for (auto i : rule_.source.nodes[n].inputs) sizes.push_back(get_typed_node(i).type.shape.sizes);
    const auto& s = ops::get_signature(*get_typed_node(n).op, sizes);
    auto masks = s.partial_inputs;
    if (masks.empty()) masks.push_back(0);
    for (auto mask : masks) {
      const auto size = system_.size();
      add_compute(n, s, mask);
      visit_next_if_solvable(n);
      system_.shrink(size);
    }
  }

  // Adds equations that follow ops::infer_grid for the operands and ops::compute_output_shape for
  // the result.
  void add_compute(std::size_t n, const ops::Signature& s, term::InputMask through_inputs) {
    const auto factors = make_factor_degrees(s);
    const auto through = through_inputs == 0 ? Logarithm{} : system_.add_variable();
    const auto replicas = system_.add_variable();
    const auto degrees_of = [&](const term::Dims& dims) {
      std::vector<Logarithm> out(dims.size());
      for (std::size_t d = 0; d < dims.size(); ++d) {
        for (auto f : dims[d].carriers) out[d].add(factors[f]);
      }
      return out;
    };
    // Returns the logarithm of the degrees of all factors that no dimension carries.
    const auto lacking = [&](const term::Dims& dims) {
      Logarithm out;
      for (std::size_t f = 0; f < factors.size(); ++f) {
        const bool has = std::ranges::any_of(dims, [&](const term::Dim& dim) {
          return std::ranges::find(dim.carriers, f) != dim.carriers.end();
        });
        if (!has) out.add(factors[f]);
      }
      return out;
    };
    const auto& inputs = rule_.source.nodes[n].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool carries = ((through_inputs >> i) & 1U) != 0;
      LogLayout operand{degrees_of(s.map.inputs[i]), lacking(s.map.inputs[i]), {}};
      operand.replicas.add(replicas);
      (carries ? operand.partial : operand.replicas).add(through);
      equate(operand, layouts_[inputs[i]]);
    }
    layouts_[n] = {degrees_of(s.map.output), replicas, lacking(s.map.output).add(through)};
  }

  // Returns the logarithms of the factors' degrees. Factors that must be whole, or that no operand
  // shows, have degree 1.
  std::vector<Logarithm> make_factor_degrees(const ops::Signature& s) {
    std::vector<Logarithm> out(s.map.factors.size());
    for (std::size_t f = 0; f < out.size(); ++f) {
      bool shown = false;
      for (std::size_t i = 0; i < s.map.inputs.size(); ++i) {
        shown = shown || s.map.find_input_dim(i, static_cast<ops::FactorId>(f)) >= 0;
      }
      if (shown && s.use[f] != ops::FactorUse::kWhole) out[f] = system_.add_variable();
    }
    return out;
  }

  const Rule& rule_;
  const Instance& instance_;
  const Erased& erased_;
  const TypedSide& sizes_;
  LinearSystem system_;
  std::vector<LogLayout> layouts_;  // by node of the source
  std::map<std::int64_t, Logarithm> primes_;
  std::map<std::uint16_t, Logarithm> symbols_;
  std::size_t farthest_ = 0;
  std::size_t solved_ = 0;
};

}  // namespace

std::optional<rewrite::PatternId> find_illegal_node(const Rule& rule, const PatternLimits& limits) {
  for (const auto& node : rule.source.nodes) {
    if (std::ranges::any_of(node.attributes, mentions_layouts) || !is_supported(node)) return {};
  }
  const Erased erased(rule);
  const auto patterns = find_patterns(erased.rule, limits);
  std::optional<std::size_t> legal;
  for (const auto& base : patterns.bases) {
    const auto sizes = type_side(erased.rule.source, base);
    if (!sizes) return {};
    const auto nodes = Layouts(rule, base, erased, *sizes).count_legal_nodes();
    if (nodes == rule.source.nodes.size()) return {};
    legal = std::max(legal.value_or(0), nodes);
  }
  if (!legal) return {};
  return static_cast<rewrite::PatternId>(*legal);
}

}  // namespace tandem::verify
