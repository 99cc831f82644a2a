#include "report/plan_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "graph/text.h"
#include "predict/breakdown.h"
#include "report/level_words.h"
#include "report/mapped_text.h"
#include "report/plan_text.h"
#include "report/schedule_text.h"
#include "strategies/layer_kinds.h"

namespace tandem::report {

namespace {

using graph::NodeId;

// One of the two plans, indexed for the comparison node by node.
struct DiffSide {
  const PlanView& view;
  MappedModel mapped;
  std::unordered_map<std::string, NodeId> by_name;  // nodes of the model
  std::unordered_map<std::string, NodeId> in_pcg;   // nodes of the PCG, by name
  std::vector<std::string> spread;                  // placement in words, by node of the model

  explicit DiffSide(const PlanView& v) : view(v), mapped(make_mapped_model(v.program)) {
    for (auto id : mapped.model.ids()) by_name.emplace(mapped.model.node(id).name, id);
    for (auto id : v.program.pcg.ids()) in_pcg.emplace(v.program.pcg.node(id).name, id);
    for (auto id : mapped.model.ids()) spread.push_back(describe_placement(id));
  }

  [[nodiscard]] const graph::Node& node(NodeId id) const { return mapped.model.node(id); }

  // Returns the operator, its type and its operands as text. If the batches differ, omits types and
  // attributes, which depend on the batch, except for weights.
  [[nodiscard]] std::string describe_computation(NodeId id, bool same_batch) const {
    std::vector<std::string_view> inputs;
    if (!same_batch && !is_weight(node(id))) {
      std::vector<std::string> names;
      for (auto i : mapped.model.inputs(id)) names.push_back(node(i).name);
      return fmt::format("{}({})", node(id).op.name(), join(names, ", "));
    }
    for (auto i : mapped.model.inputs(id)) inputs.push_back(node(i).name);
    return graph::format_node(node(id), node(id).name, inputs);
  }

  // Returns the layout of the node's tensor, or "" if the PCG has no such node (parts of a join).
  [[nodiscard]] std::string describe_layout(NodeId id) const {
    const auto at = in_pcg.find(node(id).name);
    return at == in_pcg.end() ? "" : to_text(view.plan.mapped.layouts[at->second.index()]);
  }

  [[nodiscard]] std::string describe_placement(NodeId id) const {
    std::string out;
    if (node(id).op.role() == ops::Role::kSource) {
      const auto at = in_pcg.find(node(id).name);
      CHECK(at != in_pcg.end(), node(id).name);
      out = storage_text(view.program, view.machine, view.plan.mapped.layouts[at->second.index()]);
    } else {
      out = work_text(mapped.nodes[id.index()], view.machine, view.program);
    }
    return out.empty() ? "not partitioned" : out;
  }

  // Returns the communication for the node, sorted so that the order of tasks does not matter.
  [[nodiscard]] std::string describe_moves(NodeId id) const {
    std::vector<std::string> out;
    for (const auto& move : mapped.nodes[id.index()].moves) {
      out.push_back(move_text(move, view.machine, view.program.digits));
    }
    std::ranges::sort(out);
    return out.empty() ? "none" : join(out, ", ");
  }
};

std::vector<PlanDiff::ComparedProperty> list_job_properties(const plan::Plan& plan) {
  const auto text = [](std::string_view name, std::string value) {
    return PlanDiff::ComparedProperty{std::string(name), std::move(value), {}};
  };
  const auto& precision = plan.mapped.schedule.precision;
  return {text("model", plan.model),
          text("machine", plan.machine),
          text("batch", fmt::format("{}", plan.batch)),
          text("dtype", std::string(name(plan.dtype))),
          text("optimizer", std::string(name(plan.optimizer))),
          text("strategy", plan.strategy),
          text("semantics", std::string(name(plan.mapped.schedule.semantics))),
          text("master", precision.master ? "fp32" : "none"),
          text("gradients", std::string(name(precision.gradient(plan.dtype))))};
}

std::vector<PlanDiff::ComparedProperty> list_schedule_properties(const PlanView& view) {
  const auto& s = view.program.schedule;
  std::string ranks;
  for (std::size_t i = 0; i < view.program.digits.count(); ++i) {
    ranks += machine::has_digit(s.digits & ~view.program.digits.time(), i) ? 's' : '-';
  }
  const auto yes_no = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  std::size_t again = 0;
  for (const auto& task : view.program.tasks) {
    if (task.recomputed && task.kind == lower::TaskKind::kForward) ++again;
  }
  // The order has no effect if there is only one stage.
  const auto order = s.stages > 1 ? std::string(name(s.order)) : std::string("none");
  return {{"stages", fmt::format("{}", s.stages), {}},
          {"micro_batches", fmt::format("{}", s.micro_batches), {}},
          {"order", order, {}},
          {"ranks", s.stages > 1 ? ranks : std::string("none"), {}},
          {"recomputed_operators", fmt::format("{}", again), {}},
          {"gradients_summed_each_micro_batch", yes_no(s.reduce_each), {}},
          {"whole_gradients", yes_no(s.whole_gradients), {}},
          {"bucket_bytes", fmt::format("{:.0f}", s.bucket.value), {}},
          {"ring", yes_no(s.ring), {}}};
}

// Returns the fields whose values differ. `a` and `b` have the same names in the same order.
std::vector<PlanDiff::ComparedProperty> find_differing(
    std::vector<PlanDiff::ComparedProperty> a, const std::vector<PlanDiff::ComparedProperty>& b) {
  std::vector<PlanDiff::ComparedProperty> out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].a == b[i].a) continue;
    a[i].b = b[i].a;
    out.push_back(std::move(a[i]));
  }
  return out;
}

