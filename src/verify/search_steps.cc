#include "verify/search_steps.h"

#include <utility>

namespace tandem::verify {

namespace {

using rewrite::Expression;
using rewrite::Operation;
using Subject = SearchStep::StepSubject;

class SearchPlanner {
 public:
  SearchPlanner(const Rule& rule, const std::vector<std::vector<Value>>& values)
      : rule_(rule),
        values_(values),
        is_tensor_known_(rule.tensors.size()),
        is_symbol_known_(rule.symbols.size()),
        is_node_planned_(rule.source.nodes.size()),
        is_condition_planned_(rule.conditions.size()) {}

  std::vector<SearchStep> run() {
    const auto& nodes = rule_.source.nodes;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (!nodes[n].is_variable()) plan_operator(n);
    }
    for (std::size_t n = 0; n < nodes.size(); ++n) plan_node(n);
    for (std::size_t s = 0; s < rule_.symbols.size(); ++s) plan_symbol(s);
    plan_conditions();
    return std::move(steps_);
  }

 private:
  // Plans an operator, and just before it the variables that it reads or whose size it reads.
  void plan_operator(std::size_t n) {
    const auto& nodes = rule_.source.nodes;
    const auto needed = find_needed_tensors(nodes[n]);
    for (std::size_t v = 0; v < nodes.size(); ++v) {
      if (nodes[v].is_variable() && needed[nodes[v].variable]) plan_node(v);
    }
    plan_node(n);
  }

  // Returns by tensor variable whether `node` reads it or its size.
  [[nodiscard]] std::vector<bool> find_needed_tensors(const rewrite::PatternNode& node) const {
    std::vector<bool> out(rule_.tensors.size());
    for (const auto& attribute : node.attributes) {
      rewrite::for_each_part(attribute, [&](const Expression& part) {
        if (part.operation == Operation::kSymbol) return;
        for (auto v : part.variables) out[v] = true;
      });
    }
    for (auto i : node.inputs) {
      const auto& input = rule_.source.nodes[i];
      if (input.is_variable()) out[input.variable] = true;
    }
    return out;
  }

  void plan_node(std::size_t n) {
    if (is_node_planned_[n]) return;
    is_node_planned_[n] = true;
    const auto& node = rule_.source.nodes[n];
    if (node.is_variable()) plan_tensor(node.variable);
    SearchStep step{Subject::kNode, n, list_new_symbols(node)};
    if (!step.symbols.empty()) {
      step.choices = NodeChoices::get_thread_cache(node, step.symbols, values_);
    }
    steps_.push_back(std::move(step));
    plan_conditions();
  }

  // Returns the symbols that `node` is the first to need, and marks them as known.
  std::vector<std::size_t> list_new_symbols(const rewrite::PatternNode& node) {
    std::vector<std::size_t> out;
    for (const auto& attribute : node.attributes) {
      rewrite::for_each_part(attribute, [&](const Expression& part) {
        if (part.operation != Operation::kSymbol || is_symbol_known_[part.variables[0]]) return;
        is_symbol_known_[part.variables[0]] = true;
        out.push_back(part.variables[0]);
      });
    }
    return out;
  }

  void plan_tensor(std::size_t v) {
    if (!is_tensor_known_[v]) steps_.push_back({Subject::kTensor, v});
    is_tensor_known_[v] = true;
  }

  void plan_symbol(std::size_t s) {
    if (!is_symbol_known_[s]) steps_.push_back({Subject::kSymbol, s});
    is_symbol_known_[s] = true;
  }

  // Plans all conditions that mention only what is known by now.
  void plan_conditions() {
    for (std::size_t c = 0; c < rule_.conditions.size(); ++c) {
      if (is_condition_planned_[c] || !mentions_only_known(rule_.conditions[c])) continue;
      steps_.push_back({Subject::kCondition, c});
      is_condition_planned_[c] = true;
    }
  }

  [[nodiscard]] bool mentions_only_known(const Expression& condition) const {
    bool out = true;
    rewrite::for_each_part(condition, [&](const Expression& part) {
      const bool is_symbol = part.operation == Operation::kSymbol;
      for (auto v : part.variables) {
        out = out && (is_symbol ? is_symbol_known_[v] : is_tensor_known_[v]);
      }
    });
    return out;
  }

  const Rule& rule_;
  const std::vector<std::vector<Value>>& values_;
  std::vector<bool> is_tensor_known_;
  std::vector<bool> is_symbol_known_;
  std::vector<bool> is_node_planned_;
  std::vector<bool> is_condition_planned_;
  std::vector<SearchStep> steps_;
};

}  // namespace

std::vector<SearchStep> plan_search(const Rule& rule,
                                    const std::vector<std::vector<Value>>& values) {
  return SearchPlanner(rule, values).run();
}

}  // namespace tandem::verify
