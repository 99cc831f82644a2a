#include "report/node_facts.h"

#include <algorithm>

#include "predict/breakdown.h"
#include "predict/task_work.h"
#include "report/node_facts_source.h"
#include "report/tensor_names.h"
#include "term/index_map.h"

namespace tandem::report {

namespace {

using graph::NodeId;
using lower::BufferId;
using lower::TaskKind;

class NodeReading {
 public:
  NodeReading(const NodeFactsSource& source, NodeId id)
      : view_(source.view),
        source_(source),
        program_(view_.program),
        pcg_(view_.program.pcg),
        node_(pcg_.node(id)) {
    out_.id = id;
  }

  NodeFacts run() {
    out_.name = node_.name;
    out_.op = node_.op.name();
    out_.attributes = node_.op.attribute_text();
    out_.doc = node_.op.spec().doc;
    out_.role = node_.op.role();
    out_.has_gradient = source_.has_gradient[out_.id.index()];
    for (auto i : pcg_.inputs(out_.id)) out_.operands.push_back(make_tensor_facts(i));
    out_.result = make_tensor_facts(out_.id);
    add_levels();
    add_users(out_.id);
    out_.equivalent_count = source_.equivalent_count(out_.id);
    choose_class();
    for (auto t : source_.tasks_about(out_.id)) add_task(t);
    return std::move(out_);
  }

 private:
  // Returns the tensor of node `id`. Its bytes come from the type, because a node inside a chain of
  // parallelization operators has no buffer.
  [[nodiscard]] NodeFacts::TensorFacts make_tensor_facts(NodeId id) const {
    const auto& node = pcg_.node(id);
    const auto& layout = view_.plan.mapped.layouts[id.index()];
    return {.name = pcg_.node(find_origin(pcg_, id)).name,
            .type = node.type,
            .shard = node.type.shape.shard_shape(),
            .bytes = node.type.shard_bytes(),
            .how = storage_text(program_, view_.machine, layout)};
  }

  void add_levels() {
    if (out_.role == ops::Role::kCompute) {
      out_.index = node_.op.spec().index_text(node_.op.raw(), list_unsharded_inputs());
      out_.levels =
          operator_levels(program_, view_.machine, out_.id, source_.analyzed[out_.id.index()]);
    } else {
      out_.levels =
          storage_levels(program_, view_.machine, view_.plan.mapped.layouts[out_.id.index()]);
    }
  }

  [[nodiscard]] std::vector<Shape> list_unsharded_inputs() const {
    std::vector<Shape> out;
    for (auto i : pcg_.inputs(out_.id)) out.push_back(pcg_.node(i).type.shape.sizes);
    return out;
  }

  // Adds the model's nodes that read `id`, through parallelization operators.
  void add_users(NodeId id) {
    for (auto user : source_.consumers[id.index()]) {
      if (is_parallel(pcg_.node(user))) {
        add_users(user);
      } else if (std::ranges::find(out_.users, pcg_.node(user).name) == out_.users.end()) {
        out_.users.push_back(pcg_.node(user).name);
      }
    }
  }

  void choose_class() {
    class_ = source_.class_of[out_.id.index()];
    times_ = &source_.times(class_);
    device_ = &view_.machine.get_device(find_class_device(program_, view_.machine, class_));
  }

  void add_task(std::size_t t) {
    const auto& task = program_.tasks[t];
    if (task.kind == TaskKind::kBackward) add_reader(task);
    if (predict::communicates(task)) return add_transfer(t);
    if (task.node != out_.id) return;
    switch (task.kind) {
      case TaskKind::kForward:
      case TaskKind::kJoin:
        out_.stage = task.stage;
        out_.recomputed = out_.recomputed || task.recomputed;
        add_pass(task.recomputed ? out_.recompute : out_.forward, t);
        break;
      case TaskKind::kBackward:
        add_pass(out_.backward, t);
        add_backward_operands(task);
        break;
      case TaskKind::kUpdate:
        out_.stage = task.stage;
        add_pass(out_.update, t);
        for (std::size_t s = 2; s < task.reads.size(); ++s) {
          out_.state += program_.buffer(task.reads[s]).bytes();
        }
        break;
      default:
        break;
    }
  }

  // Adds the time of task `t` to the pass. The blocks of a ring are one pass.
  void add_pass(std::optional<NodeFacts::PassFacts>& pass, std::size_t t) {
    const auto& time = (*times_)[t];
    if (!pass) {
      NodeFacts::PassFacts first{.time = time, .roofline = {}};
      const auto& task = program_.tasks[t];
      const bool has_work = task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
      if (has_work && !task.block) first.roofline = compute_roofline(task);
      pass = first;
      return;
    }
    auto& sum = pass->time;
    if (time.times > 0 && (sum.times == 0 || time.begin < sum.begin)) {
      sum.begin = time.begin;
      sum.end = time.end;
    }
    sum.times += time.times;
    sum.serialized += time.serialized;
    sum.last = std::max(sum.last, time.last);
  }

