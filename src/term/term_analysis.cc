#include "term/term_analysis.h"

#include <algorithm>

namespace tandem::term {

namespace {

// Dependence of a subterm on the chosen inputs.
enum class Dependence : std::uint8_t { kNone, kLinear, kOther };

Dependence find_dependence(const BoundTerm& term, std::uint32_t id, InputMask inputs) {
  const BoundNode& node = term.nodes[id];
  const auto child = [&](std::uint32_t c) { return find_dependence(term, c, inputs); };
  switch (node.kind) {
    case Kind::kConstant:
    case Kind::kExtent:
    case Kind::kIndex:
    case Kind::kInside:
    case Kind::kKeep:
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
    case Kind::kLess:
      return child(node.a) == Dependence::kNone && child(node.b) == Dependence::kNone
                 ? Dependence::kNone
                 : Dependence::kOther;
    case Kind::kMax:
      if (node.has_guard && child(node.b) != Dependence::kNone) return Dependence::kOther;
      [[fallthrough]];
    case Kind::kFunction:
      return child(node.a) == Dependence::kNone ? Dependence::kNone : Dependence::kOther;
  }
  return Dependence::kOther;
}

bool reduces_over(const BoundTerm& term, std::uint32_t id, FactorId f) {
  const BoundNode& node = term.nodes[id];
  if (node.kind != Kind::kExtent && (node.over & bit(f)) != 0) return true;
  return (node.has_a() && reduces_over(term, node.a, f)) ||
         (node.has_b() && reduces_over(term, node.b, f));
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

// The inputs that a subterm reads, and whether the subterm is differentiable in any wanted input.
struct Reads {
  InputMask inputs = 0;
  bool differentiable = false;
};

Reads collect_reads(const BoundTerm& term, std::uint32_t id, InputMask wanted, InputMask& saved) {
  const BoundNode& node = term.nodes[id];
  const auto child = [&](std::uint32_t c) { return collect_reads(term, c, wanted, saved); };
  switch (node.kind) {
    case Kind::kConstant:
    case Kind::kExtent:
    case Kind::kIndex:
    case Kind::kInside:
    case Kind::kKeep:
      return {};
    case Kind::kInput:
      return {InputMask{1} << node.input, (wanted >> node.input & 1U) != 0};
    case Kind::kSum:
      return child(node.a);
    case Kind::kMax:
    case Kind::kFunction: {
      const auto a = child(node.a);
      const auto guard = node.has_b() ? child(node.b).inputs : InputMask{0};
      const bool smooth = (node.kind == Kind::kFunction || node.has_gradient) && a.differentiable;
      if (smooth) saved |= a.inputs | guard;
      return {a.inputs | guard, smooth};
    }
    default:
      break;
  }
  const auto a = child(node.a);
  const auto b = child(node.b);
  const Reads both{a.inputs | b.inputs, a.differentiable || b.differentiable};
  if (node.kind == Kind::kEqual || node.kind == Kind::kLess) return {both.inputs, false};
  // The gradient of a product's factor uses the other factor; that of a divisor uses both operands.
  if (node.kind == Kind::kMul || node.kind == Kind::kDiv) {
    if (b.differentiable) saved |= a.inputs;
    if (a.differentiable || (node.kind == Kind::kDiv && b.differentiable)) saved |= b.inputs;
  }
  return both;
}

void collect_inputs(const BoundTerm& term, std::uint32_t id, InputMask& out) {
  const auto& node = term.nodes[id];
  if (node.kind == Kind::kInput) out |= InputMask{1} << node.input;
  if (node.has_a()) collect_inputs(term, node.a, out);
  if (node.has_b()) collect_inputs(term, node.b, out);
}

double count_points(FactorMask mask, const IndexMap& map) {
  double n = 1;
  for (FactorId f = 0; f < map.factors.size(); ++f) {
    if ((mask & bit(f)) != 0) n *= static_cast<double>(map.factors[f].size);
  }
  return n;
}

}  // namespace

bool is_linear(const BoundTerm& term, InputMask inputs) {
  const auto root = static_cast<std::uint32_t>(term.nodes.size() - 1);
  return find_dependence(term, root, inputs) == Dependence::kLinear;
}

InputMask find_saved_inputs(const BoundTerm& term, InputMask wanted) {
  InputMask saved = 0;
  collect_reads(term, static_cast<std::uint32_t>(term.nodes.size() - 1), wanted, saved);
  return saved;
}

InputMask find_added_inputs(const BoundTerm& term) {
  InputMask once = 0;
  InputMask more = 0;
  std::vector<std::uint32_t> open = {static_cast<std::uint32_t>(term.nodes.size() - 1)};
  while (!open.empty()) {
    const auto id = open.back();
    const auto& node = term.nodes[id];
    open.pop_back();
    if (node.kind == Kind::kAdd) {
      open.insert(open.end(), {node.a, node.b});
    } else if (node.kind == Kind::kInput) {
      const auto input = InputMask{1} << node.input;
      more |= once & input;
      once |= input;
    } else {
      collect_inputs(term, id, more);
    }
  }
  return once & ~more;
}

bool can_shard_sum(const BoundTerm& term, FactorId f) {
  return distributes(term, static_cast<std::uint32_t>(term.nodes.size() - 1), f);
}

bool can_shard_maximum(const BoundTerm& term, FactorId f) {
  const auto& root = term.nodes.back();
  return root.kind == Kind::kMax && !root.has_gradient && (root.over & bit(f)) != 0 &&
         !reduces_over(term, root.a, f) && !(root.has_guard && reduces_over(term, root.b, f));
}

namespace {

bool is_zero_at_zero(Function f) {
  return f == Function::kRelu || f == Function::kSqrt || f == Function::kTanh ||
         f == Function::kErf || f == Function::kSin || f == Function::kAbs;
}

double compute_node_density(const BoundTerm& term, std::uint32_t id,
                            std::span<const double> inputs) {
  const BoundNode& node = term.nodes[id];
  const auto child = [&](std::uint32_t c) { return compute_node_density(term, c, inputs); };
  switch (node.kind) {
    case Kind::kInput:
      return inputs[node.input];
    case Kind::kAdd:
      return std::max(child(node.a), child(node.b));
    case Kind::kMul:
      return std::min(child(node.a), child(node.b));
    case Kind::kDiv:
    case Kind::kSum:
    case Kind::kMax:
      return child(node.a);
    case Kind::kFunction:
      return is_zero_at_zero(node.function) ? child(node.a) : 1;
    default:
      return 1;
  }
}

}  // namespace

double compute_density(const BoundTerm& term, std::span<const double> inputs) {
  return compute_node_density(term, static_cast<std::uint32_t>(term.nodes.size() - 1), inputs);
}

Flops count_operations(const BoundTerm& term, const IndexMap& map) {
  double total = 0;
  for (const auto& node : term.nodes) {
    switch (node.kind) {
      case Kind::kAdd:
      case Kind::kMul:
      case Kind::kDiv:
      case Kind::kEqual:
      case Kind::kLess:
      case Kind::kFunction:
        total += count_points(node.free, map);
        break;
      case Kind::kSum:
      case Kind::kMax:
        total += count_points(node.free | node.over, map);
        break;
      default:
        break;
    }
  }
  return Flops{total};
}

}  // namespace tandem::term
