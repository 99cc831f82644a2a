#include "frameworks/degrees.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "report/digit_text.h"
#include "strategies/families.h"
#include "strategies/grid.h"
#include "strategies/recomputation.h"
#include "strategies/stages.h"

namespace tandem::frameworks {

namespace {

using graph::NodeId;
using plan::MappedGraph;
using strategies::Family;
using strategies::Problem;
using strategies::Setting;

// Differences between a plan and the mapping that a setting makes.
struct MappingDifference {
  std::size_t count = 0;  // number of tensors with another layout
  std::string tensor;     // name of the first of them
  machine::Layout wanted, produced;
  std::string schedule;  // part of the schedule that differs, if no tensor does
};

class MappingComparison {
 public:
  explicit MappingComparison(const MappedGraph& plan) : plan_(plan) {
    for (auto id : plan.pcg.ids()) by_name_.emplace(plan.pcg.node(id).name, id);
  }

  [[nodiscard]] MappingDifference compare_to(const MappedGraph& made) const {
    MappingDifference out;
    for (auto id : made.pcg.ids()) {
      const auto& node = made.pcg.node(id);
      const auto at = by_name_.find(node.name);
      if (is_parallel(node) || at == by_name_.end()) continue;
      compare_node(made, id, at->second, out);
    }
    if (out.count == 0) out.schedule = find_schedule_difference(made);
    return out;
  }

 private:
  void compare_node(const MappedGraph& made, NodeId id, NodeId own, MappingDifference& out) const {
    const auto differs = [&](NodeId a, NodeId b) {
      if (plan_.layouts[b.index()] == made.layouts[a.index()]) return false;
      if (out.count == 0) {
        out.tensor = plan_.pcg.node(own).name;
        out.wanted = plan_.layouts[b.index()];
        out.produced = made.layouts[a.index()];
      }
      ++out.count;
      return true;
    };
    if (differs(id, own) || made.pcg.node(id).op.role() != ops::Role::kCompute) return;
    const auto theirs = made.pcg.inputs(id);
    const auto ours = plan_.pcg.inputs(own);
    for (std::size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i) {
      if (differs(theirs[i], ours[i])) return;
    }
  }

  // Returns the first difference of the schedules or of their nodes, weights that are regathered
  // included; empty if there is none.
  [[nodiscard]] std::string find_schedule_difference(const MappedGraph& made) const {
    const auto& a = plan_.schedule;
    const auto& b = made.schedule;
    if (a.order != b.order || a.semantics != b.semantics) return "the order of micro-batches";
    if (a.reduce_each != b.reduce_each) return "how often gradients are reduced";
    if (a.whole_gradients != b.whole_gradients) return "whether gradients are unsharded";
    for (auto id : made.pcg.ids()) {
      const auto at = by_name_.find(made.pcg.node(id).name);
      if (at == by_name_.end()) continue;
      if (plan_.stage[at->second.index()] != made.stage[id.index()]) {
        return fmt::format("the stage of %{}", made.pcg.node(id).name);
      }
      if (plan_.recompute[at->second.index()] != made.recompute[id.index()]) {
        return fmt::format("whether %{} is recomputed", made.pcg.node(id).name);
      }
    }
    return "";
  }

