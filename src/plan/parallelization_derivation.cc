#include "plan/parallelization_derivation.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "plan/operand_paths.h"

namespace tandem::plan {

namespace {

using graph::NodeId;
using machine::Digits;
using machine::DigitUse;
using machine::NodeLayout;

std::int64_t count_replicas(const NodeLayout& layout, const Digits& digits) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (layout.uses[i] == DigitUse::kReplica) out *= digits[i].size;
  }
  return out;
}

// Collects the places of equal steps.
class StepCollector {
 public:
  void add(const RuleSteps& steps, std::int64_t copies, std::string place) {
    const auto [at, fresh] =
        index_.try_emplace(fmt::format("{} {}", copies, to_text(steps)), all_.size());
    if (fresh) all_.push_back({steps, copies, {}});
    all_[at->second].places.push_back(std::move(place));
  }
  std::vector<Derived> take() { return std::move(all_); }

 private:
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<Derived> all_;
};

class ParallelizationFinder {
 public:
  ParallelizationFinder(const MappedGraph& mapped, const Digits& digits)
      : mapped_(mapped), pcg_(mapped.pcg), digits_(digits), cut_results_(mapped.pcg) {}

  Parallelization run() {
    for (auto id : pcg_.ids()) {
      if (pcg_.node(id).op.role() == ops::Role::kCompute && !is_whole(pcg_, id))
        find_operator_steps(id);
    }
    for (const auto& way : list_operand_paths(pcg_)) find_path_steps(way);
    return {cuts_.take(), paths_.take(), std::move(without_)};
  }

 private:
  // Finds the steps that partition operator `id`.
  void find_operator_steps(NodeId id) {
    std::vector<machine::Layout> operands;
    for (auto i : pcg_.inputs(id)) operands.push_back(mapped_.layouts[i.index()]);
    const auto layout = infer_node_layout(get_node_signature(pcg_, id), operands, digits_);
    const auto& name = pcg_.node(id).name;
    if (!layout) {
      without_.push_back(name);
      return;
    }
    auto key = make_operator_key(pcg_, id);
    for (auto use : layout->uses) key += fmt::format(" {}", static_cast<int>(encode_use(use)));
    const auto [at, fresh] = known_.try_emplace(std::move(key));
    if (fresh) at->second = find_cutting_steps(pcg_, id, *layout, digits_);
    if (!at->second) {
      without_.push_back(name);
      return;
    }
    const auto copies = count_replicas(*layout, digits_);
    cuts_.add(*at->second, copies, name);
    cut_operators_[id] = &cut_results_.get_result(id, *at->second, copies);
  }

  static std::int64_t encode_use(DigitUse use) {
    if (use.is_factor()) return use.factor();
    if (use.is_through()) return -2 - static_cast<std::int64_t>(use.through_set());
    return -1;  // replicated or idle
  }

  // Finds the steps that lead to the chain of `way`.
  void find_path_steps(const OperandPath& way) {
    const auto whole = make_unsimplified_chain(pcg_, way, cut_operators_);
    std::optional<RuleSteps> steps;
    if (whole) {
      const auto [at, fresh] = between_.try_emplace(to_text(*whole) + " | " + to_text(way.chain));
      if (fresh) at->second = find_chain_steps(*whole, way.chain);
      steps = at->second;
    }
    if (!steps) {
      without_.push_back(format_place(pcg_, way));
    } else if (!steps->empty()) {
      paths_.add(*steps, 1, format_place(pcg_, way));
    }
  }

  const MappedGraph& mapped_;
  const graph::Graph& pcg_;
  const Digits& digits_;
  std::unordered_map<std::string, std::optional<RuleSteps>> known_;
  std::unordered_map<std::string, std::optional<RuleSteps>> between_;
  CutCache cut_results_;
  CutOperators cut_operators_;
  StepCollector cuts_;
  StepCollector paths_;
  std::vector<std::string> without_;
};

}  // namespace

std::size_t count_steps(const Parallelization& of) {
  std::size_t out = 0;
  for (const auto* all : {&of.cuts, &of.paths}) {
    for (const auto& derived : *all) out += derived.steps.size() * derived.places.size();
  }
  return out;
}

Parallelization find_parallelization(const MappedGraph& mapped, const Digits& digits) {
  return ParallelizationFinder(mapped, digits).run();
}

}  // namespace tandem::plan
