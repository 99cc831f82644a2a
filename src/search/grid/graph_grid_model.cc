#include "search/grid/graph_grid_model.h"

#include <algorithm>

#include "base/error.h"
#include "machine/part.h"
#include "predict/kernels.h"
#include "strategies/pipeline.h"
#include "strategies/stages.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;

// The smallest activation that may go from a stage to the next one, of the whole batch.
Bytes least_sent(const strategies::Problem& problem) {
  const auto cuts = strategies::cuts(problem);
  Bytes out;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const auto bytes = problem.model.node(graph::NodeId(cuts[c])).type.whole_bytes();
    if (c == 0 || bytes < out) out = bytes;
  }
  return out;
}

// One machine for each kind of device, all of whose devices are of that kind.
std::vector<machine::Machine> equal_machines(const machine::Machine& machine) {
  if (machine.groups.empty()) return {machine};
  std::vector<machine::Machine> out;
  for (const auto& group : machine.groups) {
    out.push_back(machine);
    out.back().groups.clear();
    out.back().device = group.device;
  }
  return out;
}

// Compute by device group and node: that of a rank is the slowest of its groups'.
class GraphPipeline : public Pipeline {
 public:
  GraphPipeline(std::vector<std::uint16_t> stage_of_node, std::int64_t stages,
                std::vector<std::vector<std::size_t>> groups_of_rank)
      : stage_of_node_(std::move(stage_of_node)),
        stages_(static_cast<std::size_t>(stages)),
        groups_of_rank_(std::move(groups_of_rank)) {}

  [[nodiscard]] Loads loads(const PassBound& pass, double /*accumulations*/) const override {
    if (pass.units.empty()) return {};
    const auto nodes = stage_of_node_.size();
    const auto groups = pass.units.size() / nodes;
    const auto ranks = groups_of_rank_.size();
    std::vector<double> times(stages_ * groups);  // by stage and group
    for (std::size_t g = 0; g < groups; ++g) {
      for (std::size_t n = 0; n < nodes; ++n) {
        times[stage_of_node_[n] * groups + g] += pass.units[g * nodes + n];
      }
    }
    const auto time_of = [&](std::size_t stage) {
      double out = 0;
      for (auto g : groups_of_rank_[stage % ranks]) out = std::max(out, times[stage * groups + g]);
      return out;
    };
    Loads out;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      out.last = 0;
      for (auto s = rank; s < stages_; s += ranks) out.last += time_of(s);
      out.busiest = std::max(out.busiest, out.last);
      out.all += out.last;
      if (rank + 1 < ranks) out.others += time_of(rank);
    }
    return out;
  }

  [[nodiscard]] std::vector<predict::PassTime> times(const PassBound& /*pass*/,
                                                     bool /*accumulates*/) const override {
    return {};
  }

 private:
  std::vector<std::uint16_t> stage_of_node_;
  std::size_t stages_;
  std::vector<std::vector<std::size_t>> groups_of_rank_;
};

}  // namespace

GraphGridModel::GraphGridModel(Contest& contest, const strategies::Problem& problem,
                               std::int64_t batch,
                               std::function<bool(const std::vector<plan::Choice>&)> may_win)
    : contest_(contest),
      problem_(problem),
      batch_(batch),
      may_win_(std::move(may_win)),
      has_gradient_(graph::needs_gradient(problem.model)),
      least_sent_(least_sent(problem)) {}