  // Returns the compute and memory times of one run. Each is the modelled time on a device that is
  // infinitely fast in the other respect.
  [[nodiscard]] NodeFacts::PassFacts::Roofline compute_roofline(const lower::Task& task) const {
    const auto inputs = pcg_.input_types(task.node);
    const auto role = get_role(source_.kernels, task.node);
    ops::InputMask differentiated = 0;
    for (auto i : task.operands) differentiated |= ops::InputMask{1} << i;
    const auto work =
        task.kind == TaskKind::kForward
            ? predict::forward_work(node_.op, inputs, node_.type, role)
            : predict::backward_work(node_.op, inputs, node_.type, differentiated, role);
    constexpr double kEndless = 1e18;
    auto fast_memory = *device_;
    fast_memory.bandwidth = fast_memory.bandwidth * kEndless;
    auto fast_compute = *device_;
    for (auto& peak : fast_compute.peak) peak.second = peak.second * kEndless;
    const auto dtype = node_.type.dtype;
    const auto launch = count_launches(*device_, work) * device_->launch;
    return {.flops = work.flops,
            .bytes = work.bytes,
            .compute = modelled_time(fast_memory, work, dtype) - launch,
            .memory = modelled_time(fast_compute, work, dtype) - launch,
            .launch = launch};
  }

  void add_backward_operands(const lower::Task& task) {
    const auto keep = [&](BufferId b) {
      if (b == lower::Program::kNone) return;
      out_.backward_operands.push_back(
          {buffer_name(program_, b), program_.buffer(b).bytes(), source_.recomputed[b.index()]});
    };
    for (std::size_t r = 0; r + 1 < task.reads.size(); ++r) keep(task.reads[r]);
    keep(task.saved);
  }

  // Adds the task's node to `reads` if its backward pass reads this node's result.
  void add_reader(const lower::Task& task) {
    if (task.node == out_.id) return;
    for (std::size_t r = 0; r + 1 < task.reads.size(); ++r) {
      const auto b = task.reads[r];
      if (b == lower::Program::kNone) continue;
      const auto& buffer = program_.buffer(b);
      if (buffer.kind == lower::BufferKind::kGradient) continue;
      if (find_origin(pcg_, buffer.node) != out_.id) continue;
      const auto& name = pcg_.node(task.node).name;
      if (out_.reads.empty() || out_.reads.back() != name) out_.reads.push_back(name);
    }
  }

  void add_transfer(std::size_t t) {
    const auto& task = program_.tasks[t];
    const bool is_half = task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive;
    if (is_half && (*times_)[t].times == 0) return;  // these devices run the other half
    const auto count = count_moved(task);
    for (std::size_t which = 0; which < count; ++which) {
      const auto of = find_moved_operand(task, which);
      if (of.empty()) continue;
      const auto buffer = get_moved_buffer(task, which);
      const bool of_bucket = count > 1;
      auto what = std::string(predict::get_task_kind(program_, task)) + " of " +
                  buffer_name(program_, buffer);
      if (task.kind == TaskKind::kReceive) what = "receive of " + buffer_name(program_, buffer);
      if (task.kind == TaskKind::kSend) what = "send of " + buffer_name(program_, buffer);
      if (of_bucket) what += " (with " + std::to_string(count - 1) + " more)";
      if (task.recomputed) what += ", repeated for backward";
      out_.transfers.push_back({.what = what,
                                .of = of,
                                .kind = std::string(predict::get_task_kind(program_, task)),
                                .digits = task.step.digits,
                                .backward = task.backward,
                                .bytes = count_moved_bytes(program_, task, which),
                                .time = (*times_)[t]});
    }
  }

  // Returns the operand whose value or gradient the task moves, or "the result". Returns "" if the
  // task moves no tensor of this node.
  [[nodiscard]] std::string find_moved_operand(const lower::Task& task, std::size_t which) const {
    const auto moved = program_.buffer(get_moved_buffer(task, which)).node;
    if (is_parallel(node_)) {
      return source_.find_chain_end(out_.id) == source_.find_chain_end(task.node) ? out_.result.name
                                                                                  : "";
    }
    if (find_origin(pcg_, moved) == out_.id) return "the result";
    for (auto input : pcg_.inputs(out_.id)) {
      const auto origin = find_origin(pcg_, input);
      for (auto at = input;; at = pcg_.inputs(at)[0]) {
        const bool is_source = pcg_.node(at).op.role() == ops::Role::kSource;
        const bool shared_part = is_parallel(pcg_.node(at)) || is_source || is_halo(task.step.kind);
        const bool is_it = count_moved(task) > 1 ? moved == at : task.node == at;
        if (shared_part && is_it) return pcg_.node(origin).name;
        if (!is_parallel(pcg_.node(at))) break;
      }
    }
    return "";
  }

  static std::size_t count_moved(const lower::Task& task) {
    return std::max(task.reads.size(), task.writes.size());
  }

  const PlanView& view_;
  const NodeFactsSource& source_;
  const lower::Program& program_;
  const graph::Graph& pcg_;
  const graph::Node& node_;
  std::uint32_t class_ = 0;
  const std::vector<TaskTime>* times_ = nullptr;
  const machine::Device* device_ = nullptr;
  NodeFacts out_;
};

}  // namespace

NodeFacts collect_node_facts(const PlanView& view, graph::NodeId id) {
  return collect_node_facts(NodeFactsSource(view), id);
}

NodeFacts collect_node_facts(const NodeFactsSource& source, graph::NodeId id) {
  return NodeReading(source, id).run();
}

}  // namespace tandem::report
