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
  struct Dim {
    std::vector<IndexVar> factors;
    std::vector<std::int64_t> units;
  };
  std::vector<Dim> dims;
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
    for (std::size_t n = 0; n < side.nodes.size(); ++n) make(n);
    std::vector<Sum> out;
    for (std::size_t o = 0; o < side.outputs.size(); ++o) {
      out.push_back(algebra_.normal(read(side.outputs[o], at[o])));
    }
    return out;
  }

 private:
  static void keep_inside(ScalarTerm& term, const Linear& e, std::int64_t size) {
    term.domain.guards.push_back(e);
    Linear below{{}, size - 1};
    below.add(e, -1);
    term.domain.guards.push_back(std::move(below));
  }

  // Returns the conditions that a read at `at` is inside a tensor of these sizes.
  static ScalarTerm inside(const Shape& sizes, const std::vector<Linear>& at) {
    ScalarTerm out;
    for (std::size_t d = 0; d < at.size(); ++d) keep_inside(out, at[d], sizes[d]);
    return out;
  }

  // Returns element `at` of node `n`, or 0 outside the tensor.
  Sum read(PatternId n, const std::vector<Linear>& at) {
    const auto& node = side_->nodes[n];
    const auto& sizes = node.type.shape.sizes;
    if (!node.op) {
      auto out = inside(sizes, at);
      out.atoms.push_back({.kind = Atom::Kind::kRead, .id = node.variable, .at = at});
      return {out};
    }
    switch (node.op->role()) {
      case ops::Role::kSource:
        return constant(node, at);
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
    return computed(elements_[n], sizes, at);
  }

  Sum computed(const Element& element, const Shape& sizes, const std::vector<Linear>& at) {
    auto out = algebra_.renamed(element.value);
    const auto guards = inside(sizes, at).domain.guards;
    std::vector<std::pair<IndexVar, Linear>> values;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const auto& dim = element.dims[d];
      const auto digits = algebra_.digits(at[d], dim.units);
      for (std::size_t f = 0; f < dim.factors.size(); ++f) {
        values.emplace_back(dim.factors[f], digits[f]);
      }
    }
    for (auto& term : out) {
      // Substitutes in two steps, since a value may mention a factor with the name of another.
      std::vector<std::pair<IndexVar, Linear>> passing;
      for (const auto& [factor, value] : values) {
        const auto name = algebra_.fresh(algebra_.extent(factor));
        substitute(term, factor, Linear::of(name));
        passing.emplace_back(name, value);
      }
      for (const auto& [name, value] : passing) substitute(term, name, value);
      for (const auto& [factor, value] : values) {
        keep_inside(term, value, algebra_.extent(factor));
      }
      term.domain.guards.insert(term.domain.guards.end(), guards.begin(), guards.end());
    }
    return out;
  }

  // Returns a constant's element at all indices together, as ops::constant_element does for one.
  Sum constant(const TypedNode& node, const std::vector<Linear>& at) {
    const auto& a = node.op->get<ops::Constant>();
    auto out = inside(node.type.shape.sizes, at);
    out.coefficient = field_of(a.value);
    if (a.kind == "eye") {
      Linear difference = at[at.size() - 2];
      difference.add(at.back(), -1);
      out.domain.zeros.push_back(std::move(difference));
    } else if (a.kind == "iota") {
      const auto axis = static_cast<std::size_t>(
          a.axis < 0 ? a.axis + static_cast<std::int64_t>(at.size()) : a.axis);
      out.atoms.push_back({.kind = Atom::Kind::kIndex, .at = {at[axis]}});
    }
    return {out};
  }

  void make(std::size_t n) {
    const auto& node = side_->nodes[n];
    if (!node.op || node.op->role() != ops::Role::kCompute) return;
    std::vector<Shape> shapes;
    shapes.reserve(node.inputs.size());
    for (auto i : node.inputs) shapes.push_back(side_->nodes[i].type.shape.sizes);
    const auto& s = ops::signature(*node.op, shapes);
    Element element;
    for (const auto& f : s.map.factors) element.factors.push_back(algebra_.fresh(f.size));
    Meaning meaning{node, s, element.factors, {}};
    meaning.values.resize(s.meaning.nodes.size());
    element.value = algebra_.normal(value_of(meaning, s.meaning.nodes.size() - 1));
    for (const auto& dim : s.map.output) element.dims.push_back(dim_of(dim, element.factors));
    elements_[n] = std::move(element);
  }

  // Returns the dimension with each factor replaced by the indices that it has been split into.
  Element::Dim dim_of(const term::Dim& dim, const std::vector<IndexVar>& factors) const {
    Linear at;
    for (const auto& part : dim.at.parts) {
      at.add(algebra_.resolved(Linear::of(factors[part.factor])), part.coefficient);
    }
    std::ranges::sort(at.parts, std::greater{}, [](const auto& p) { return p.second; });
    Element::Dim out;
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

  const Sum& value_of(Meaning& meaning, std::size_t n) {
    auto& known = meaning.values[n];
    if (!known) {
      auto value = compute(meaning, meaning.signature.meaning.nodes[n]);
      meaning.values[n] = std::move(value);
    }
    return *meaning.values[n];
  }

  std::vector<Linear> indices(const Meaning& meaning, const std::vector<term::Affine>& at) const {
    std::vector<Linear> out;
    for (const auto& e : at) {
      Linear linear{{}, e.constant};
      for (const auto& part : e.parts) {
        linear.add(Linear::of(meaning.factors[part.factor]), part.coefficient);
      }
      out.push_back(algebra_.resolved(std::move(linear)));
    }
    return out;
  }

  Sum atom(Atom atom) {
    ScalarTerm out;
    out.atoms.push_back(std::move(atom));
    return algebra_.normal({out});
  }

  Sum compute(Meaning& meaning, const BoundNode& node) {
    switch (node.kind) {
      case Kind::kConstant:
        return constant_sum(field_of(node.constant));
      case Kind::kExtent: {
        Field size(1);
        for (auto v : over(meaning, node)) {
          size = size * term::Numbers<Field>::from_index(algebra_.extent(v));
        }
        return constant_sum(size);
      }
      case Kind::kIndex:
        return atom({.kind = Atom::Kind::kIndex,
                     .at = {algebra_.resolved(Linear::of(meaning.factors[node.dims[0]]))}});
      case Kind::kInput: {
        const auto input = meaning.node.inputs[node.input];
        return algebra_.normal(read(input, indices(meaning, node.at)));
      }
      case Kind::kInside: {
        const auto input = meaning.node.inputs[node.input];
        return algebra_.normal(
            {inside(side_->nodes[input].type.shape.sizes, indices(meaning, node.at))});
      }
      case Kind::kKeep:
        return keep(meaning, node);
      case Kind::kAdd: {
        auto out = value_of(meaning, node.a);
        const auto& b = value_of(meaning, node.b);
        out.insert(out.end(), b.begin(), b.end());
        return algebra_.normal(out);
      }
      case Kind::kMul: {
        const auto a = value_of(meaning, node.a);
        return algebra_.times(a, value_of(meaning, node.b));
      }
      case Kind::kDiv: {
        const auto a = value_of(meaning, node.a);
        const auto b =
            atom({.kind = Atom::Kind::kInverse, .arguments = {value_of(meaning, node.b)}});
        return algebra_.times(a, b);
      }
      case Kind::kEqual: {
        auto difference = value_of(meaning, node.a);
        for (auto t : value_of(meaning, node.b)) {
          t.coefficient = t.coefficient * term::Numbers<Field>::from_index(-1);
          difference.push_back(std::move(t));
        }
        return atom({.kind = Atom::Kind::kEqual, .arguments = {std::move(difference)}});
      }
      case Kind::kLess: {
        const auto a = value_of(meaning, node.a);
        return atom({.kind = Atom::Kind::kLess, .arguments = {a, value_of(meaning, node.b)}});
      }
      case Kind::kFunction:
        return atom({.kind = Atom::Kind::kFunction,
                     .id = static_cast<std::int64_t>(node.function),
                     .arguments = {value_of(meaning, node.a)}});
      case Kind::kSum: {
        auto out = value_of(meaning, node.a);
        for (auto v : over(meaning, node)) out = algebra_.over(out, v);
        return out;
      }
      case Kind::kMax: {
        const auto body = value_of(meaning, node.a);
        const auto* guard = node.has_guard ? &value_of(meaning, node.b) : nullptr;
        return algebra_.maximum(body, over(meaning, node), guard);
      }
    }
    CHECK(false);
  }

  static std::vector<IndexVar> over(const Meaning& meaning, const BoundNode& node) {
    std::vector<IndexVar> out;
    for (term::FactorId f = 0; f < meaning.factors.size(); ++f) {
      if ((node.over & term::bit(f)) != 0) out.push_back(meaning.factors[f]);
    }
    return out;
  }

  Sum keep(const Meaning& meaning, const BoundNode& node) {
    Linear flat;
    for (auto f : node.dims) {
      Linear next = Linear::of(meaning.factors[f]);
      next.add(flat, algebra_.extent(meaning.factors[f]));
      flat = std::move(next);
    }
    return atom({.kind = Atom::Kind::kKeep,
                 .id = node.origin,
                 .number = node.constant,
                 .at = {algebra_.resolved(std::move(flat))}});
  }

  Algebra& algebra_;
  const TypedSide* side_ = nullptr;
  std::vector<Element> elements_;
};

