#include "search/grid/graph_grid_model.h"

#include <algorithm>

#include "base/error.h"
#include "machine/part.h"
#include "machine/submachine.h"
#include "predict/collectives.h"
#include "predict/kernels.h"
#include "predict/task_work.h"
#include "search/grid/backward_reads.h"
#include "strategies/pipeline.h"
#include "strategies/stages.h"
#include "strategies/weight_sharding.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;

// Returns the bytes of the smallest activation that may go from one stage to the next, for the
// whole batch.
Bytes find_least_sent(const strategies::Problem& problem) {
  const auto cuts = strategies::find_cuts(problem);
  Bytes out;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const auto bytes = problem.model.node(graph::NodeId(cuts[c])).type.whole_bytes();
    if (c == 0 || bytes < out) out = bytes;
  }
  return out;
}

// Returns, by stage, the first node that reads another stage's batch-dependent result. For the
// first stage that is its first node.
std::vector<std::size_t> find_stage_begins(const strategies::Problem& problem,
                                           const std::vector<std::uint16_t>& stage_of_node,
                                           std::int64_t stages) {
  const auto& model = problem.model;
  std::vector<std::size_t> out(static_cast<std::size_t>(stages), model.size());
  out[0] = 0;
  for (auto id : model.ids()) {
    auto& begin = out[stage_of_node[id.index()]];
    const bool begins = std::ranges::any_of(model.inputs(id), [&](graph::NodeId i) {
      return strategies::is_operator(problem, i.index()) && problem.nodes[i.index()].batch() &&
             stage_of_node[i.index()] != stage_of_node[id.index()];
    });
    if (begins) begin = std::min(begin, id.index());
  }
  return out;
}

// A pipeline whose units are nodes, by device group. A rank is as slow as the slowest of its
// groups.
class GraphPipeline : public Pipeline {
 public:
  GraphPipeline(const BackwardReads& graph, std::vector<std::uint16_t> stage_of_node,
                std::vector<std::size_t> begins,
                std::vector<std::vector<std::size_t>> groups_of_rank, std::int64_t micro_batches)
      : graph_(graph),
        stage_of_node_(std::move(stage_of_node)),
        begins_(std::move(begins)),
        stages_(begins_.size()),
        groups_of_rank_(std::move(groups_of_rank)),
        micro_batches_(static_cast<std::size_t>(micro_batches)) {}

