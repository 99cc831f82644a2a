#include "plan/parallelization_derivation.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "plan/operand_paths.h"

namespace tandem::plan {

namespace {

using graph::NodeId;
using machine::Digits;
using machine::DigitUse;
using machine::NodeLayout;

// Returns a key that is equal for operators that the same steps partition in the same way.
std::string make_key(const graph::Graph& pcg, NodeId id) {
  auto out = pcg.node(id).op.name() + " " + pcg.node(id).op.attribute_text();
  for (auto i : pcg.inputs(id)) out += " " + to_text(pcg.node(i).type.shape.sizes);
  return out;
}

std::string steps_to_text(const RuleSteps& steps) {
  std::string out;
  for (const auto& step : steps) out += to_text(step) + "\n";
  return out;
}

// Returns whether a shape is partitioned or partial.
bool is_cut_type(const ParallelShape& shape) {
  return shape.partial > 1 || shape.degrees.count() > 1;
}

// Returns whether the operator computes on whole operands, the same on every replica.
bool is_whole(const graph::Graph& pcg, NodeId id) {
  const auto& result = pcg.node(id).type.shape;
  return !is_cut_type(result) && std::ranges::all_of(pcg.inputs(id), [&](NodeId i) {
    const auto& shape = pcg.node(i).type.shape;
    return !is_cut_type(shape) && shape.replicas == result.replicas;
  });
}

std::int64_t count_replicas(const NodeLayout& layout, const Digits& digits) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (layout.uses[i] == DigitUse::kReplica) out *= digits[i].size;
  }
  return out;
}

// Caches the results of steps on operators, once for equal operators.
class Replays {
 public:
  explicit Replays(const graph::Graph& pcg) : pcg_(pcg) {}

  const CutInCopies& get_result(NodeId id, const RuleSteps& steps, std::int64_t copies) {
    const auto key = fmt::format("{} {}\n{}", copies, make_key(pcg_, id), steps_to_text(steps));
    auto at = known_.find(key);
    if (at == known_.end()) {
      at = known_.emplace(key, CutInCopies{replay_cut(pcg_, id, steps), copies}).first;
    }
    return at->second;
  }

 private:
  const graph::Graph& pcg_;
  std::map<std::string, CutInCopies> known_;
};

// Collects the places of equal steps.
class StepCollector {
 public:
  void add(const RuleSteps& steps, std::int64_t copies, std::string place) {
    const auto [at, fresh] =
        index_.try_emplace(fmt::format("{} {}", copies, steps_to_text(steps)), all_.size());
    if (fresh) all_.push_back({steps, copies, {}});
    all_[at->second].places.push_back(std::move(place));
  }
  std::vector<Derived> take() { return std::move(all_); }

 private:
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<Derived> all_;
};

// --- Finding the steps ---------------------------------------------------------------------------

class ParallelizationFinder {
 public:
  ParallelizationFinder(const MappedGraph& mapped, const Digits& digits)
      : mapped_(mapped), pcg_(mapped.pcg), digits_(digits), replays_(mapped.pcg) {}

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
    auto key = make_key(pcg_, id);
    for (auto use : layout->uses) key += fmt::format(" {}", static_cast<int>(encode_use(use)));
    const auto [at, fresh] = known_.try_emplace(std::move(key));
    if (fresh) at->second = find_cutting_steps(pcg_, id, *layout, digits_);
    if (!at->second) {
      without_.push_back(name);
      return;
    }
    const auto copies = count_replicas(*layout, digits_);
    cuts_.add(*at->second, copies, name);
    cut_operators_[id] = &replays_.get_result(id, *at->second, copies);
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
  Replays replays_;
  CutOperators cut_operators_;
  StepCollector cuts_;
  StepCollector paths_;
  std::vector<std::string> without_;
};

// --- Replaying them ------------------------------------------------------------------------------

[[noreturn]] void fail(const std::string& place, const std::string& message) {
  throw UserError("derivation", place, message);
}

class Replayer {
 public:
  Replayer(const graph::Graph& pcg, const Parallelization& steps)
      : pcg_(pcg),
        replays_(pcg),
        cuts_(index_by_place(steps.cuts)),
        paths_(index_by_place(steps.paths)),
        without_(steps.without.begin(), steps.without.end()) {}

  Replayed run() {
    for (auto id : pcg_.ids()) {
      if (pcg_.node(id).op.role() == ops::Role::kCompute) replay_operator(id);
    }
    for (const auto& way : list_operand_paths(pcg_)) replay_path(way);
    for (const auto* all : {&cuts_, &paths_}) {
      if (all->size() > (all == &cuts_ ? out_.cuts : out_.paths).places) refuse_unknown(*all);
    }
    return std::move(out_);
  }

