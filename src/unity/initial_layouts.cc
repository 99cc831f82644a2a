#include "unity/initial_layouts.h"

#include <algorithm>
#include <optional>

#include "ops/task_grid.h"
#include "strategies/strategies.h"

namespace tandem::unity {

namespace {

using machine::Digits;
using machine::DigitUse;
using machine::NodeLayout;
using rewrite::Draft;
using rewrite::Match;
using rewrite::Slot;

// Returns the distinct factors and partial sums of the layout, the outermost first.
std::vector<DigitUse> list_cuts(const NodeLayout& layout, const Digits& digits) {
  std::vector<DigitUse> out;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto use = layout.uses[i];
    const bool cuts = use.is_factor() || use.is_through();
    if (cuts && std::ranges::find(out, use) == out.end()) out.push_back(use);
  }
  return out;
}

// Splits one operator of a draft, one factor after another.
class OperatorCutter {
 public:
  OperatorCutter(const Digits& digits, const rewrite::RuleSet& rules,
                 const rewrite::Dictionary& dictionary)
      : digits_(digits), rules_(rules), dictionary_(dictionary) {}

  bool run(InitialDraft& out, Slot slot, const NodeLayout& layout) {
    op_ = out.draft.node(slot).op;
    sizes_.clear();
    for (auto input : out.draft.inputs(slot)) {
      sizes_.push_back(dictionary_.type(out.draft.node(input).type).shape.sizes);
    }
    signature_ = &ops::get_signature(dictionary_.op(op_), sizes_);
    NodeLayout now;
    for (auto use : list_cuts(layout, digits_)) {
      for (std::size_t i = 0; i < digits_.count(); ++i) {
        if (layout.uses[i] == use) now.uses[i] = use;
      }
      const auto next = cut(out, slot, now);
      if (!next) return false;
      slot = *next;
    }
    return true;
  }

 private:
  // Applies the first rule that splits the operator's operands as `layout` does. Returns the
  // operator's new slot, or nullopt if there is no such rule.
  std::optional<Slot> cut(InitialDraft& out, Slot slot, const NodeLayout& layout) {
    std::vector<Match> matches;
    rules_.match_single(out.draft, slot, matches);
    std::ranges::sort(matches);
    for (const auto& match : matches) {
      if (rules_.rules()[match.rule].choices.empty()) continue;
      auto next = rules_.apply(out.draft, match, changed_);
      if (!next) continue;
      const auto at = std::ranges::find_if(
          changed_, [&](Slot changed) { return matches_layout(*next, changed, layout); });
      if (at == changed_.end()) continue;
      out.draft = std::move(*next);
      out.steps.push_back(match);
      return *at;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool matches_layout(const Draft& draft, Slot slot, const NodeLayout& layout) const {
    if (draft.node(slot).op != op_) return false;
    const auto inputs = draft.inputs(slot);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto read = compute_input_layout(*signature_, layout, digits_.count(), i);
      const auto& shape = dictionary_.type(draft.node(inputs[i]).type).shape;
      if (shape != compute_parallel_shape(read, sizes_[i], digits_)) return false;
    }
    return true;
  }

  const Digits& digits_;
  const rewrite::RuleSet& rules_;
  const rewrite::Dictionary& dictionary_;
  rewrite::OpId op_{};
  std::vector<Shape> sizes_;  // sizes of its operands
  const ops::Signature* signature_ = nullptr;
  std::vector<Slot> changed_;
};

}  // namespace

InitialDraft split_by_layouts(Draft draft, const InitialLayouts& seed, const Digits& digits,
                              const rewrite::RuleSet& rules, const rewrite::Dictionary& dictionary,
                              const Simplify& simplify) {
  std::vector<Slot> operators;
  for (auto slot : draft.order()) {
    const auto& node = draft.node(slot);
    if (node.is_first && dictionary.op(node.op).role() == ops::Role::kCompute) {
      operators.push_back(slot);
    }
  }
  InitialDraft out{std::move(draft), {}};
  OperatorCutter cutter(digits, rules, dictionary);
  for (auto slot : operators) {
    const auto& layout = seed[out.draft.node(slot).named_after.index()];
    out.is_all = cutter.run(out, slot, layout) && out.is_all;
    simplify(out.draft, out.steps);
  }
  return out;
}

std::vector<InitialLayouts> make_initial_layouts(std::span<const std::vector<plan::Choice>> choices,
                                                 const Digits& digits) {
  std::vector<InitialLayouts> out;
  for (const auto& each : choices) {
    InitialLayouts seed;
    for (const auto& choice : each) {
      seed.push_back(choice.node);
      for (std::size_t i = 0; i < digits.count(); ++i) {
        auto& use = seed.back().uses[i];
        if (use == DigitUse::kReplica) use = DigitUse::kIdle;
      }
    }
    if (std::ranges::find(out, seed) == out.end()) out.push_back(std::move(seed));
  }
  return out;
}

std::vector<InitialLayouts> make_initial_stage_layouts(const search::CandidatePool& pool,
                                                       machine::DigitMask ranks) {
  const auto& digits = pool.digits();
  const strategies::Problem problem(pool.model(), digits);
  std::vector<std::vector<plan::Choice>> found;
  strategies::MegatronParts parts{.ranks = ranks};
  const auto add = [&] {
    const auto made = strategies::make_megatron(problem, parts);
    const auto* choices = std::get_if<strategies::Choices>(&made);
    if (choices != nullptr && pool.is_within_dims(problem, *choices)) found.push_back(*choices);
  };
  add();
  for (auto i = digits.count(); i-- > 0;) {
    const auto digit = machine::DigitMask{1} << i;
    if ((digits.space() & ~ranks & digit) == 0) continue;
    parts.tensor |= digit;
    add();
  }
  return make_initial_layouts(found, digits);
}

std::vector<plan::Choice> make_choices(const graph::Graph& model, const InitialLayouts& seed,
                                       const Digits& digits) {
  std::vector<plan::Choice> out(model.size());
  std::vector<bool> is_read(model.size());
  for (auto id : model.ids()) {
    out[id.index()].source = machine::Layout(digits.count(), machine::DigitRole::kReplica);
  }
  for (auto id : model.ids()) {
    if (model.node(id).op.role() == ops::Role::kSource) continue;
    out[id.index()].node = seed[id.index()];
    const auto inputs = model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto source = inputs[i].index();
      if (model.node(inputs[i]).op.role() != ops::Role::kSource || is_read[source]) continue;
      is_read[source] = true;
      out[source].source =
          compute_input_layout(get_node_signature(model, id), seed[id.index()], digits.count(), i);
    }
  }
  return out;
}

}  // namespace tandem::unity