  [[nodiscard]] Loads compute_loads(const PassBound& pass, double accumulations) const override {
    if (pass.units.empty()) return {.ranks = std::vector<double>(groups_of_rank_.size())};
    const auto nodes = stage_of_node_.size();
    const auto groups = pass.units.size() / nodes;
    const auto ranks = groups_of_rank_.size();
    const auto stage_of = [&](std::size_t unit) { return stage_of_node_[unit % nodes]; };
    // The four vectors below are indexed by stage, then by group.
    std::vector<double> in_turn(stages_ * groups);
    std::vector<double> early(stages_ * groups);  // before any use of other stages' results
    std::vector<double> recomputed(stages_ * groups);
    std::vector<double> accumulation(stages_ * groups);
    const auto place_of = [&](std::size_t unit) { return stage_of(unit) * groups + unit / nodes; };
    const auto add = [&](std::size_t unit, double seconds) {
      auto& times = unit % nodes < begins_[stage_of(unit)] ? early : in_turn;
      times[place_of(unit)] += seconds;
    };
    for (std::size_t unit = 0; unit < pass.units.size(); ++unit) {
      add(unit, pass.units[unit] - pass.recomputed[unit]);
      recomputed[place_of(unit)] += pass.recomputed[unit];
      if (accumulations > 0) accumulation[place_of(unit)] += pass.accumulation[unit];
    }
    for (const auto& wait : pass.waits) {
      if (stage_of(wait.unit) == stage_of(wait.after)) add(wait.unit, wait.seconds);
    }
    Loads out;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto most = [&](const auto& seconds) {
        double out = 0;
        for (auto g : groups_of_rank_[rank]) out = std::max(out, seconds(g));
        return out;
      };
      double load = 0;
      for (auto s = rank; s < stages_; s += ranks) {
        load += most([&](std::size_t g) {
          const auto at = s * groups + g;
          return in_turn[at] + early[at] + recomputed[at] + accumulations * accumulation[at];
        });
      }
      out.ranks.push_back(load);
      const bool is_last = rank + 1 == ranks;
      const auto share = [&](std::size_t g) {
        const auto at = rank * groups + g;
        if (is_last) return early[at] + accumulation[at];
        return in_turn[at] + (rank == 0 ? accumulation[at] : 0);
      };
      out.others += is_last ? -most(share) : most(share);
    }
    return out;
  }

  // All but the last stage of a rank have run the forward pass of one micro-batch of each rank.
  [[nodiscard]] Bytes compute_saved_bytes(const PassBound& pass) const override {
    const auto ranks = groups_of_rank_.size();
    std::vector<Bytes> of_rank(ranks);
    Bytes alone;  // one micro-batch in one stage
    if (pass.results.empty()) return {};
    const auto of_stages = compute_stage_activations(graph_, stage_of_node_, stages_, pass.results);
    for (std::size_t s = 0; s < stages_; ++s) {
      const auto rank = s % ranks;
      const bool is_last = s + ranks >= stages_;
      const auto in_flight = std::min(is_last ? ranks - rank : ranks, micro_batches_);
      const auto& [saved, peak] = of_stages[s];
      of_rank[rank] += saved * static_cast<double>(is_last ? in_flight - 1 : in_flight);
      if (is_last) of_rank[rank] += peak;
      alone = std::max(alone, peak);
    }
    return std::max(alone, std::ranges::max(of_rank));
  }

  [[nodiscard]] std::size_t get_rank(std::size_t unit) const override {
    return stage_of_node_[unit % stage_of_node_.size()] % groups_of_rank_.size();
  }

 private:
  const BackwardReads& graph_;
  std::vector<std::uint16_t> stage_of_node_;
  std::vector<std::size_t> begins_;  // by stage: first node that reads another stage's result
  std::size_t stages_;
  std::vector<std::vector<std::size_t>> groups_of_rank_;
  std::size_t micro_batches_;
};

}  // namespace

GraphGridModel::GraphGridModel(CandidatePool& pool, const strategies::Problem& problem,
                               std::int64_t batch,
                               std::function<bool(const std::vector<plan::Choice>&)> may_win)
    : pool_(pool),
      problem_(problem),
      batch_(batch),
      may_win_(std::move(may_win)),
      has_gradient_(graph::mark_gradient_nodes(problem.model)),
      backward_reads_(problem, has_gradient_),
      least_sent_(find_least_sent(problem)) {}

ops::InputMask GraphGridModel::find_differentiated_inputs(graph::NodeId id) const {
  ops::InputMask out = 0;
  const auto inputs = problem_.model.inputs(id);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (has_gradient_[inputs[i].index()]) out |= ops::InputMask{1} << i;
  }
  return out;
}

