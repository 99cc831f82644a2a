#include "report/mapped_model.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tandem::report {

namespace {

using graph::NodeId;
using lower::Program;
using lower::TaskKind;

class MappedModelBuilder {
 public:
  explicit MappedModelBuilder(const Program& program)
      : program_(program), pcg_(program.pcg), readers_(pcg_.size()) {}

  MappedModel run() {
    out_.model = graph::erase_parallelism(pcg_);
    image_.resize(pcg_.size());
    const auto analyzed = strategies::analyze(pcg_);
    for (auto id : pcg_.ids()) {
      if (is_parallel(pcg_.node(id))) continue;
      if (is_join(pcg_.node(id))) {
        add_join(id);
        continue;
      }
      add_node(id);
      if (pcg_.node(id).op.role() == ops::Role::kCompute) add_operator(id, analyzed[id.index()]);
    }
    for (const auto& task : program_.tasks) add_task(task);
    for (auto& node : out_.nodes) std::ranges::stable_sort(node.moves, {}, &TensorMove::operand);
    return std::move(out_);
  }

 private:
  // The first reader of a source or of a node in a chain of parallelization operators.
  struct FirstReader {
    NodeId node;
    std::size_t operand = 0;
    bool known = false;
  };

  MappedNode& mapped_node(NodeId id) { return out_.nodes[image_[id.index()]]; }

  MappedNode& add_node(NodeId id) {
    image_[id.index()] = out_.nodes.size();
    out_.nodes.push_back({.type = pcg_.node(id).type,
                          .operands = {},
                          .uses = {},
                          .result = program_.buffer(program_.tensor[id.index()]).bytes(),
                          .weights = {},
                          .moves = {}});
    return out_.nodes.back();
  }

  // Adds the model's additions that a join replaces. No device computes them.
  void add_join(NodeId id) {
    const auto inputs = pcg_.inputs(id);
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const auto& type = pcg_.node(id).type;
      add_node(id).operands = {i == 1 ? pcg_.node(inputs[0]).type.shape : type.shape,
                               pcg_.node(inputs[i]).type.shape};
    }
  }

  void add_operator(NodeId id, const strategies::AnalyzedNode& analyzed) {
    auto& node = mapped_node(id);
    std::vector<machine::Layout> layouts;
    for (auto i : pcg_.inputs(id)) {
      node.operands.push_back(pcg_.node(i).type.shape);
      layouts.push_back(program_.buffer(program_.tensor[i.index()]).layout);
    }
    const auto layout = infer_node_layout(analyzed.signature, layouts, program_.digits);
    CHECK(layout.has_value(), pcg_.node(id).name);
    node.uses = list_uses(analyzed, *layout, program_.digits);
    for (auto& use : node.uses) use.digits &= ~program_.schedule.digits;
    std::erase_if(node.uses, [](const Use& use) { return use.digits == 0; });
    for (std::size_t i = 0; i < node.operands.size(); ++i) record_reader(id, i);
  }

  void record_reader(NodeId id, std::size_t operand) {
    for (NodeId at = pcg_.inputs(id)[operand];; at = pcg_.inputs(at)[0]) {
      const bool parallel = is_parallel(pcg_.node(at));
      if (!parallel && pcg_.node(at).op.role() != ops::Role::kSource) return;
      auto& reader = readers_[at.index()];
      if (!reader.known) {
        reader = {id, operand, true};
        if (is_weight(pcg_.node(at))) mapped_node(id).weights += mapped_node(at).result;
      }
      if (!parallel) return;
    }
  }

  void add_task(const lower::Task& task) {
    if (task.kind == TaskKind::kForward || task.kind == TaskKind::kJoin) {
      auto& node = mapped_node(task.node);
      node.stage = task.stage;
      node.recomputed = node.recomputed || task.recomputed;
      return;
    }
    const bool moves = task.kind == TaskKind::kMove || task.kind == TaskKind::kSend;
    if (!moves || is_local(task.step.kind)) return;
    // Gradients in a bucket belong to the nodes that read the weights.
    for (std::size_t i = 0; i < task.reads.size(); ++i) {
      add_move(task, i, task.reads.size() > 1 ? program_.buffer(task.reads[i]).node : task.node);
    }
  }

  void add_move(const lower::Task& task, std::size_t which, graph::NodeId at) {
    TensorMove move{.operand = TensorMove::kResult,
                    .kind = task.step.kind,
                    .digits = task.step.digits,
                    .bytes = count_moved_bytes(program_, task, which),
                    .times = task.when == lower::When::kEach ? program_.digits.micro_batches() : 1,
                    .backward = task.backward,
                    .recomputed = task.recomputed};
    if (const auto& reader = readers_[at.index()]; reader.known) {
      at = reader.node;
      move.operand = reader.operand;
    }
    while (is_parallel(pcg_.node(at))) at = pcg_.inputs(at)[0];  // for an output of the graph
    auto& moves = mapped_node(at).moves;
    // The steps of a ring are one move.
    const auto same = std::ranges::find_if(moves, [&](const TensorMove& m) {
      auto as_often = m;
      as_often.times = move.times;
      return move.kind == machine::Step::kShift && as_often == move;
    });
    if (same == moves.end()) {
      moves.push_back(move);
    } else {
      same->times += move.times;
    }
  }

  const Program& program_;
  const graph::Graph& pcg_;
  std::vector<FirstReader> readers_;  // by node of the PCG
  std::vector<std::size_t> image_;    // by node of the PCG: number of the model's node
  MappedModel out_;
};

}  // namespace

MappedModel make_mapped_model(const Program& program) { return MappedModelBuilder(program).run(); }

std::vector<Traffic> sum_traffic(const Program& program, const predict::Simulation& simulation) {
  std::map<std::tuple<bool, machine::Step, machine::DigitMask>, Traffic> sums;
  for (const auto& span : simulation.timeline) {
    const auto& task = program.tasks[span.task];
    const bool moves = task.kind == TaskKind::kMove || task.kind == TaskKind::kSend;
    if (span.device_class != simulation.busiest || !moves || is_local(task.step.kind)) continue;
    auto& sum = sums[{task.backward, task.step.kind, task.step.digits}];
    sum.kind = task.step.kind;
    sum.digits = task.step.digits;
    sum.backward = task.backward;
    ++sum.times;
    sum.bytes += count_moved_bytes(program, task);
  }
  std::vector<Traffic> out;
  out.reserve(sums.size());
  for (const auto& [key, sum] : sums) out.push_back(sum);
  return out;
}

}  // namespace tandem::report
