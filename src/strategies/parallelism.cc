#include "strategies/parallelism.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/text.h"
#include "machine/node_layout.h"
#include "ops/registry.h"
#include "strategies/families.h"
#include "strategies/problem.h"
#include "strategies/recomputation.h"
#include "strategies/stages.h"

namespace tandem::strategies {

namespace {

using graph::NodeId;
using machine::DigitMask;
using machine::DigitRole;
using machine::Digits;
using machine::has_digit;
using machine::NodeLayout;
using plan::MappedGraph;

// The value that several nodes have in common.
template <class T>
class Common {
 public:
  void add(const T& value) {
    if (!value_) value_ = value;
    differs_ = differs_ || *value_ != value;
  }
  // Returns `of_none` if there were no values, and nullopt if they differ.
  [[nodiscard]] std::optional<T> get(T of_none) const {
    if (differs_) return std::nullopt;
    return value_.value_or(of_none);
  }

 private:
  std::optional<T> value_;
  bool differs_ = false;
};

std::optional<std::int64_t> count_micro_batch_samples(const Parallelism& p, std::int64_t batch) {
  if (!p.dp || !p.micro_batches) return std::nullopt;
  const auto parts = *p.dp * *p.micro_batches;
  if (batch % parts != 0) return std::nullopt;
  return batch / parts;
}

// Sets ZeRO's level for replicated or sharded weights, if all kinds of layers agree.
void set_madmax_degrees(const Setting& setting, const StepSize& step, Parallelism& out) {
  Common<std::int64_t> zero;
  bool splits = step.kinds.empty();
  for (const auto kind : step.kinds) {
    const auto at = setting.layers.find(kind);
    const auto sharding = at == setting.layers.end() ? get_default_sharding(kind) : at->second;
    for (const auto level : {sharding.intra, sharding.inter}) {
      if (level == Sharding::kTp || level == Sharding::kMp) splits = true;
      zero.add(level == Sharding::kDdp ? 0 : 3);
    }
  }
  if (splits) {
    out.dp = out.tp = out.ep = out.zero = std::nullopt;
  } else {
    out.zero = zero.get(0);
  }
}

bool is_tensor_parallel_kind(const ops::Op& op) {
  return op.is(ops::kLinear) || op.is(ops::kContract) || op.is(ops::kMatMul) ||
         op.is(ops::kBatchMatMul) || op.is(ops::kConv2d) || op.is(ops::kAttention);
}

// Reads the degrees off the operators of a mapped graph.
class Reading {
 public:
  Reading(const MappedGraph& mapped, const machine::Machine& machine)
      : mapped_(mapped),
        pcg_(mapped.pcg),
        machine_(machine),
        digits_(machine, mapped.schedule.micro_batches),
        space_(digits_.all() & ~mapped.schedule.digits) {
    if (mapped.schedule.micro_batches > 1) space_ &= ~machine::bit(0);  // the micro-batches
  }

  Parallelism run(std::int64_t batch, std::optional<std::int64_t> layers) {
    const auto nodes = analyze(pcg_);
    for (auto id : pcg_.ids()) {
      const auto& node = pcg_.node(id);
      if (node.op.role() != ops::Role::kCompute || is_parallel(node)) continue;
      read_operator(id, nodes[id.index()]);
      read_weights(id);
    }
    const auto& schedule = mapped_.schedule;
    Parallelism out{.dp = dp_.get(1),
                    .tp = tp_.get(1),
                    .pp = digits_.group_size(schedule.digits),
                    .cp = cp_.get(1),
                    .ep = ep_.get(1),
                    .vpp = schedule.stages / digits_.group_size(schedule.digits),
                    .zero = find_zero_level(),
                    .micro_batches = schedule.micro_batches,
                    .layers = layers};
    out.micro_batch_size = count_micro_batch_samples(out, batch);
    read_recomputation(out);
    return out;
  }

 private:
  // Returns the number of devices that factors of these kinds are split over.
  [[nodiscard]] std::int64_t compute_degree(const AnalyzedNode& node, const NodeLayout& layout,
                                            std::initializer_list<FactorKind> kinds) const {
    DigitMask over = 0;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (!has_digit(space_, i) || !layout.uses[i].is_factor()) continue;
      if (std::ranges::find(kinds, node.kinds[layout.uses[i].factor()]) != kinds.end()) {
        over |= machine::bit(i);
      }
    }
    return digits_.group_size(over);
  }

