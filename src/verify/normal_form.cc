#include "verify/normal_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "graph/graph.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "ops/signature.h"
#include "verify/algebra.h"

namespace tandem::verify {

namespace {

using term::BoundNode;
using term::Kind;

// An element of a node as a function of its indices.
struct Element {
  std::vector<IndexVar> factors;  // free in `value`, each in [0, extent)
  // A dimension: the factors that it runs over with their units, the major one first.
  struct ElementDim {
    std::vector<IndexVar> factors;
    std::vector<std::int64_t> units;
  };
  std::vector<ElementDim> dims;
  Sum value;
};

class Composer {
 public:
  explicit Composer(Algebra& algebra) : algebra_(algebra) {}

  // Returns the outputs' elements at the indices `at`, which has a list for each output.
  std::vector<Sum> run(const TypedSide& side, const std::vector<std::vector<Linear>>& at) {
    side_ = &side;
    elements_.clear();
    elements_.resize(side.nodes.size());
    for (std::size_t n = 0; n < side.nodes.size(); ++n) make_element(n);
    std::vector<Sum> out;
    for (std::size_t o = 0; o < side.outputs.size(); ++o) {
      out.push_back(algebra_.normalize(read(side.outputs[o], at[o])));
    }
    return out;
  }

 private:
  static void add_bounds(ScalarTerm& term, const Linear& e, std::int64_t size) {
    term.domain.guards.push_back(e);
    Linear below{{}, size - 1};
    below.add(e, -1);
    term.domain.guards.push_back(std::move(below));
  }

  // Returns the conditions that a read at `at` is inside a tensor of these sizes.
  static ScalarTerm make_inside_term(const Shape& sizes, const std::vector<Linear>& at) {
    ScalarTerm out;
    for (std::size_t d = 0; d < at.size(); ++d) add_bounds(out, at[d], sizes[d]);
    return out;
  }

  // Returns element `at` of node `n`, or 0 outside the tensor.
  Sum read(PatternId n, const std::vector<Linear>& at) {
    const auto& node = side_->nodes[n];
    const auto& sizes = node.type.shape.sizes;
    if (!node.op) {
      auto out = make_inside_term(sizes, at);
      out.atoms.push_back({.kind = Atom::AtomKind::kRead, .id = node.variable, .at = at});
      return {out};
    }
    switch (node.op->role()) {
      case ops::Role::kSource:
        return read_constant(node, at);
      case ops::Role::kParallel:
        return read(node.inputs[0], at);
      case ops::Role::kJoin: {
        Sum out;
        for (auto i : node.inputs) {
          const auto summand = read(i, at);
          out.insert(out.end(), summand.begin(), summand.end());
        }
        return out;
      }
      case ops::Role::kCompute:
        break;
    }
    return read_element(elements_[n], sizes, at);
  }

  Sum read_element(const Element& element, const Shape& sizes, const std::vector<Linear>& at) {
    auto out = algebra_.rename_bound_indices(element.value);
    const auto guards = make_inside_term(sizes, at).domain.guards;
    std::vector<std::pair<IndexVar, Linear>> values;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const auto& dim = element.dims[d];
      const auto digits = algebra_.compute_digits(at[d], dim.units);
      for (std::size_t f = 0; f < dim.factors.size(); ++f) {
        values.emplace_back(dim.factors[f], digits[f]);
      }
    }
    for (auto& term : out) {
      // Substitutes in two steps, since a value may mention a factor with the name of another.
      std::vector<std::pair<IndexVar, Linear>> passing;
      for (const auto& [factor, value] : values) {
        const auto name = algebra_.create_index(algebra_.extent(factor));
        substitute(term, factor, Linear::of(name));
        passing.emplace_back(name, value);
      }
      for (const auto& [name, value] : passing) substitute(term, name, value);
      for (const auto& [factor, value] : values) {
        add_bounds(term, value, algebra_.extent(factor));
      }
      term.domain.guards.insert(term.domain.guards.end(), guards.begin(), guards.end());
    }
    return out;
  }