std::unique_ptr<Pipeline> GraphGridModel::divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                 std::int64_t micro_batches) {
  const auto& digits = problem_.digits;
  const auto& machine = pool_.machine();
  const auto of_ranks = strategies::find_rank_digits(digits, ranks);
  if (!of_ranks) return nullptr;
  const auto stages = ranks * stages_of_rank;
  std::vector<std::uint16_t> stage_of_node(problem_.model.size());
  if (stages > 1) {
    auto found = strategies::assign_stages(problem_, stages, *of_ranks);
    if (!found) return nullptr;
    stage_of_node = std::move(*found);
  }
  std::vector<std::vector<std::size_t>> groups_of_rank(static_cast<std::size_t>(ranks));
  if (machine.groups.empty()) {
    for (auto& groups : groups_of_rank) groups.push_back(0);
  } else {
    for (std::int64_t d = 0; d < digits.devices(); ++d) {
      auto& groups = groups_of_rank[static_cast<std::size_t>(digits.rank_in_group(d, *of_ranks))];
      const auto group = machine.find_group(d);
      if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
  }
  auto begins = find_stage_begins(problem_, stage_of_node, stages);
  return std::make_unique<GraphPipeline>(backward_reads_, std::move(stage_of_node),
                                         std::move(begins), std::move(groups_of_rank),
                                         micro_batches);
}

const GraphGridModel::ParallelGroup* GraphGridModel::get_group(machine::DigitMask digits) {
  const auto [at, is_new] = parts_.try_emplace(digits);
  if (is_new) {
    auto part = std::make_unique<ParallelGroup>();
    const auto& all = problem_.digits;
    for (const auto& machine : machine::split_by_device_kind(pool_.machine())) {
      auto found = machine::make_part_without(machine, all, all.all() & ~digits);
      if (!found) return nullptr;
      part->machines.push_back(std::move(*found));
    }
    part->mask = digits;
    part->digits = std::make_unique<machine::Digits>(part->machines[0]);
    part->problem = std::make_unique<strategies::Problem>(problem_.model, *part->digits);
    at->second = std::move(part);
  }
  return at->second.get();
}

std::optional<PassBound> GraphGridModel::bound_pass(const PassKind& kind,
                                                    strategies::Recompute recompute) {
  Setting setting{.family = Family::kMegatron};
  const auto& all = problem_.digits;
  auto devices = std::int64_t{1};
  const auto* part = get_group(kind.ep > 1 ? all.all() : kind.tensor | kind.context);
  if (part == nullptr) return PassBound{};  // no bound is known
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
  record_weights(kind, *part, *strategy);
  auto out = bound_compute(*part, *strategy);
  add_results(*part, *strategy, out);
  out.sent = least_sent_ * (static_cast<double>(kind.micro_batch_size) /
                            static_cast<double>(batch_ * kind.tp * kind.cp));
  return out;
}

// Counts only operators that depend on the batch. Others may run once a step.
PassBound GraphGridModel::bound_compute(const ParallelGroup& part,
                                        const strategies::Strategy& strategy) {
  const auto& model = problem_.model;
  PassBound out;
  out.units.reserve(part.machines.size() * model.size());
  for (const auto& machine : part.machines) {
    const machine::Digits digits(machine, strategy.schedule.micro_batches);
    const predict::CostModel costs(machine, digits, pool_.options().optimizer,
                                   pool_.options().precision);
    const auto roles = predict::find_kernel_roles(model, machine.device.software);
    std::vector<predict::CostModel::PassTimes> times(model.size());
    const auto accumulation = compute_accumulation_times(machine, digits, strategy);
    out.accumulation.insert(out.accumulation.end(), accumulation.begin(), accumulation.end());
    const auto again = backward_reads_.find_recomputed(strategy.choices);
    for (auto id : model.ids()) {
      const auto& node = model.node(id);
      out.units.push_back(0);
      out.recomputed.push_back(0);
      if (!is_in_pass(id)) continue;
      std::vector<TensorType> types;
      for (auto i : model.inputs(id)) types.push_back(model.node(i).type);
      const auto& choice = strategy.choices[id.index()];
      auto& now = times[id.index()];
      now = costs.pass_times(node.op, part.problem->nodes[id.index()].signature, types, node.type,
                             choice.node, find_differentiated_inputs(id), get_role(roles, id));
      out.units.back() = (now.forward + now.backward).value;
      if (again[id.index()]) out.recomputed.back() = now.forward.value;
      out.units.back() += out.recomputed.back();
    }
    double compute = 0;
    for (auto u = out.units.size() - model.size(); u < out.units.size(); ++u) {
      compute += out.units[u] - out.recomputed[u];
    }
    out.compute = &machine == &part.machines.front() ? compute : std::min(out.compute, compute);
    const auto moved = list_resharded_results(part, strategy);
    add_waits(moved, times, {}, out);
    // Recomputation may overlap communication.
    if (std::ranges::find(again, true) == again.end()) add_waits(moved, times, accumulation, out);
  }
  return out;
}

// Returns the accumulation times of gradients of weights with one reader, by that reader.
std::vector<double> GraphGridModel::compute_accumulation_times(
    const machine::Machine& machine, const machine::Digits& digits,
    const strategies::Strategy& strategy) const {
  const auto& model = problem_.model;
  const auto consumers = model.consumers();
  std::vector<double> out(model.size());
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node) || !is_trained(node) || consumers[id.index()].size() != 1) continue;
    const auto reader = consumers[id.index()][0];
    const auto shape =
        compute_parallel_shape(strategy.choices[id.index()].source, node.type.shape.sizes, digits);
    if (!is_in_pass(reader) || !shape) continue;
    const auto dtype = pool_.options().precision.gradient(node.type.dtype);
    const auto elements = shape->shard_shape().count();
    const auto bytes = node.type.density * static_cast<double>(elements) *
                       (get_element_size(node.type.dtype) + get_element_size(dtype));
    const auto work = predict::addition_work(elements, dtype, bytes);
    out[reader.index()] += predict::task_time(machine.device, work, dtype).value;
  }
  return out;
}

