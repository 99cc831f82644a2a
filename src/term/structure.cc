#include "term/structure.h"

namespace tandem::term {

namespace {

// How a subterm depends on the chosen inputs.
enum class Dependence : std::uint8_t { kNone, kLinear, kOther };

Dependence dependence(const BoundTerm& term, std::uint32_t id, InputMask inputs) {
  const BoundNode& node = term.nodes[id];
  const auto child = [&](std::uint32_t c) { return dependence(term, c, inputs); };
  switch (node.kind) {
    case Kind::kConstant:
    case Kind::kExtent:
    case Kind::kIndex:
      return Dependence::kNone;
    case Kind::kInput:
      return ((inputs >> node.input) & 1U) != 0 ? Dependence::kLinear : Dependence::kNone;
    case Kind::kAdd: {
      const auto a = child(node.a);
      // x + c is not linear: f(0) must be 0.
      return a == child(node.b) ? a : Dependence::kOther;
    }
    case Kind::kMul: {
      const auto a = child(node.a);
      const auto b = child(node.b);
      if (a == Dependence::kNone) return b;
      return b == Dependence::kNone ? a : Dependence::kOther;
    }
    case Kind::kDiv:
      return child(node.b) == Dependence::kNone ? child(node.a) : Dependence::kOther;
    case Kind::kSum:
      return child(node.a);
    case Kind::kEqual:
      return child(node.a) == Dependence::kNone && child(node.b) == Dependence::kNone
                 ? Dependence::kNone
                 : Dependence::kOther;
    case Kind::kFunction:
    case Kind::kMax:
      return child(node.a) == Dependence::kNone ? Dependence::kNone : Dependence::kOther;
  }
  return Dependence::kOther;
}

bool reduces_over(const BoundTerm& term, std::uint32_t id, FactorId f) {
  const BoundNode& node = term.nodes[id];
  if (node.kind != Kind::kExtent && (node.over & bit(f)) != 0) return true;
  switch (node.kind) {
    case Kind::kAdd:
    case Kind::kMul:
    case Kind::kDiv:
    case Kind::kEqual:
      return reduces_over(term, node.a, f) || reduces_over(term, node.b, f);
    case Kind::kFunction:
    case Kind::kSum:
    case Kind::kMax:
      return reduces_over(term, node.a, f);
    default:
      return false;
  }
}

bool distributes(const BoundTerm& term, std::uint32_t id, FactorId f) {
  const BoundNode& node = term.nodes[id];
  switch (node.kind) {
    case Kind::kSum:
      return (node.over & bit(f)) != 0 || distributes(term, node.a, f);
    case Kind::kAdd:
      return distributes(term, node.a, f) && distributes(term, node.b, f);
    case Kind::kMul:
      return (distributes(term, node.a, f) && !reduces_over(term, node.b, f)) ||
             (distributes(term, node.b, f) && !reduces_over(term, node.a, f));
    case Kind::kDiv:
      return distributes(term, node.a, f) && !reduces_over(term, node.b, f);
    default:
      return false;
  }
}

double points(FactorMask mask, const IndexMap& map) {
  double n = 1;
  for (FactorId f = 0; f < map.factors.size(); ++f) {
    if ((mask & bit(f)) != 0) n *= static_cast<double>(map.factors[f].size);
  }
  return n;
}

}  // namespace

bool is_linear(const BoundTerm& term, InputMask inputs) {
  const auto root = static_cast<std::uint32_t>(term.nodes.size() - 1);
  return dependence(term, root, inputs) == Dependence::kLinear;
}

bool sums_in_parts(const BoundTerm& term, FactorId f) {
  return distributes(term, static_cast<std::uint32_t>(term.nodes.size() - 1), f);
}

Flops count_operations(const BoundTerm& term, const IndexMap& map) {
  double total = 0;
  for (const auto& node : term.nodes) {
    switch (node.kind) {
      case Kind::kAdd:
      case Kind::kMul:
      case Kind::kDiv:
      case Kind::kEqual:
      case Kind::kFunction:
        total += points(node.free, map);
        break;
      case Kind::kSum:
      case Kind::kMax:
        total += points(node.free | node.over, map);
        break;
      default:
        break;
    }
  }
  return Flops{total};
}

}  // namespace tandem::term