  const MappedGraph& plan_;
  std::unordered_map<std::string_view, NodeId> by_name_;
};

// Returns the settings to compare. The plan's own strategy is first if it has degrees: of several
// equal settings it is the intended one.
std::vector<Setting> list_candidate_settings(const plan::Plan& plan, const Problem& problem) {
  std::vector<Setting> out;
  try {
    out = complete(strategies::parse_setting(plan.strategy), problem);
    if (!out.empty() && !get_family(out[0].family).has_uniform_degrees()) out.clear();
  } catch (const UserError&) {
    // The plan was searched.
  }
  const auto& schedule = plan.mapped.schedule;
  const auto digits =
      plan.mapped.schedule.micro_batches > 1 ? schedule.digits >> 1U : schedule.digits;
  const auto pp = problem.digits.group_size(digits);
  std::vector<Setting> open = {{.family = Family::kDp}, {.family = Family::kFsdp}};
  for (const std::int64_t zero : {1, 2}) {
    open.push_back({.family = Family::kDeepspeed, .zero = zero});
  }
  for (const std::int64_t cp : {1, 2, 4, 8}) {
    if (cp > 1 && (!problem.has_sequence() || problem.digits.devices() % (cp * pp) != 0)) continue;
    for (const bool sp : {false, true}) {
      for (const std::int64_t zero : {0, 1, 2, 3}) {
        if (sp && !problem.has_sequence()) continue;
        open.push_back({.family = Family::kMegatron, .sp = sp, .zero = zero, .pp = pp, .cp = cp});
        if (zero == 0) open.back().zero.reset();
      }
    }
  }
  if (problem.has(strategies::LayerKind::kExperts)) open.push_back({.family = Family::kEp});
  for (auto setting : open) {
    if (setting.family != Family::kMegatron && pp > 1) continue;
    if (schedule.micro_batches > 1) setting.micro = schedule.micro_batches;
    if (pp > 1) {
      setting.interleave = schedule.stages / pp;
      if (schedule.order == plan::Order::kGpipe) setting.order = schedule.order;
    }
    setting.bucket = schedule.bucket;
    setting.ring = schedule.ring;
    try {
      std::ranges::copy(complete(setting, problem), std::back_inserter(out));
    } catch (const UserError&) {
      // The devices cannot be grouped for this setting.
    }
  }
  return out;
}

MappedGraph apply_strategy(const strategies::Strategy& strategy, const Problem& problem,
                           const machine::Machine& machine) {
  const machine::Digits in_time(machine, strategy.schedule.micro_batches);
  return plan::parallelize(problem.model, in_time, strategy.choices, strategy.schedule);
}

// The setting of a plan, or the name of the nearest one and its difference.
struct SettingMatch {
  std::optional<Setting> setting;
  std::string nearest;
  MappingDifference difference;
};

SettingMatch find_setting(const plan::Plan& plan, const Problem& problem,
                          const machine::Machine& machine) {
  const MappingComparison comparison(plan.mapped);
  SettingMatch out;
  const auto is_nearer = [&](const MappingDifference& d) {
    return out.nearest.empty() || d.count < out.difference.count;
  };
  for (const auto& setting : list_candidate_settings(plan, problem)) {
    const auto strategy = make_strategy(setting, problem);
    const auto* made = std::get_if<strategies::Strategy>(&strategy);
    if (made == nullptr || made->schedule.micro_batches != plan.mapped.schedule.micro_batches ||
        made->schedule.stages != plan.mapped.schedule.stages) {
      continue;
    }
    const auto difference = comparison.compare_to(apply_strategy(*made, problem, machine));
    if (is_nearer(difference)) {
      out.nearest = made->name;
      out.difference = difference;
    }
    if (difference.count > 0) continue;
    // All layouts match; the recomputation is still to be found.
    for (const auto recompute : strategies::kRecomputations) {
      auto with = setting;
      with.recompute = recompute;
      const auto again = make_strategy(with, problem);
      const auto* recomputed = std::get_if<strategies::Strategy>(&again);
      if (recomputed == nullptr) continue;
      out.difference = comparison.compare_to(apply_strategy(*recomputed, problem, machine));
      out.nearest = recomputed->name;
      if (!out.difference.schedule.empty()) continue;
      out.setting = with;
      return out;
    }
  }
  return out;
}

bool is_transformer_layer(strategies::LayerKind kind) {
  return kind == strategies::LayerKind::kTransformer || kind == strategies::LayerKind::kExperts;
}

// Returns the number of layers of each stage; empty if a stage begins inside a layer.
std::vector<std::int64_t> count_stage_layers(const MappedGraph& mapped) {
  const auto kinds = strategies::find_layer_kinds(mapped.pcg);
  std::map<std::string_view, std::uint16_t> stage;
  std::vector<std::int64_t> out(static_cast<std::size_t>(mapped.schedule.stages));
  for (auto id : mapped.pcg.ids()) {
    const auto& node = mapped.pcg.node(id);
    const auto number = strategies::parse_layer_number(node.name);
    if (number.empty() || !is_transformer_layer(kinds[id.index()])) continue;
    if (node.op.role() != ops::Role::kCompute || is_parallel(node)) continue;
    const auto [at, is_new] = stage.emplace(number, mapped.stage[id.index()]);
    if (is_new) ++out[at->second];
    if (at->second != mapped.stage[id.index()]) return {};
  }
  return out;
}

Degrees fill_degrees(Degrees out, const plan::Plan& plan, const Problem& problem) {
  const auto& setting = out.setting;
  const auto devices = problem.digits.devices();
  out.zero = setting.family == Family::kFsdp ? 3 : setting.zero.value_or(0);
  out.dp = devices;
  if (setting.family == Family::kMegatron) {
    for (auto n : setting.tp) out.tp *= n;
    out.pp = setting.pp;
    out.cp = setting.cp;
    out.dp = devices / out.tp / out.pp / out.cp;
  }
  out.ep = setting.family == Family::kEp ? setting.ep.value_or(1) : 1;
  out.micro_batches = plan.mapped.schedule.micro_batches;
  out.samples = plan.batch / (out.dp * out.micro_batches);
  out.is_transformer = problem.has(strategies::LayerKind::kTransformer);
  if (out.pp > 1) out.layers = count_stage_layers(plan.mapped);
  return out;
}

}  // namespace

std::string describe_layout(const machine::Layout& layout, const machine::Machine& machine,
                            const machine::Digits& digits) {
  std::map<std::string, machine::DigitMask> by_role;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto role = layout[i];
    std::string what = "at one position of";
    if (role.is_dim()) what = fmt::format("sharded in dimension {} over", role.dim());
    if (role == machine::DigitRole::kReplica) what = "replicated over";
    if (role == machine::DigitRole::kPartial) what = "as partial sums over";
    by_role[what] |= machine::bit(i);
  }
  std::vector<std::string> out;
  out.reserve(by_role.size());
  for (const auto& [what, mask] : by_role) {
    out.push_back(fmt::format("{} {}", what, report::levels_text(mask, machine, digits)));
  }
  return out.empty() ? "unsharded" : join(out, ", ");
}

