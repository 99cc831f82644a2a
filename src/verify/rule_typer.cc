#include "verify/rule_typer.h"

#include <algorithm>

namespace tandem::verify {

NodeOperator::NodeOperator(const rewrite::PatternNode& node) : node_(&node) {
  using rewrite::Operation;
  for (const auto& attribute : node.attributes) {
    rewrite::for_each_part(attribute, [&](const rewrite::Expression& part) {
      if (part.operation == Operation::kSymbol) {
        symbols_.push_back(part.variables[0]);
      } else if (!part.variables.empty()) {
        reads_sizes_ = true;
      }
    });
  }
  values_.resize(symbols_.size());
}

bool NodeOperator::is_up_to_date(const rewrite::Bindings& bindings) const {
  if (!is_built_ || reads_sizes_) return false;
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    if (values_[i] != bindings.symbols[symbols_[i]]) return false;
  }
  return true;
}

const std::optional<ops::Op>& NodeOperator::get_op(const rewrite::Bindings& bindings) {
  if (is_up_to_date(bindings)) return op_;
  op_ = TypeTable::get_thread_local().make_op(*node_, bindings);
  for (std::size_t i = 0; i < symbols_.size(); ++i) values_[i] = bindings.symbols[symbols_[i]];
  is_built_ = true;
  return op_;
}

RuleTyper::TypedNodes::TypedNodes(const Side& side_in) : side(side_in) {
  operators.reserve(side.nodes.size());
  for (const auto& node : side.nodes) operators.emplace_back(node);
  types.reserve(side.nodes.size());
}

RuleTyper::RuleTyper(const Rule& rule)
    : rule_(rule),
      source_(rule.source),
      target_(rule.target),
      tensors_(rule.tensors.size()),
      known_(rule.tensors.size()),
      ids_(rule.tensors.size(), TypeTable::kNone) {}

void RuleTyper::bind(const Instance& instance) {
  for (std::size_t v = 0; v < tensors_.size(); ++v) {
    const auto& type = instance.tensors[v];
    tensors_[v] = &type;
    if (ids_[v] != TypeTable::kNone && known_[v] == type) continue;
    known_[v] = type;
    ids_[v] = TypeTable::get_thread_local().intern(type);
  }
}

bool RuleTyper::fits(TypedNodes& nodes, const Instance& instance) {
  auto& table = TypeTable::get_thread_local();
  nodes.types.clear();
  for (std::size_t n = 0; n < nodes.side.nodes.size(); ++n) {
    const auto& node = nodes.side.nodes[n];
    if (node.is_variable()) {
      nodes.types.push_back(ids_[node.variable]);
      continue;
    }
    const auto& op = nodes.operators[n].get_op({tensors_, instance.symbols});
    if (!op) return false;
    inputs_.clear();
    for (auto i : node.inputs) inputs_.push_back(nodes.types[i]);
    const auto type = table.infer_result_type(*op, inputs_);
    if (type == TypeTable::kNone) return false;
    nodes.types.push_back(type);
  }
  return true;
}

std::span<const RuleTyper::TypeId> RuleTyper::type_source(const Instance& instance) {
  bind(instance);
  (void)fits(source_, instance);
  return source_.types;
}

bool RuleTyper::occurs(const Instance& instance) {
  bind(instance);
  return fits(source_, instance) && conditions_hold(instance);
}

Fit RuleTyper::check_fit(const Instance& instance) {
  bind(instance);
  if (!fits(source_, instance)) return Fit::kNotEvenSource;
  if (!fits(target_, instance)) return Fit::kSourceOnly;
  for (std::size_t i = 0; i < rule_.source.outputs.size(); ++i) {
    const auto from = source_.types[rule_.source.outputs[i]];
    if (from != target_.types[rule_.target.outputs[i]]) return Fit::kSourceOnly;
  }
  return Fit::kBoth;
}

bool RuleTyper::conditions_hold(const Instance& instance) {
  for (std::size_t v = 0; v < tensors_.size(); ++v) tensors_[v] = &instance.tensors[v];
  return std::ranges::all_of(rule_.conditions, [&](const rewrite::Expression& condition) {
    return rewrite::holds(condition, {tensors_, instance.symbols});
  });
}

Fit check_fit(const Rule& rule, const Instance& instance) {
  return RuleTyper(rule).check_fit(instance);
}

bool occurs(const Rule& rule, const Instance& instance) { return RuleTyper(rule).occurs(instance); }

}  // namespace tandem::verify
