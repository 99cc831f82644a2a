#include "lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lower/row_sparse.h"
#include "ops/signature.h"

namespace tandem::lower {

namespace {

using graph::NodeId;
using machine::Layout;

class Lowering {
 public:
  Lowering(const plan::MappedGraph& mapped, const machine::Digits& digits,
           plan::Optimizer optimizer)
      : pcg_(mapped.pcg),
        layouts_(mapped.layouts),
        consumers_(mapped.pcg.consumers()),
        wants_gradient_(graph::needs_gradient(mapped.pcg)),
        program_{.pcg = mapped.pcg,
                 .digits = digits,
                 .optimizer = optimizer,
                 .buffers = {},
                 .tasks = {},
                 .tensor = std::vector<BufferId>(mapped.pcg.size(), Program::kNone),
                 .loss = {}} {}

  Program run(Phase phase) {
    const NodeId loss = pcg_.outputs()[0];
    if (phase == Phase::kTraining && pcg_.node(loss).type.shape.rank() != 0) {
      throw UserError("graph", fmt::format("%{}", pcg_.node(loss).name),
                      fmt::format("training needs a scalar loss and this is {}",
                                  to_text(pcg_.node(loss).type.shape)));
    }
    for (auto id : pcg_.ids()) forward(id);
    program_.loss = program_.tensor[loss.index()];
    if (phase == Phase::kTraining) {
      gradient_.assign(pcg_.size(), Program::kNone);
      seed(loss);
      for (std::size_t n = pcg_.size(); n-- > 0;) backward(NodeId(n));
      std::ranges::move(updates_, std::back_inserter(program_.tasks));
      keep_row_sparse_gradients(program_);
    }
    return std::move(program_);
  }

 private:
  // --- Forward ---------------------------------------------------------------------------------

  // Inside a chain of parallelization operators only the last has a tensor.
  bool is_inside_chain(NodeId id) const {
    const auto& users = consumers_[id.index()];
    return is_parallel(pcg_.node(id)) && users.size() == 1 && is_parallel(pcg_.node(users[0])) &&
           std::ranges::find(pcg_.outputs(), id) == pcg_.outputs().end();
  }

  // Where a chain that ends at `id` starts: the nearest node before it that has a tensor.
  NodeId chain_start(NodeId id) const {
    NodeId at = pcg_.inputs(id)[0];
    while (is_inside_chain(at)) at = pcg_.inputs(at)[0];
    return at;
  }

  void forward(NodeId id) {
    const auto& node = pcg_.node(id);
    auto& tensor = program_.tensor[id.index()];
    if (node.op.role() == ops::Role::kSource) {
      tensor = add_buffer(is_weight(node) ? BufferKind::kWeight : BufferKind::kInput, id,
                          layouts_[id.index()]);
      return;
    }
    if (is_inside_chain(id)) return;
    if (is_parallel(node)) {
      const NodeId start = chain_start(id);
      tensor = move(program_.tensor[start.index()], layouts_[id.index()], id, false);
      return;
    }
    tensor = add_buffer(BufferKind::kActivation, id, layouts_[id.index()]);
    program_.tasks.push_back(
        {.kind = TaskKind::kForward, .node = id, .reads = operand_tensors(id), .writes = {tensor}});
  }

  std::vector<BufferId> operand_tensors(NodeId id) const {
    std::vector<BufferId> out;
    for (auto i : pcg_.inputs(id)) out.push_back(program_.tensor[i.index()]);
    return out;
  }

  // --- Backward --------------------------------------------------------------------------------

  void seed(NodeId loss) {
    const auto g = add_buffer(BufferKind::kGradient, loss, dual(layouts_[loss.index()]));
    gradient_[loss.index()] = g;
    program_.tasks.push_back(
        {.kind = TaskKind::kSeed, .node = loss, .backward = true, .reads = {}, .writes = {g}});
  }