void check_not_rewritten(const plan::Plan& plan, const std::string& target) {
  if (plan.derivation.empty()) return;
  const auto& rule = plan.derivation.front().rule;
  throw UserError(
      target, plan.model,
      fmt::format("the plan rewrites the model's graph: {} rewrites, the "
                  "first is {}",
                  plan.derivation.size(), rule),
      "export a plain strategy of the plan's table: `tandem export MODEL --strategy NAME ...`; "
      "for torch, plan with `--search layouts`");
}

Degrees find_degrees(const plan::Plan& plan, const machine::Machine& machine,
                     const std::string& target) {
  check_not_rewritten(plan, target);
  const auto model = graph::erase_parallelism(plan.mapped.pcg);
  const machine::Digits digits(machine);
  const Problem problem(model, digits);
  const auto found = find_setting(plan, problem, machine);
  if (found.setting) {
    return fill_degrees({.setting = *found.setting, .layers = {}}, plan, problem);
  }
  const std::string hint = "`--to torch` exports the layout of each tensor";
  const auto& d = found.difference;
  if (found.nearest.empty()) {
    throw UserError(target, plan.strategy, "no known strategy has these stages and micro-batches",
                    hint);
  }
  if (d.count == 0) {
    throw UserError(
        target, found.nearest,
        fmt::format("lays out all tensors as the plan does, but differs in {}", d.schedule), hint);
  }
  const auto in_time = make_digits(plan, machine);
  std::string others;
  if (d.count == 2) others = "; another tensor differs too";
  if (d.count > 2) others = fmt::format("; {} other tensors differ too", d.count - 1);
  throw UserError(target, "%" + d.tensor,
                  fmt::format("is {}; under {}, the nearest degrees of parallelism, it is {}{}",
                              describe_layout(d.wanted, machine, in_time), found.nearest,
                              describe_layout(d.produced, machine, in_time), others),
                  hint);
}

}  // namespace tandem::frameworks