std::vector<PlanDiff::Figure> make_step_figures(const PlanView& view) {
  const auto& s = view.simulation;
  const auto a_second = [&](std::int64_t n) {
    return s.iteration > Seconds{} ? static_cast<double>(n) / s.iteration.value : 0;
  };
  const auto tokens = strategies::count_tokens(graph::erase_parallelism(view.program.pcg));
  return {{"step", "iteration", "iteration_s", s.iteration.value},
          {"step", "samples per second", "throughput", a_second(view.plan.batch)},
          {"step", "tokens per second", "tokens_per_s", a_second(tokens)},
          {"step", "MFU", "mfu", s.mfu},
          {"step", "compute", "compute_s", s.compute.value},
          {"step", "exposed communication", "exposed_comm_s", s.exposed_comm.value},
          {"step", "stall", "bubble_s", s.bubble.value}};
}

std::vector<PlanDiff::Figure> make_memory_figures(const PlanView& view) {
  using lower::BufferKind;
  const auto memory = view.memory().needs;
  const auto part = [&](BufferKind kind) { return memory.part(kind).value; };
  return {{"memory", "peak", "memory_bytes", memory.peak.value},
          {"memory", "weights", "weights_bytes", part(BufferKind::kWeight)},
          {"memory", "optimizer state", "optimizer_state_bytes", part(BufferKind::kState)},
          {"memory", "gathered weights", "gathered_weights_bytes", part(BufferKind::kGathered)},
          {"memory", "gradients", "gradients_bytes", part(BufferKind::kGradient)},
          {"memory", "activations", "activations_bytes", part(BufferKind::kActivation)},
          {"memory", "inputs", "inputs_bytes", part(BufferKind::kInput)},
          {"memory", "unused", "unused_bytes", memory.unused.value}};
}

std::vector<PlanDiff::Figure> make_breakdown_figures(const PlanView& view) {
  const auto shares = predict::break_down(view.program, view.simulation);
  std::vector<PlanDiff::Figure> out;
  std::vector<PlanDiff::Figure> of_these;
  for (const auto kind : predict::kReportedKinds) {
    Seconds serialized;
    Seconds exposed;
    const bool is_compute = kind == "compute" || kind == "embedding";
    for (const auto& share : shares) {
      if (predict::to_reported_kind(share.kind) != kind) continue;
      serialized += share.serialized;
      exposed += share.exposed;
    }
    const auto name = std::string(kind);
    out.push_back({"serialized", name, name + "_s", serialized.value});
    if (!is_compute) of_these.push_back({"exposed", name, name + "_s", exposed.value});
  }
  std::ranges::move(of_these, std::back_inserter(out));
  return out;
}

std::vector<PlanDiff::Figure> make_figures(const PlanView& view) {
  auto out = make_step_figures(view);
  for (auto& figure : make_memory_figures(view)) out.push_back(std::move(figure));
  for (auto& figure : make_breakdown_figures(view)) out.push_back(std::move(figure));
  return out;
}

// Returns the figures of both plans, without those that are 0 in both.
std::vector<PlanDiff::Figure> pair_figures(const PlanView& a, const PlanView& b) {
  auto out = make_figures(a);
  const auto others = make_figures(b);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].b = others[i].a;
  std::erase_if(out, [](const PlanDiff::Figure& f) { return f.a == 0 && f.b == 0; });
  return out;
}

class NodeDiff {
 public:
  NodeDiff(const PlanView& a, const PlanView& b, bool same_machine, PlanDiff& out)
      : a_(a),
        b_(b),
        same_machine_(same_machine),
        same_batch_(a.plan.batch == b.plan.batch),
        out_(out) {}

