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
      return (node.over & bit(f)) != 0 ? !reduces_over(term, node.a, f)
                                       : distributes(term, node.a, f);
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

// The inputs that a subterm reads, and whether it varies smoothly with any of them.
struct Reads {
  InputMask inputs = 0;
  bool differentiable = false;
};

Reads collect_reads(const BoundTerm& term, std::uint32_t id, InputMask& kept) {
  const BoundNode& node = term.nodes[id];
  const auto child = [&](std::uint32_t c) { return collect_reads(term, c, kept); };
  switch (node.kind) {
    case Kind::kConstant:
    case Kind::kExtent:
    case Kind::kIndex:
      return {};
    case Kind::kInput:
      return {InputMask{1} << node.input, true};
    case Kind::kSum:
      return child(node.a);
    case Kind::kMax:
    case Kind::kFunction: {
      const auto a = child(node.a);
      const bool smooth = node.kind == Kind::kFunction && a.differentiable;
      if (smooth) kept |= a.inputs;
      return {a.inputs, smooth};
    }
    default:
      break;
  }
  const auto a = child(node.a);
  const auto b = child(node.b);
  const Reads both{a.inputs | b.inputs, a.differentiable || b.differentiable};
  if (node.kind == Kind::kEqual) return {both.inputs, false};
  // The gradient of a product's factor is the other factor; that of a divisor mentions both.
  if (node.kind == Kind::kMul || node.kind == Kind::kDiv) {
    if (b.differentiable) kept |= a.inputs;
    if (a.differentiable || (node.kind == Kind::kDiv && b.differentiable)) kept |= b.inputs;
  }
  return both;
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

InputMask backward_reads(const BoundTerm& term) {
  InputMask kept = 0;
  collect_reads(term, static_cast<std::uint32_t>(term.nodes.size() - 1), kept);
  return kept;
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
