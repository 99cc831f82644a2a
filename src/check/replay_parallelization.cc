#include "check/replay_parallelization.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "graph/hashes.h"
#include "ops/attributes.h"
#include "ops/micro_batches.h"
#include "ops/registry.h"
#include "plan/operand_paths.h"
#include "rewrite/derivation.h"

namespace tandem::check {

namespace {

using graph::NodeId;
using plan::Chain;
using plan::ChainLink;
using plan::CutInCopies;
using plan::Derived;
using plan::OperandPath;
using plan::Parallelization;
using plan::RuleSteps;

ops::Op make_link_op(const ChainLink& link) {
  if (link.kind == &ops::kSend) return ops::make_op(*link.kind, ops::NoAttributes{});
  if (link.kind == &ops::kPipeline || link.kind == &ops::kBatch) {
    return ops::make_op(*link.kind, ops::MicroBatches{link.dim, link.degree});
  }
  if (link.dim < 0) return ops::make_op(*link.kind, ops::Degree{link.degree});
  return ops::make_op(*link.kind, ops::DimDegree{link.dim, link.degree});
}

// Returns the nodes of a chain's graph: the input, then one node for each link.
std::vector<graph::NodeId> list_nodes(const graph::Graph& graph) {
  std::vector<graph::NodeId> out = {graph.outputs()[0]};
  while (graph.node(out.back()).op.role() == ops::Role::kParallel) {
    out.push_back(graph.inputs(out.back())[0]);
  }
  std::ranges::reverse(out);
  return out;
}

// Returns a graph that applies `chain` to an input of type `type`.
graph::Graph make_chain_graph(const TensorType& type, const Chain& chain) {
  graph::GraphBuilder builder("way");
  auto now = builder.input("tensor", type.shape, type.dtype, is_integer(type.dtype) ? 2 : 0);
  for (const auto& link : chain) now = builder.add(make_link_op(link), {now}, "");
  return builder.finish({now});
}

[[noreturn]] void fail(const std::string& place, const std::string& message) {
  throw UserError("derivation", place, message);
}

class Replayer {
 public:
  Replayer(const graph::Graph& pcg, const Parallelization& steps)
      : pcg_(pcg),
        cut_results_(pcg),
        cuts_(index_by_place(steps.cuts)),
        paths_(index_by_place(steps.paths)),
        without_(steps.without.begin(), steps.without.end()) {}

  Replayed run() {
    for (auto id : pcg_.ids()) {
      if (pcg_.node(id).op.role() == ops::Role::kCompute) replay_operator(id);
    }
    for (const auto& way : plan::list_operand_paths(pcg_)) replay_path(way);
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
    for (const auto& way : plan::list_operand_paths(pcg_)) known.insert(format_place(pcg_, way));
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
      if (plan::is_whole(pcg_, id)) return;
      if (!without_.contains(name)) fail(name, "is sharded, but no derivation step explains how");
      out_.cuts.without.push_back(name);
      return;
    }
    const auto& derived = *at->second;
    try {
      const auto& made = cut_results_.get_result(id, derived.steps, derived.replicas);
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
                                 to_text(whole), to_text(derived.steps));
    const auto [at, fresh] = replayed_.try_emplace(key);
    try {
      if (fresh) at->second = replay_chain(type, whole, derived.steps);
    } catch (const UserError& error) {
      fail(place, error.where + ": " + error.message);
    }
    return at->second;
  }

  const graph::Graph& pcg_;
  plan::CutCache cut_results_;
  ByPlace cuts_;
  ByPlace paths_;
  std::set<std::string> without_;
  plan::CutOperators cut_operators_;
  std::unordered_map<std::string, Chain> replayed_;
  Replayed out_;
};

}  // namespace

Chain replay_chain(const TensorType& type, const Chain& chain, const RuleSteps& steps) {
  auto graph = make_chain_graph(type, chain);
  for (const auto& step : steps) {
    const auto nodes = list_nodes(graph);
    if (step.at >= nodes.size()) {
      throw UserError("derivation", step.rule,
                      fmt::format("expected at least {} operators before this step", step.at));
    }
    const auto hashes = graph::hash_nodes(graph, graph::HashKind::kIdentity);
    graph = rewrite::apply_step(graph, {step.rule, {hashes[nodes[step.at].index()]}, step.choices},
                                plan::find_usable_rule);
  }
  Chain out;
  const auto nodes = list_nodes(graph);
  for (std::size_t i = 1; i < nodes.size(); ++i)
    out.push_back(plan::to_chain_link(graph.node(nodes[i]).op));
  return out;
}

Replayed replay_parallelization(const graph::Graph& pcg, const Parallelization& steps) {
  return Replayer(pcg, steps).run();
}

}  // namespace tandem::check