  // Returns a constant's element at all indices together, as ops::compute_constant_element does for
  // one.
  Sum read_constant(const TypedNode& node, const std::vector<Linear>& at) {
    const auto& a = node.op->get<ops::Constant>();
    auto out = make_inside_term(node.type.shape.sizes, at);
    out.coefficient = to_field(a.value);
    if (a.kind == "eye") {
      Linear difference = at[at.size() - 2];
      difference.add(at.back(), -1);
      out.domain.zeros.push_back(std::move(difference));
    } else if (a.kind == "iota") {
      const auto axis = static_cast<std::size_t>(
          a.axis < 0 ? a.axis + static_cast<std::int64_t>(at.size()) : a.axis);
      out.atoms.push_back({.kind = Atom::AtomKind::kIndex, .at = {at[axis]}});
    }
    return {out};
  }

  void make_element(std::size_t n) {
    const auto& node = side_->nodes[n];
    if (!node.op || node.op->role() != ops::Role::kCompute) return;
    std::vector<Shape> shapes;
    shapes.reserve(node.inputs.size());
    for (auto i : node.inputs) shapes.push_back(side_->nodes[i].type.shape.sizes);
    const auto& s = ops::get_signature(*node.op, shapes);
    Element element;
    for (const auto& f : s.map.factors) element.factors.push_back(algebra_.create_index(f.size));
    Meaning meaning{node, s, element.factors, {}};
    meaning.values.resize(s.meaning.nodes.size());
    element.value = algebra_.normalize(get_value(meaning, s.meaning.nodes.size() - 1));
    for (const auto& dim : s.map.output) element.dims.push_back(make_dim(dim, element.factors));
    elements_[n] = std::move(element);
  }

  // Returns the dimension with each factor replaced by the indices that it has been split into.
  Element::ElementDim make_dim(const term::Dim& dim, const std::vector<IndexVar>& factors) const {
    Linear at;
    for (const auto& part : dim.at.parts) {
      at.add(algebra_.resolve(Linear::of(factors[part.factor])), part.coefficient);
    }
    std::ranges::sort(at.parts, std::greater{}, [](const auto& p) { return p.second; });
    Element::ElementDim out;
    for (const auto& [v, unit] : at.parts) {
      out.factors.push_back(v);
      out.units.push_back(unit);
    }
    return out;
  }

  struct Meaning {
    const TypedNode& node;
    const ops::Signature& signature;
    const std::vector<IndexVar>& factors;
    std::vector<std::optional<Sum>> values;
  };

  const Sum& get_value(Meaning& meaning, std::size_t n) {
    auto& known = meaning.values[n];
    if (!known) {
      auto value = compute(meaning, meaning.signature.meaning.nodes[n]);
      meaning.values[n] = std::move(value);
    }
    return *meaning.values[n];
  }

  std::vector<Linear> resolve_indices(const Meaning& meaning,
                                      const std::vector<term::Affine>& at) const {
    std::vector<Linear> out;
    for (const auto& e : at) {
      Linear linear{{}, e.constant};
      for (const auto& part : e.parts) {
        linear.add(Linear::of(meaning.factors[part.factor]), part.coefficient);
      }
      out.push_back(algebra_.resolve(std::move(linear)));
    }
    return out;
  }

  Sum normalize_atom(Atom atom) {
    ScalarTerm out;
    out.atoms.push_back(std::move(atom));
    return algebra_.normalize({out});
  }

  Sum compute(Meaning& meaning, const BoundNode& node) {
    switch (node.kind) {
      case Kind::kConstant:
        return make_constant_sum(to_field(node.constant));
      case Kind::kExtent:
        return count_reduced_elements(meaning, node);
      case Kind::kIndex:
        return normalize_atom(
            {.kind = Atom::AtomKind::kIndex,
             .at = {algebra_.resolve(Linear::of(meaning.factors[node.dims[0]]))}});
      case Kind::kInput: {
        const auto input = meaning.node.inputs[node.input];
        return algebra_.normalize(read(input, resolve_indices(meaning, node.at)));
      }
      case Kind::kInside: {
        const auto input = meaning.node.inputs[node.input];
        return algebra_.normalize({make_inside_term(side_->nodes[input].type.shape.sizes,
                                                    resolve_indices(meaning, node.at))});
      }
      case Kind::kKeep:
        return make_keep(meaning, node);
      case Kind::kAdd:
      case Kind::kMul:
      case Kind::kDiv:
      case Kind::kEqual:
      case Kind::kLess: {
        const auto& a = get_value(meaning, node.a);
        return combine(node.kind, a, get_value(meaning, node.b));
      }
      case Kind::kFunction:
        return normalize_atom({.kind = Atom::AtomKind::kFunction,
                               .id = static_cast<std::int64_t>(node.function),
                               .arguments = {get_value(meaning, node.a)}});
      case Kind::kSum: {
        auto out = get_value(meaning, node.a);
        for (auto v : list_reduced_indices(meaning, node)) out = algebra_.sum_over(out, v);
        return out;
      }
      case Kind::kMax: {
        const auto body = get_value(meaning, node.a);
        const auto* guard = node.has_guard ? &get_value(meaning, node.b) : nullptr;
        return algebra_.take_maximum(body, list_reduced_indices(meaning, node), guard);
      }
    }
    CHECK(false);
  }