  void backward(NodeId id) {
    const auto g = gradient_[id.index()];
    if (g == Program::kNone || !wants_gradient_[id.index()]) return;
    const auto& node = pcg_.node(id);
    if (is_weight(node)) {
      update(id, g);
    } else if (is_parallel(node)) {
      const NodeId start = chain_start(id);
      add_gradient(start, move(g, dual(layouts_[start.index()]), id, true));
    } else {
      backward_operator(id, g);
    }
  }

  void backward_operator(NodeId id, BufferId g) {
    Task task{.kind = TaskKind::kBackward,
              .node = id,
              .backward = true,
              .reads = operand_tensors(id),
              .writes = {}};
    const auto kept = signature_of(pcg_, id).backward_reads;
    for (std::size_t i = 0; i < task.reads.size(); ++i) {
      if (((kept >> i) & 1U) == 0) task.reads[i] = Program::kNone;
    }
    task.reads.push_back(g);
    const auto inputs = pcg_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!wants_gradient_[inputs[i].index()]) continue;
      task.operands.push_back(i);
      task.writes.push_back(
          add_buffer(BufferKind::kGradient, inputs[i], dual(layouts_[inputs[i].index()])));
    }
    program_.tasks.push_back(task);
    for (std::size_t w = 0; w < task.writes.size(); ++w) {
      add_gradient(inputs[task.operands[w]], task.writes[w]);
    }
  }

  void add_gradient(NodeId id, BufferId g) {
    auto& sum = gradient_[id.index()];
    if (sum == Program::kNone) {
      sum = g;
      return;
    }
    program_.tasks.push_back({.kind = TaskKind::kAccumulate,
                              .node = id,
                              .backward = true,
                              .reads = {sum, g},
                              .writes = {sum}});
  }

  // The gradient is wanted where the weight is: what was partial becomes whole on every replica.
  // Updates come after the whole backward pass, so that none of it waits for a gradient's
  // all-reduce.
  void update(NodeId id, BufferId g) {
    const auto weight = program_.tensor[id.index()];
    Task task{.kind = TaskKind::kUpdate,
              .node = id,
              .backward = true,
              .reads = {weight},
              .writes = {weight}};
    task.reads.push_back(move(g, layouts_[id.index()], id, true));
    for (std::size_t s = 0; s < states(program_.optimizer); ++s) {
      const auto state = add_buffer(BufferKind::kState, id, layouts_[id.index()]);
      task.reads.push_back(state);
      task.writes.push_back(state);
    }
    updates_.push_back(std::move(task));
  }

  // --- Both ------------------------------------------------------------------------------------

  BufferId add_buffer(BufferKind kind, NodeId node, const Layout& layout) {
    const auto& type = pcg_.node(node).type;
    const auto shape = parallel_shape(layout, type.shape.sizes, program_.digits);
    CHECK(shape.has_value(), pcg_.node(node).name, to_text(layout));
    program_.buffers.push_back(
        {kind, node, layout, type.shape.sizes, shape->shard(), type.dtype, type.density});
    return BufferId(program_.buffers.size() - 1);
  }

  BufferId move(BufferId from, const Layout& to, NodeId node, bool backward) {
    const auto& origin = program_.buffer(from);
    const auto kind = backward ? BufferKind::kGradient : BufferKind::kActivation;
    const NodeId owner = origin.node;
    for (const auto& step : reshard(Layout(origin.layout), to)) {
      const auto next = add_buffer(kind, owner, step.after);
      program_.tasks.push_back({.kind = TaskKind::kMove,
                                .node = node,
                                .step = step,
                                .backward = backward,
                                .reads = {from},
                                .writes = {next}});
      from = next;
    }
    return from;
  }

  const graph::Graph& pcg_;
  const std::vector<Layout>& layouts_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> wants_gradient_;
  std::vector<BufferId> gradient_;  // by node: the sum so far of its tensor's gradient
  std::vector<Task> updates_;
  Program program_;
};

}  // namespace

Program lower(const plan::MappedGraph& mapped, const machine::Digits& digits,
              plan::Optimizer optimizer, Phase phase) {
  check_mapped(mapped, digits);
  return Lowering(mapped, digits, optimizer).run(phase);
}

}  // namespace tandem::lower