bool GraphGridModel::is_in_pass(graph::NodeId id) const {
  return problem_.model.node(id).op.role() == ops::Role::kCompute &&
         problem_.nodes[id.index()].batch();
}

// Returns the layout on all digits in one micro-batch. It is replicated over digits outside the
// part.
machine::Layout GraphGridModel::extend_to_all_digits(const ParallelGroup& part,
                                                     const machine::Layout& layout) const {
  const auto& all = problem_.digits;
  machine::Layout out(all.count(), machine::DigitRole::kReplica);
  auto at = layout.count() - part.digits->count();
  for (std::size_t i = 0; i < all.count(); ++i) {
    if (machine::has_digit(part.mask, i)) out.set(i, layout[at++]);
  }
  return out;
}

void GraphGridModel::record_weights(const PassKind& kind, const ParallelGroup& part,
                                    const strategies::Strategy& strategy) {
  auto [at, is_new] = used_.try_emplace({kind.tensor, kind.context});
  if (!is_new) return;
  const auto consumers = problem_.model.consumers();
  for (auto id : problem_.model.ids()) {
    const auto& node = problem_.model.node(id);
    if (!is_weight(node) || !is_trained(node)) continue;
    const bool is_table = std::ranges::any_of(
        consumers[id.index()], [&](graph::NodeId reader) { return problem_.is_table(reader); });
    const auto& readers = consumers[id.index()];
    bool is_read_again = false;
    if (readers.size() == 1) {
      const auto inputs = problem_.model.inputs(readers[0]);
      const auto operand = static_cast<std::size_t>(std::ranges::find(inputs, id) - inputs.begin());
      is_read_again = backward_reads_.reads(readers[0].index(), operand);
    }
    at->second.push_back({id, extend_to_all_digits(part, strategy.choices[id.index()].source),
                          is_table, is_read_again});
  }
}