  // Returns the result of an operation on two values.
  Sum combine(Kind kind, const Sum& a, const Sum& b) {
    switch (kind) {
      case Kind::kAdd:
        return algebra_.normalize(add_terms(a, b));
      case Kind::kMul:
        return algebra_.multiply(a, b);
      case Kind::kDiv:
        return algebra_.multiply(
            a, normalize_atom({.kind = Atom::AtomKind::kInverse, .arguments = {b}}));
      case Kind::kEqual:
        return normalize_atom(
            {.kind = Atom::AtomKind::kEqual, .arguments = {add_terms(a, negate(b))}});
      case Kind::kLess:
        return normalize_atom({.kind = Atom::AtomKind::kLess, .arguments = {a, b}});
      default:
        CHECK(false);
    }
  }

  static Sum add_terms(Sum a, const Sum& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // Returns the number of elements that a reduction combines into one.
  Sum count_reduced_elements(const Meaning& meaning, const BoundNode& node) const {
    Field count(1);
    for (auto v : list_reduced_indices(meaning, node)) {
      count = count * term::Numbers<Field>::from_index(algebra_.extent(v));
    }
    return make_constant_sum(count);
  }

  static std::vector<IndexVar> list_reduced_indices(const Meaning& meaning, const BoundNode& node) {
    std::vector<IndexVar> out;
    for (term::FactorId f = 0; f < meaning.factors.size(); ++f) {
      if ((node.over & term::bit(f)) != 0) out.push_back(meaning.factors[f]);
    }
    return out;
  }

  Sum make_keep(const Meaning& meaning, const BoundNode& node) {
    Linear flat;
    for (auto f : node.dims) {
      Linear next = Linear::of(meaning.factors[f]);
      next.add(flat, algebra_.extent(meaning.factors[f]));
      flat = std::move(next);
    }
    return normalize_atom({.kind = Atom::AtomKind::kKeep,
                           .id = node.origin,
                           .number = node.constant,
                           .at = {algebra_.resolve(std::move(flat))}});
  }

  Algebra& algebra_;
  const TypedSide* side_ = nullptr;
  std::vector<Element> elements_;
};

// Builds the forms by the laws `first`, then normalizes them once more by `last`.
FormComparison compare_by_laws(const TypedSide& source, const TypedSide& target, Laws first,
                               Laws last) {
  Algebra algebra(first);
  std::vector<std::vector<Linear>> at;
  for (auto o : source.outputs) {
    auto& dims = at.emplace_back();
    for (auto size : source.nodes[o].type.shape.sizes) {
      dims.push_back(algebra.resolve(Linear::of(algebra.create_index(size))));
    }
  }
  try {
    Composer composer(algebra);
    auto a = composer.run(source, at);
    auto b = composer.run(target, at);
    algebra.set_laws(last);
    for (std::size_t o = 0; o < a.size(); ++o) {
      // Normalizes again, since one form may have split indices that the other has not.
      if (make_key(algebra.normalize(a[o])) != make_key(algebra.normalize(b[o]))) {
        return {false, a.size() == 1 ? std::string("the normal forms differ")
                                     : fmt::format("the normal forms of output {} differ", o)};
      }
    }
    return {true, ""};
  } catch (const NotNormal& e) {
    return {false, e.what()};
  }
}

}  // namespace

FormComparison compare_forms(const TypedSide& source, const TypedSide& target) {
  auto out = compare_by_laws(source, target, Laws::kOfFields, Laws::kOfFields);
  if (out.equal) return out;
  // Few rules need more laws, and their forms are longer. The order matters: a sum of products of
  // relu is seen not to be negative only before relu is written out.
  for (const auto first : {Laws::kOfOrder, Laws::kOfFields}) {
    if (compare_by_laws(source, target, first, Laws::kOfOrder).equal) return {true, ""};
  }
  return out;
}

}  // namespace tandem::verify