  void read_operator(NodeId id, const AnalyzedNode& node) {
    std::vector<machine::Layout> operands;
    for (auto i : pcg_.inputs(id)) operands.push_back(mapped_.layouts[i.index()]);
    const auto layout = infer_node_layout(node.signature, operands, digits_);
    if (!layout) return;
    const bool has_experts = std::ranges::find(node.kinds, FactorKind::kExpert) != node.kinds.end();
    if (has_experts) {
      ep_.add(compute_degree(node, *layout, {FactorKind::kExpert}));
    } else if (node.batch()) {
      dp_.add(compute_degree(node, *layout, {FactorKind::kData}));
    }
    if (!is_tensor_parallel_kind(pcg_.node(id).op)) return;
    tp_.add(compute_degree(node, *layout, {FactorKind::kModel, FactorKind::kHead}));
    cp_.add(compute_degree(node, *layout, {FactorKind::kSequence}));
  }

  // Adds the bytes of weights that are used replicated: those stored replicated, those gathered
  // from shards, and those regathered.
  void read_weights(NodeId id) {
    for (auto operand : pcg_.inputs(id)) {
      auto at = operand;
      bool again = mapped_.recompute[at.index()];
      while (is_parallel(pcg_.node(at)) && pcg_.inputs(at).size() == 1) {
        at = pcg_.inputs(at)[0];
        again = again || mapped_.recompute[at.index()];
      }
      if (!is_weight(pcg_.node(at)) || !is_trained(pcg_.node(at))) continue;
      const auto& stored = mapped_.layouts[at.index()];
      const auto& used = mapped_.layouts[operand.index()];
      const auto copies = used.digits(DigitRole::kReplica) & space_;
      if (copies == 0) continue;
      const bool is_whole = (stored.digits(DigitRole::kReplica) & copies) == copies;
      const auto bytes = pcg_.node(at).type.whole_bytes();
      (is_whole ? replicated_ : sharded_) += bytes;
      if (!is_whole && again) regathered_ += bytes;
    }
  }

  [[nodiscard]] std::optional<std::int64_t> find_zero_level() const {
    constexpr double kFew = 0.01;  // a bias that no digit divides stays replicated
    if (sharded_ <= Bytes{}) return 0;
    if (replicated_ > kFew * sharded_) return std::nullopt;
    if (regathered_ >= (1 - kFew) * sharded_) return 3;
    if (regathered_ > kFew * sharded_) return std::nullopt;
    return mapped_.schedule.reduce_each ? 2 : 1;
  }

  void read_recomputation(Parallelism& out) const {
    const auto model = graph::erase_parallelism(pcg_);
    std::map<std::string_view, bool> by_name;
    for (auto id : pcg_.ids()) by_name.emplace(pcg_.node(id).name, mapped_.recompute[id.index()]);
    std::vector<bool> recomputed(model.size());
    for (auto id : model.ids()) {
      if (model.node(id).op.role() != ops::Role::kCompute) continue;
      const auto at = by_name.find(model.node(id).name);
      recomputed[id.index()] = at != by_name.end() && at->second;
    }
    const Digits digits(machine_);
    const Problem problem(model, digits);
    for (const auto how : kRecomputations) {
      if (find_recomputed(how, problem) != recomputed) continue;
      out.recompute = how;
      if (how == Recompute::kNone) out.recompute_layers = 0;
      if (how == Recompute::kFull) out.recompute_layers = out.layers;
      return;
    }
    const auto layers = count_recomputed_layers(problem, recomputed);
    if (!layers) return;
    out.recompute = Recompute::kFull;
    out.recompute_layers = layers;
  }

  // Returns the number of layers that are recomputed in full, if the others are not recomputed at
  // all.
  static std::optional<std::int64_t> count_recomputed_layers(const Problem& problem,
                                                             const std::vector<bool>& recomputed) {
    const auto full = find_recomputed(Recompute::kFull, problem);
    std::map<std::string_view, Common<bool>> layers;
    for (std::size_t n = 0; n < full.size(); ++n) {
      if (recomputed[n] && !full[n]) return std::nullopt;
      if (full[n])
        layers[parse_layer_number(problem.model.node(NodeId(n)).name)].add(recomputed[n]);
    }
    std::int64_t out = 0;
    for (const auto& [number, is_recomputed] : layers) {
      const auto value = is_recomputed.get(false);
      if (!value) return std::nullopt;
      if (*value && !number.empty()) ++out;
    }
    return out;
  }