  void run() {
    for (auto id : a_.mapped.model.ids()) {
      const auto other = b_.by_name.find(a_.node(id).name);
      if (other == b_.by_name.end()) {
        count_node(a_.node(id), out_.only_a);
        continue;
      }
      ++out_.compared;
      const auto in_b = b_.describe_computation(other->second, same_batch_);
      if (a_.describe_computation(id, same_batch_) != in_b) count_node(a_.node(id), out_.changed);
      compare_placements(id, other->second);
    }
    for (auto id : b_.mapped.model.ids()) {
      if (!a_.by_name.contains(b_.node(id).name)) count_node(b_.node(id), out_.only_b);
    }
    const bool same_nodes = out_.only_a.empty() && out_.only_b.empty() && out_.changed.empty();
    out_.same_graph = same_batch_
                          ? a_.mapped.model.identity_hash() == b_.mapped.model.identity_hash()
                          : same_nodes;
    out_.moves_differ = out_.same_graph && same_machine_ && out_.spread.empty() && moves_differ();
  }

 private:
  static void count_node(const graph::Node& node, std::vector<PlanDiff::Nodes>& groups) {
    for (auto& group : groups) {
      const bool same = group.op == node.op.name() && fold_name(group.name) == fold_name(node.name);
      if (!same) continue;
      group.name = fold_name(node.name);
      ++group.count;
      return;
    }
    groups.push_back({node.name, node.op.name(), 1});
  }

  void compare_placements(NodeId a, NodeId b) {
    auto in_a = a_.spread[a.index()];
    auto in_b = b_.spread[b.index()];
    if (in_a == in_b) {
      if (!same_machine_) return;
      const auto layout_a = a_.describe_layout(a);
      const auto layout_b = b_.describe_layout(b);
      const auto moves_a = a_.describe_moves(a);
      const auto moves_b = b_.describe_moves(b);
      if (layout_a != layout_b) {
        // The words are equal although the layouts differ, so the layouts are shown.
        in_a += fmt::format(", layout {}", layout_a);
        in_b += fmt::format(", layout {}", layout_b);
      } else if (moves_a != moves_b && have_same_operand_placements(a, b)) {
        in_a = "same placement, communication: " + moves_a;
        in_b = "same placement, communication: " + moves_b;
      } else {
        return;
      }
    }
    add_placement_difference(a_.node(a), std::move(in_a), std::move(in_b));
  }

  // Returns whether the operands of both nodes have equal placements. If not, a difference in
  // communication follows from the operands and is not reported.
  [[nodiscard]] bool have_same_operand_placements(NodeId a, NodeId b) const {
    const auto inputs_a = a_.mapped.model.inputs(a);
    const auto inputs_b = b_.mapped.model.inputs(b);
    if (inputs_a.size() != inputs_b.size()) return false;
    for (std::size_t i = 0; i < inputs_a.size(); ++i) {
      if (a_.spread[inputs_a[i].index()] != b_.spread[inputs_b[i].index()]) return false;
    }
    return true;
  }

  void add_placement_difference(const graph::Node& node, std::string in_a, std::string in_b) {
    const auto [at, fresh] =
        known_.try_emplace({fold_name(node.name), node.op.name(), in_a, in_b}, out_.spread.size());
    if (fresh) {
      out_.spread.push_back({node.name, node.op.name(), 1, std::move(in_a), std::move(in_b)});
      return;
    }
    auto& group = out_.spread[at->second];
    group.name = fold_name(node.name);
    ++group.count;
  }

  // Returns whether the PCGs differ, which include the parallelization operators.
  [[nodiscard]] bool moves_differ() const {
    const auto& pcg_a = a_.view.program.pcg;
    const auto& pcg_b = b_.view.program.pcg;
    return pcg_a.identity_hash() != pcg_b.identity_hash();
  }

  DiffSide a_, b_;
  bool same_machine_, same_batch_;
  PlanDiff& out_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> known_;
};

}  // namespace

PlanDiff compare_plans(const PlanView& a, const PlanView& b) {
  PlanDiff out;
  out.header = find_differing(list_job_properties(a.plan), list_job_properties(b.plan));
  const bool same_machine = hash_machine(a.machine) == hash_machine(b.machine);
  if (!same_machine && a.plan.machine == b.plan.machine) {
    out.header.push_back({"machine's figures", "", ""});
  }
  out.figures = pair_figures(a, b);
  out.schedule = find_differing(list_schedule_properties(a), list_schedule_properties(b));
  NodeDiff(a, b, same_machine, out).run();
  out.rules_a = count_derivation_rules(a.plan.derivation);
  out.rules_b = count_derivation_rules(b.plan.derivation);
  if (!same_machine) {
    out.notes.emplace_back(
        "The machines differ: the levels are those of each plan's own machine. The assignment of "
        "work to devices is not compared.");
  }
  if (a.plan.batch != b.plan.batch) {
    out.notes.emplace_back("The batch sizes differ: compare throughput, not iteration time.");
  }
  const auto most = std::max(a.program.pcg.size(), b.program.pcg.size());
  if (a.plan.model != b.plan.model && out.compared < most) {
    out.notes.push_back(fmt::format(
        "The models differ: only the {} operators with the same name in both are compared.",
        out.compared));
  }
  return out;
}

}  // namespace tandem::report