// Builds the forms by the laws `first`, then normalizes them once more by `last`.
FormComparison compared(const TypedSide& source, const TypedSide& target, Laws first, Laws last) {
  Algebra algebra(first);
  std::vector<std::vector<Linear>> at;
  for (auto o : source.outputs) {
    auto& dims = at.emplace_back();
    for (auto size : source.nodes[o].type.shape.sizes) {
      dims.push_back(algebra.resolved(Linear::of(algebra.fresh(size))));
    }
  }
  try {
    Composer composer(algebra);
    auto a = composer.run(source, at);
    auto b = composer.run(target, at);
    algebra.use(last);
    for (std::size_t o = 0; o < a.size(); ++o) {
      // Normalizes again, since one form may have split indices that the other has not.
      if (key_of(algebra.normal(a[o])) != key_of(algebra.normal(b[o]))) {
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
  auto out = compared(source, target, Laws::kOfFields, Laws::kOfFields);
  if (out.equal) return out;
  // Few rules need more laws, and their forms are longer. The order matters: a sum of products of
  // relu is seen not to be negative only before relu is written out.
  for (const auto first : {Laws::kOfOrder, Laws::kOfFields}) {
    if (compared(source, target, first, Laws::kOfOrder).equal) return {true, ""};
  }
  return out;
}

}  // namespace tandem::verify