 private:
  using ByPlace = std::unordered_map<std::string, const Derived*>;

  static ByPlace index_by_place(const std::vector<Derived>& all) {
    ByPlace out;
    for (const auto& derived : all) {
      for (const auto& place : derived.places) {
        if (!out.emplace(place, &derived).second) fail(place, "is derived twice");
      }
    }
    return out;
  }

  // Reports a derived place that the plan lacks or that needs no rule.
  void refuse_unknown(const ByPlace& all) const {
    std::set<std::string> known;
    for (auto id : pcg_.ids()) {
      if (pcg_.node(id).op.role() == ops::Role::kCompute) known.insert(pcg_.node(id).name);
    }
    for (const auto& way : list_operand_paths(pcg_)) known.insert(format_place(pcg_, way));
    for (const auto& [place, derived] : all) {
      if (!known.contains(place)) fail(place, "has a derivation, but is not in the plan");
    }
    fail(all.begin()->first, "has a derivation, but needs no rule");
  }

  static void count(Replayed::ReplayCoverage& part, const Derived& derived) {
    ++part.places;
    part.steps += derived.steps.size();
    for (const auto& step : derived.steps) part.rules.insert(step.rule);
  }

  void replay_operator(NodeId id) {
    const auto& name = pcg_.node(id).name;
    const auto at = cuts_.find(name);
    if (at == cuts_.end()) {
      if (is_whole(pcg_, id)) return;
      if (!without_.contains(name)) fail(name, "is sharded, but no derivation step explains how");
      out_.cuts.without.push_back(name);
      return;
    }
    const auto& derived = *at->second;
    try {
      const auto& made = replays_.get_result(id, derived.steps, derived.replicas);
      check_types(id, made);
      cut_operators_[id] = &made;
    } catch (const UserError& error) {
      throw UserError("derivation", name, error.message, error.hint);
    }
    count(out_.cuts, derived);
  }

  void check_types(NodeId id, const CutInCopies& made) const {
    const auto check = [&](const std::string& what, ParallelShape shape,
                           const ParallelShape& planned) {
      shape.replicas *= made.replicas;
      if (shape == planned) return;
      fail("", fmt::format("the steps make {} {}, but the plan has {}", what, to_text(shape),
                           to_text(planned)));
    };
    const auto inputs = pcg_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check(fmt::format("operand {}", i), made.cut.operands[i], pcg_.node(inputs[i]).type.shape);
    }
    check("the result", made.cut.result, pcg_.node(id).type.shape);
  }

  void replay_path(const OperandPath& way) {
    const auto place = format_place(pcg_, way);
    const auto at = paths_.find(place);
    if (at == paths_.end() && without_.contains(place)) {
      out_.paths.without.push_back(place);
      return;
    }
    const auto whole = make_unsimplified_chain(pcg_, way, cut_operators_);
    if (!whole) fail(place, "is read as partial sums, but no derivation step explains how");
    static const Derived nothing = {};
    const auto& derived = at == paths_.end() ? nothing : *at->second;
    const auto made = replay_steps(way, *whole, derived, place);
    if (made != way.chain) {
      fail(place, fmt::format("the steps lead to {}, but the plan has {}", to_text(made),
                              to_text(way.chain)));
    }
    if (at != paths_.end()) count(out_.paths, derived);
  }

  Chain replay_steps(const OperandPath& way, const Chain& whole, const Derived& derived,
                     const std::string& place) {
    if (derived.steps.empty()) return whole;
    const auto& type = pcg_.node(way.from).type;
    const auto key = fmt::format("{} {}\n{}\n{}", to_text(type.shape), name(type.dtype),
                                 to_text(whole), steps_to_text(derived.steps));
    const auto [at, fresh] = replayed_.try_emplace(key);
    try {
      if (fresh) at->second = plan::replay(type, whole, derived.steps);
    } catch (const UserError& error) {
      fail(place, error.where + ": " + error.message);
    }
    return at->second;
  }

  const graph::Graph& pcg_;
  Replays replays_;
  ByPlace cuts_;
  ByPlace paths_;
  std::set<std::string> without_;
  CutOperators cut_operators_;
  std::unordered_map<std::string, Chain> replayed_;
  Replayed out_;
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

Replayed replay(const graph::Graph& pcg, const Parallelization& steps) {
  return Replayer(pcg, steps).run();
}

}  // namespace tandem::plan
