// For tests: finds the fastest plan of a small graph by simulating every plan. Searches are
// compared with it.
#pragma once

#include <algorithm>
#include <vector>

#include "search/evaluated.h"
#include "search/space/layout_oracle_test_support.h"
#include "search/space/states.h"

namespace tandem::search {

// Finds the fastest of all plans by simulation. It enumerates every layout of every operator and of
// every source with several users. Other sources get the layout that their user wants. With
// Places::kFirst the first device takes part in every operator.
class FastestPlan {
 public:
  enum class Places { kAll, kFirst };

  FastestPlan(const graph::Graph& model, const machine::Machine& machine, plan::Optimizer optimizer,
              Places places = Places::kAll)
      : model_(model),
        machine_(machine),
        optimizer_(optimizer),
        digits_(machine),
        users_(model.consumers()),
        limits_(compute_memory_limits(machine, {})),
        choices_(model.size()),
        layouts_(model.size()) {
    predict::CostModel costs(machine, digits_, optimizer);
    operators_ = LayoutOracle(model, digits_, costs).layouts();
    const auto is_elsewhere = [](const machine::NodeLayout& layout) {
      return std::ranges::any_of(layout.uses,
                                 [](auto use) { return use.is_idle() && use.place() > 0; });
    };
    for (auto& layouts : operators_) {
      if (places == Places::kFirst) std::erase_if(layouts, is_elsewhere);
    }
    const machine::Layout everywhere(digits_.count(), machine::DigitRole::kReplica);
    for (auto& choice : choices_) choice.source = everywhere;
  }

  [[nodiscard]] double count() const {
    double out = 1;
    for (const auto& layouts : operators_) {
      if (!layouts.empty()) out *= static_cast<double>(layouts.size());
    }
    return out;
  }

  Seconds find() {
    choose(0);
    return best_;
  }
  [[nodiscard]] const std::vector<plan::Choice>& choices() const { return best_choices_; }

 private:
  void choose(std::size_t n) {
    if (n == model_.size()) return simulate();
    const graph::NodeId id(n);
    if (model_.node(id).op.role() == ops::Role::kSource) {
      if (users_[n].size() < 2) return choose(n + 1);
      for (const auto& layout : list_tensor_layouts(model_.node(id).type.shape.sizes, digits_)) {
        choices_[n].source = layouts_[n] = layout;
        choose(n + 1);
      }
      return;
    }
    const auto& s = get_node_signature(model_, id);
    for (const auto& layout : operators_[n]) {
      if (!take(id, s, layout)) continue;
      choices_[n].node = layout;
      layouts_[n] = compute_output_layout(s, layout, digits_.count());
      choose(n + 1);
    }
  }

  // Returns false if an operand is not available in the layout that is wanted.
  bool take(graph::NodeId id, const ops::Signature& s, const machine::NodeLayout& layout) {
    for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
      const auto source = model_.inputs(id)[i];
      const auto wanted = compute_input_layout(s, layout, digits_.count(), i);
      const bool alone = users_[source.index()].size() < 2;
      if (alone && model_.node(source).op.role() == ops::Role::kSource) {
        choices_[source.index()].source = layouts_[source.index()] = wanted;
      }
      const auto has = layouts_[source.index()].digits(machine::DigitRole::kPartial);
      if ((wanted.digits(machine::DigitRole::kPartial) & ~has) != 0) return false;
    }
    return true;
  }

  void simulate() {
    const auto costed =
        cost_choices(model_, machine_, "one of all", choices_, {}, optimizer_, limits_);
    if (costed.simulation.iteration >= best_) return;
    best_ = costed.simulation.iteration;
    best_choices_ = choices_;
  }

  const graph::Graph& model_;
  const machine::Machine& machine_;
  const plan::Optimizer optimizer_;
  const machine::Digits digits_;
  const std::vector<std::vector<graph::NodeId>> users_;
  const std::vector<Bytes> limits_;
  std::vector<std::vector<machine::NodeLayout>> operators_;  // by node
  std::vector<plan::Choice> choices_;
  std::vector<machine::Layout> layouts_;  // by node
  Seconds best_{LayoutOracle::kNever};
  std::vector<plan::Choice> best_choices_;
};

}  // namespace tandem::search