// Returns the results that are resharded before an operator reads them.
std::vector<GraphGridModel::ReshardedResult> GraphGridModel::list_resharded_results(
    const ParallelGroup& part, const strategies::Strategy& strategy) {
  const auto& model = problem_.model;
  const auto count = part.digits->count() + (strategy.schedule.micro_batches > 1 ? 1 : 0);
  std::vector<ReshardedResult> out;
  for (auto id : model.ids()) {
    if (!is_in_pass(id)) continue;
    const auto inputs = model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_in_pass(inputs[i])) continue;
      const auto signature = [&](graph::NodeId n) -> const ops::Signature& {
        return part.problem->nodes[n.index()].signature;
      };
      const auto has = compute_output_layout(signature(inputs[i]),
                                             strategy.choices[inputs[i].index()].node, count);
      const auto wanted =
          compute_input_layout(signature(id), strategy.choices[id.index()].node, count, i);
      if (has == wanted) continue;
      const auto bytes = model.node(inputs[i]).type.whole_bytes().value /
                         static_cast<double>(strategy.schedule.micro_batches);
      auto& costs = pool_.costs();
      const auto from = extend_to_all_digits(part, has);
      const auto to = extend_to_all_digits(part, wanted);
      out.push_back(
          {inputs[i].index(), id.index(), costs.reshard_time(from, to, bytes).value,
           costs.reshard_time(to_gradient_layout(to), to_gradient_layout(from), bytes).value});
    }
  }
  return out;
}

// Adds each result's bytes on one device: its own shard or the shard in which a reader has it,
// whichever is smaller.
void GraphGridModel::add_results(const ParallelGroup& part, const strategies::Strategy& strategy,
                                 PassBound& out) const {
  const auto& model = problem_.model;
  const auto& choices = strategy.choices;
  const auto micro_batches = strategy.schedule.micro_batches;
  const auto count = part.digits->count() + (micro_batches > 1 ? 1 : 0);
  const auto first = count - part.digits->count();
  const auto share_of = [&](const machine::Layout& layout) {
    machine::DigitMask dims = 0;
    for (std::size_t i = first; i < count; ++i) {
      if (layout[i].is_dim()) dims |= machine::bit(i - first);
    }
    return 1 / static_cast<double>(part.digits->group_size(dims) * micro_batches);
  };
  std::vector<double> shares(model.size());
  for (auto id : model.ids()) {
    const auto n = id.index();
    const auto& signature = part.problem->nodes[n].signature;
    if (is_in_pass(id))
      shares[n] = share_of(compute_output_layout(signature, choices[n].node, count));
    const auto inputs = model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto& share = shares[inputs[i].index()];
      if (share == 0 || !is_in_pass(id)) continue;
      share = std::min(share, share_of(compute_input_layout(signature, choices[n].node, count, i)));
    }
  }
  for (auto id : model.ids()) {
    const auto n = id.index();
    out.results.push_back({model.node(id).type.whole_bytes() * shares[n], choices[n].recompute});
  }
}

// Adds the waits of a pass in which an operator begins once its inputs have arrived and the
// operator before it has ended. `moved` is in the order of readers. With `accumulation`, given by
// node, the pass is the backward pass; the accumulation follows its node.
void GraphGridModel::add_waits(std::vector<ReshardedResult> moved,
                               const std::vector<predict::CostModel::PassTimes>& times,
                               const std::vector<double>& accumulation, PassBound& out) const {
  if (moved.empty()) return;
  const bool backward = !accumulation.empty();
  const auto nodes = problem_.model.size();
  const auto first_unit = out.units.size() - nodes;
  if (backward) {
    std::erase_if(moved, [&](const ReshardedResult& m) { return !has_gradient_[m.from]; });
    std::ranges::stable_sort(moved, std::greater{}, &ReshardedResult::from);
  }
  std::vector<double> ends(nodes);
  double now = 0;
  std::size_t before = nodes;  // last operator that computed
  auto next = moved.begin();
  for (std::size_t k = 0; k < nodes; ++k) {
    const auto n = backward ? nodes - 1 - k : k;
    double begin = now;
    std::size_t after = nodes;
    for (; next != moved.end() && (backward ? next->from : next->to) == n; ++next) {
      const auto other = backward ? next->to : next->from;
      const auto there = ends[other] + (backward ? next->back : next->there);
      if (there <= begin) continue;
      begin = there;
      after = other;
    }
    if (after != nodes) {
      out.waits.push_back({first_unit + n, first_unit + after, begin - now, before == after});
    }
    const auto time = (backward ? times[n].backward : times[n].forward).value;
    ends[n] = begin + time;
    now = ends[n] + (backward ? accumulation[n] : 0);
    if (now > begin) before = now > ends[n] ? nodes : n;
  }
}