  const MappedGraph& mapped_;
  const graph::Graph& pcg_;
  const machine::Machine& machine_;
  const Digits digits_;
  DigitMask space_;  // without micro-batches and pipeline
  Common<std::int64_t> dp_, tp_, cp_, ep_;
  Bytes replicated_, sharded_, regathered_;
};

}  // namespace

StepSize make_step_size(const Problem& problem, std::int64_t batch,
                        std::optional<std::int64_t> layers) {
  StepSize out{.devices = problem.digits.devices(), .batch = batch, .layers = layers, .kinds = {}};
  for (const auto kind : kLayerKinds) {
    if (problem.has(kind)) out.kinds.push_back(kind);
  }
  return out;
}

Parallelism compute_parallelism(const Setting& setting, const StepSize& step) {
  std::int64_t tp = 1;
  for (const auto n : setting.tp) tp *= n;
  Parallelism out{.dp = setting.dp.value_or(step.devices / (tp * setting.pp * setting.cp)),
                  .tp = tp,
                  .pp = setting.pp,
                  .cp = setting.cp,
                  .ep = setting.ep.value_or(1),
                  .vpp = setting.interleave,
                  .zero = setting.family == Family::kFsdp ? 3 : setting.zero.value_or(0),
                  .micro_batches = setting.micro.value_or(1),
                  .recompute = setting.recompute,
                  .layers = step.layers};
  if (setting.recompute == Recompute::kNone) out.recompute_layers = 0;
  if (setting.recompute == Recompute::kFull) out.recompute_layers = step.layers;
  const auto split = get_family(setting.family).split;
  if (split == FamilySplit::kLayerKinds) set_madmax_degrees(setting, step, out);
  if (split == FamilySplit::kOperators) out.dp = out.tp = std::nullopt;
  out.micro_batch_size = count_micro_batch_samples(out, step.batch);
  return out;
}

Parallelism compute_parallelism(const MappedGraph& mapped, const machine::Machine& machine,
                                std::int64_t batch, std::optional<std::int64_t> layers) {
  return Reading(mapped, machine).run(batch, layers);
}

std::optional<std::int64_t> count_layers(const graph::Graph& model) {
  const auto kinds = find_layer_kinds(model);
  std::set<std::string_view> numbers;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    const auto kind = kinds[id.index()];
    const bool is_layer = kind == LayerKind::kTransformer || kind == LayerKind::kExperts;
    if (!is_layer || node.op.role() != ops::Role::kCompute) continue;
    if (const auto number = parse_layer_number(node.name); !number.empty()) numbers.insert(number);
  }
  if (numbers.empty()) return std::nullopt;
  return static_cast<std::int64_t>(numbers.size());
}

namespace {

std::string format_degrees(const Parallelism& p) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view what, const std::optional<std::int64_t>& degree) {
    if (degree.value_or(1) > 1) parts.push_back(fmt::format("{} {}", what, *degree));
  };
  add("DP", p.dp);
  add("TP", p.tp);
  add("PP", p.pp);
  if (p.pp.value_or(1) > 1 && p.vpp.value_or(1) > 1) {
    parts.back() += fmt::format(" (VPP {})", *p.vpp);
  }
  add("CP", p.cp);
  return join(parts, " x ");
}

std::string format_recomputation(const Parallelism& p) {
  if (!p.recompute) return "recompute by operator";
  if (*p.recompute == Recompute::kNone) return "";
  if (!p.recompute_layers || !p.layers) return fmt::format("recompute {}", name(*p.recompute));
  return fmt::format("recompute {}/{} layers", *p.recompute_layers, *p.layers);
}

}  // namespace

std::string to_text(const Parallelism& p) {
  std::vector<std::string> parts;
  const auto add = [&](std::string text) {
    if (!text.empty()) parts.push_back(std::move(text));
  };
  add(format_degrees(p));
  if (!p.dp || !p.tp) add("layouts by operator");
  if (parts.empty()) add("DP 1");
  if (p.ep.value_or(1) > 1) add(fmt::format("EP {}", *p.ep));
  if (p.zero.value_or(0) > 0) add(fmt::format("ZeRO-{}", *p.zero));
  const auto micro_batches = p.micro_batches.value_or(1);
  if (micro_batches > 1 && p.micro_batch_size) {
    add(fmt::format("mbs {} x {}", *p.micro_batch_size, micro_batches));
  } else if (micro_batches > 1) {
    add(fmt::format("{} micro-batches", micro_batches));
  }
  add(format_recomputation(p));
  return join(parts, ", ");
}

}  // namespace tandem::strategies