std::unique_ptr<Pipeline> GraphGridModel::divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                 std::int64_t /*micro_batches*/) {
  const auto& digits = problem_.digits;
  const auto& machine = contest_.machine();
  const auto of_ranks = strategies::rank_digits(digits, ranks);
  if (!of_ranks) return nullptr;
  const auto stages = ranks * stages_of_rank;
  std::vector<std::uint16_t> stage_of_node(problem_.model.size());
  if (stages > 1) {
    auto found = strategies::stages_of(problem_, stages, *of_ranks);
    if (!found) return nullptr;
    stage_of_node = std::move(*found);
  }
  std::vector<std::vector<std::size_t>> groups_of_rank(static_cast<std::size_t>(ranks));
  if (machine.groups.empty()) {
    for (auto& groups : groups_of_rank) groups.push_back(0);
  } else {
    for (std::int64_t d = 0; d < digits.devices(); ++d) {
      auto& groups = groups_of_rank[static_cast<std::size_t>(digits.rank_in_group(d, *of_ranks))];
      const auto group = machine.group_of(d);
      if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
  }
  return std::make_unique<GraphPipeline>(std::move(stage_of_node), stages,
                                         std::move(groups_of_rank));
}

const GraphGridModel::Part* GraphGridModel::part_of(machine::DigitMask digits) {
  const auto [at, is_new] = parts_.try_emplace(digits);
  if (is_new) {
    auto part = std::make_unique<Part>();
    const auto& all = problem_.digits;
    for (const auto& machine : equal_machines(contest_.machine())) {
      auto found = machine::part_without(machine, all, all.all() & ~digits);
      if (!found) return nullptr;
      part->machines.push_back(std::move(*found));
    }
    part->digits = std::make_unique<machine::Digits>(part->machines[0]);
    part->problem = std::make_unique<strategies::Problem>(problem_.model, *part->digits);
    at->second = std::move(part);
  }
  return at->second.get();
}

std::optional<PassBound> GraphGridModel::bound(const PassKind& kind, const std::string& recompute) {
  Setting setting{.family = Family::kMegatron};
  const auto& all = problem_.digits;
  auto devices = std::int64_t{1};
  const auto* part = part_of(kind.ep > 1 ? all.all() : kind.tensor | kind.context);
  if (part == nullptr) return std::nullopt;
  if (kind.ep > 1) {
    setting.family = Family::kEp;
    setting.ep = kind.ep;
    devices = all.devices();
  } else {
    setting.tp = {kind.tp};
    setting.cp = kind.cp;
    setting.dp = 1;
    setting.sp = kind.sequence_parallel;
  }
  setting.recompute = recompute;
  const auto micro_batches = batch_ / devices / kind.micro_batch_size;
  if (micro_batches > 1) setting.micro = micro_batches;
  const auto made = make_strategy(setting, *part->problem);
  const auto* strategy = std::get_if<strategies::Strategy>(&made);
  if (strategy == nullptr) return std::nullopt;
  PassBound out;
  out.units = compute_of(*part, *strategy);
  out.sent = least_sent_ * (static_cast<double>(kind.micro_batch_size) /
                            static_cast<double>(batch_ * kind.tp * kind.cp));
  return out;
}

// What does not depend on the batch may be computed once a step.
std::vector<double> GraphGridModel::compute_of(const Part& part,
                                               const strategies::Strategy& strategy) const {
  const auto& model = problem_.model;
  std::vector<double> out;
  out.reserve(part.machines.size() * model.size());
  for (const auto& machine : part.machines) {
    const machine::Digits digits(machine, strategy.schedule.micro_batches);
    const predict::CostModel costs(machine, digits, contest_.options().optimizer,
                                   contest_.options().precision);
    const auto roles = predict::kernels_of(model, machine.device.software);
    for (auto id : model.ids()) {
      const auto& node = model.node(id);
      const auto& analyzed = part.problem->nodes[id.index()];
      out.push_back(0);
      if (node.op.role() != ops::Role::kCompute || !analyzed.batch()) continue;
      std::vector<TensorType> types;
      ops::InputMask differentiated = 0;
      const auto inputs = model.inputs(id);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        types.push_back(model.node(inputs[i]).type);
        if (has_gradient_[inputs[i].index()]) differentiated |= ops::InputMask{1} << i;
      }
      const auto& choice = strategy.choices[id.index()];
      const auto role = role_of(roles, id);
      const auto& s = analyzed.signature;
      out.back() = costs.compute(node.op, s, types, node.type, choice.node, differentiated, role)
                       .compute.value;
      if (choice.remake) {
        out.back() +=
            costs.computed_again(node.op, s, types, node.type, choice.node, role).compute.value;
      }
    }
  }
  return out;
}

std::vector<Estimated> GraphGridModel::evaluate(const std::vector<Setting>& settings) {
  std::vector<Estimated> out;
  std::vector<Candidate> candidates;
  for (const auto& setting : settings) {
    auto made = make_strategy(setting, problem_);
    auto* strategy = std::get_if<strategies::Strategy>(&made);
    if (strategy == nullptr || !may_win_(strategy->choices)) continue;
    out.push_back({setting, std::nullopt});
    candidates.push_back(candidate_of(std::move(*strategy)));
  }
  const auto costed = contest_.enter(candidates);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (costed[i]) out[i].point = point_of(*costed[i]);
  }
  return out;
}

}  // namespace tandem::search