// Uses the layouts of weights in a strategy with these digits.
std::optional<std::vector<SharedWeight>> GraphGridModel::list_shared_weights(
    const PassKind& kind, machine::DigitMask ranks, bool is_sharded) {
  const auto used = used_.find({kind.tensor, kind.context});
  if (used == used_.end() || kind.ep > 1) return std::nullopt;
  const auto& digits = problem_.digits;
  const auto& precision = pool_.options().precision;
  const auto& machine = pool_.machine();
  const auto shared = digits.all() & ~(kind.tensor | ranks);
  const auto& software = machine.device.software;
  const bool is_joined = software.joined_gradients;
  const bool sums_rows = software.sums_rows && pool_.options().optimizer == plan::Optimizer::kSgd;
  std::vector<SharedWeight> out;
  const auto fraction = [&](const machine::Layout& layout) {
    machine::DigitMask dims = 0;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (layout[i].is_dim()) dims |= machine::bit(i);
    }
    return 1 / static_cast<double>(digits.group_size(dims));
  };
  const auto add = [&](graph::NodeId weight, const machine::Layout& from, const machine::Layout& to,
                       Bytes bytes, bool gathers, bool again, bool is_in_shards) {
    for (const auto& step : machine::reshard(from, to)) {
      if (is_local(step.kind)) continue;
      const auto most = bytes * std::max(fraction(step.before), fraction(step.after));
      const auto time = is_joined && !gathers ? predict::bandwidth_time : predict::collective_time;
      const auto seconds = time(machine, digits, step.kind, step.digits, most).value;
      out.push_back({weight.index(), predict::find_outermost_level(digits, step.digits),
                     gathers ? 0 : seconds, gathers ? seconds : 0, again ? seconds : 0,
                     is_in_shards});
    }
  };
  // A gradient is a sum over all devices that hold the same part of the weight.
  const auto summands = [&](machine::Layout layout) {
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (!machine::has_digit(ranks, i) && layout[i] == machine::DigitRole::kReplica) {
        layout.set(i, machine::DigitRole::kPartial);
      }
    }
    return layout;
  };
  for (const auto& weight : used->second) {
    if (sums_rows && weight.is_table) continue;
    const auto& type = problem_.model.node(weight.node).type;
    const auto whole = type.whole_bytes();
    const auto gradient =
        whole * (get_element_size(precision.gradient(type.dtype)) / get_element_size(type.dtype));
    const auto stored =
        is_sharded ? strategies::shard_weight(weight.layout, type.shape.sizes, shared, digits)
                   : weight.layout;
    add(weight.node, summands(weight.layout), summands(stored), gradient, false, false, true);
    add(weight.node, summands(stored), stored, gradient, false, false, false);
    add(weight.node, stored, weight.layout, whole, true, weight.is_read_by_backward, false);
  }
  return out;
}

std::vector<std::optional<Evaluated>> GraphGridModel::evaluate(
    const std::vector<Setting>& settings) {
  std::vector<std::optional<Evaluated>> out(settings.size());
  std::vector<Candidate> candidates;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    auto made = make_strategy(settings[i], problem_);
    auto* strategy = std::get_if<strategies::Strategy>(&made);
    if (strategy == nullptr || !may_win_(strategy->choices)) continue;
    which.push_back(i);
    candidates.push_back(make_candidate(std::move(*strategy)));
  }
  const auto evaluated = pool_.enter(candidates);
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (evaluated[i]) out[which[i]] = summarize(*evaluated[i]);
  }
  return out;
}

}  // namespace tandem::search
