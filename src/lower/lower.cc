#include "lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/stop.h"
#include "lower/buckets.h"
#include "lower/fused_updates.h"
#include "lower/prefetch_gathers.h"
#include "lower/program_builder.h"
#include "lower/rings.h"
#include "lower/row_sparse.h"
#include "lower/segments.h"
#include "ops/saved_for_backward.h"
#include "ops/signature.h"

namespace tandem::lower {

namespace {

using graph::NodeId;
using machine::DigitRole;

// The lowering of one mapped graph.
class Lowering : ProgramBuilder {
 public:
  Lowering(const plan::MappedGraph& mapped, const machine::Digits& digits,
           const machine::Software& software, plan::Optimizer optimizer, Mode mode)
      : ProgramBuilder(mapped, {.pcg = mapped.pcg,
                                .digits = digits,
                                .software = software,
                                .optimizer = optimizer,
                                .schedule = mapped.schedule,
                                .mode = mode,
                                .buffers = {},
                                .tasks = {},
                                .segments = {},
                                .tensor = std::vector<BufferId>(mapped.pcg.size(), Program::kNone),
                                .loss = {}}),
        consumers_(mapped.pcg.consumers()),
        wants_gradient_(graph::mark_gradient_nodes(mapped.pcg)),
        recomputed_(mapped.pcg.size(), Program::kNone),
        saved_(mapped.pcg.size(), Program::kNone) {}

  Program run() {
    const NodeId loss = pcg_.outputs()[0];
    const auto mode = program_.mode;
    if (mode == Mode::kTraining && pcg_.node(loss).type.shape.rank() != 0) {
      throw UserError("graph", fmt::format("%{}", pcg_.node(loss).name),
                      fmt::format("training requires a scalar loss, but the output has shape {}",
                                  to_text(pcg_.node(loss).type.shape)));
    }
    for (auto id : pcg_.ids()) lower_forward(id);
    program_.loss = program_.tensor[loss.index()];
    if (mode == Mode::kTraining) {
      gradient_.assign(pcg_.size(), Program::kNone);
      emit_loss_gradient(loss);
      for (std::size_t n = pcg_.size(); n-- > 0;) lower_backward(NodeId(n));
      std::ranges::for_each(updates_, [this](const Task& task) { add(task); });
      if (program_.schedule.bucket > Bytes{}) bucket_gradients(program_);
      prefetch_weight_gathers(program_);
      mark_row_sparse_gradients(program_);
      fuse_updates(program_);
    }
    if (program_.schedule.ring) replace_gathers_by_rings(program_);
    split_into_segments(program_);
    return std::move(program_);
  }

 private:
  // --- Forward ---------------------------------------------------------------------------------

  // Returns whether `id` is inside a chain of parallelization operators. Only the last one of a
  // chain has a tensor.
  bool is_inside_chain(NodeId id) const {
    const auto& users = consumers_[id.index()];
    return is_parallel(pcg_.node(id)) && users.size() == 1 && is_parallel(pcg_.node(users[0])) &&
           std::ranges::find(pcg_.outputs(), id) == pcg_.outputs().end();
  }

  // Returns where a chain that ends at `id` starts: the nearest preceding node that has a tensor.
  NodeId find_chain_start(NodeId id) const {
    NodeId at = pcg_.inputs(id)[0];
    while (is_inside_chain(at)) at = pcg_.inputs(at)[0];
    return at;
  }

  void lower_forward(NodeId id) {
    throw_if_stopped();
    const auto& node = pcg_.node(id);
    auto& tensor = program_.tensor[id.index()];
    if (node.op.role() == ops::Role::kSource) {
      tensor = add_buffer(is_weight(node) ? BufferKind::kWeight : BufferKind::kInput, id,
                          get_layout(id));
      return;
    }
    if (is_inside_chain(id)) return;
    tensor = emit_tensor(id, false);
  }

  // Appends the tasks that compute the tensor of a non-source node, and returns its buffer. A
  // recomputed buffer exists for one micro-batch, even if it is the same in all of them.
  BufferId emit_tensor(NodeId id, bool recomputed) {
    return is_parallel(pcg_.node(id)) ? move_along_chain(id, recomputed)
                                      : emit_operator(id, recomputed);
  }

  BufferId emit_operator(NodeId id, bool recomputed) {
    each_ = is_recomputed(id);
    const auto out = add_buffer(BufferKind::kActivation, id, get_layout(id));
    each_ = false;
    const bool joins = is_join(pcg_.node(id));
    Task task{.kind = joins ? TaskKind::kJoin : TaskKind::kForward,
              .node = id,
              .backward = recomputed,
              .recomputed = recomputed,
              .stage = get_stage(id),
              .reads = {},
              .writes = {out}};
    const auto inputs = pcg_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto tensor = get_tensor(inputs[i], id, recomputed);
      task.reads.push_back(
          joins ? tensor : to_windows(tensor, id, i, {get_stage(id), recomputed, recomputed}));
    }
    if (saves_for_backward(id, recomputed))
      task.saved = saved_[id.index()] = add_saved_buffer(id, out);
    add(std::move(task));
    return out;
  }

  // Returns whether the backward pass uses the values that this run of the operator saves.
  bool saves_for_backward(NodeId id, bool recomputed) const {
    return program_.mode == Mode::kTraining && wants_gradient_[id.index()] &&
           recomputed == is_recomputed(id);
  }

  // Returns the buffer that the operator saves for backward in addition to its operands, or kNone.
  BufferId add_saved_buffer(NodeId id, BufferId result) {
    const auto& node = pcg_.node(id);
    if (ops::saves_result(node.op)) return result;
    const bool is_mask = node.op.spec().saves_mask;
    const auto type = ops::find_saved_dtype(node.op, node.type.dtype);
    if (!is_mask && !type) return Program::kNone;
    const auto saved = add_buffer(BufferKind::kActivation, id, get_layout(id));
    auto& buffer = program_.buffers[saved.index()];
    buffer.is_mask = is_mask;
    if (type) buffer.dtype = *type;
    return saved;
  }

  BufferId move_along_chain(NodeId id, bool recomputed) {
    const NodeId start = find_chain_start(id);
    each_ = is_recomputed(id);
    const auto out = move(get_tensor(start, id, recomputed), get_layout(id), id,
                          {get_stage(start), recomputed, recomputed}, get_stage(id));
    each_ = false;
    return out;
  }

  // --- Backward --------------------------------------------------------------------------------

  void emit_loss_gradient(NodeId loss) {
    const auto g = add_buffer(BufferKind::kGradient, loss, to_gradient_layout(get_layout(loss)));
    gradient_[loss.index()] = g;
    add({.kind = TaskKind::kLossGradient,
         .node = loss,
         .backward = true,
         .stage = get_stage(loss),
         .reads = {},
         .writes = {g}});
  }

  void lower_backward(NodeId id) {
    throw_if_stopped();
    const auto g = gradient_[id.index()];
    if (g == Program::kNone || !wants_gradient_[id.index()]) return;
    const auto& node = pcg_.node(id);
    if (is_weight(node)) {
      lower_update(id, g);
    } else if (is_parallel(node)) {
      lower_chain_backward(id, g);
    } else if (is_join(node)) {
      lower_join_backward(id, g);
    } else {
      lower_operator_backward(id, g);
    }
  }

  void lower_chain_backward(NodeId id, BufferId g) {
    const NodeId start = find_chain_start(id);
    auto wanted = to_gradient_layout(get_layout(start));
    const StagePass here{get_stage(id), true, false};
    if (!program_.schedule.reduce_each && is_summand(g) && is_summand(wanted))
      g = accumulate_gradient(g, here);
    // A sum over all micro-batches stays one in front of the chain. An example is the gradient of a
    // table of position embeddings, which is read once.
    if (!is_summand(g) && is_summand(wanted)) wanted.set(0, DigitRole::kReplica);
    if (is_weight(pcg_.node(start))) reserve_gradient(g);
    add_gradient(start, move(g, wanted, id, here, get_stage(start)));
  }

  // A partial sum in the forward pass corresponds to a replica in the backward pass. Every operand
  // takes its own replica, where it is.
  void lower_join_backward(NodeId id, BufferId g) {
    for (auto i : pcg_.inputs(id)) {
      if (!wants_gradient_[i.index()]) continue;
      add_gradient(i, move(g, to_gradient_layout(get_layout(i)), id, {get_stage(id), true, false},
                           get_stage(i)));
    }
  }

  void lower_operator_backward(NodeId id, BufferId g) {
    Task task{.kind = TaskKind::kBackward,
              .node = id,
              .backward = true,
              .stage = get_stage(id),
              .reads = {},
              .writes = {}};
    const auto inputs = pcg_.inputs(id);
    add_saved_reads(id, task);
    task.reads.push_back(g);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!wants_gradient_[inputs[i].index()]) continue;
      task.operands.push_back(i);
      auto layout = to_gradient_layout(get_layout(inputs[i]));
      // The gradient computed from a sum over all micro-batches is such a sum as well.
      if (!is_summand(g) && is_summand(to_gradient_layout(get_layout(id))))
        layout.set(0, DigitRole::kReplica);
      const auto made = add_buffer(BufferKind::kGradient, inputs[i], layout);
      set_windows(made, compute_windows(id, i));
      task.writes.push_back(made);
    }
    const auto written = task.writes;
    const auto operands = task.operands;
    add(std::move(task));
    for (std::size_t w = 0; w < written.size(); ++w) {
      add_gradient(inputs[operands[w]], to_shards(written[w], {get_stage(id), true, false}));
    }
  }

  void add_saved_reads(NodeId id, Task& task) {
    if (program_.software.recomputes_whole && is_recomputed(id)) recompute(find_chain_end(id));
    task.saved = saved_[id.index()];
    const auto& signature = this->get_signature(id);
    if (signature.gradient_from_result) {
      if (is_recomputed(id)) recompute(id);
      task.reads.push_back(get_tensor(id, id, true));
      return;
    }
    const auto inputs = pcg_.inputs(id);
    ops::InputMask wanted = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (wants_gradient_[inputs[i].index()]) wanted |= ops::InputMask{1} << i;
    }
    const auto saved = term::find_saved_inputs(signature.meaning, wanted);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      task.reads.push_back((saved >> i & 1U) != 0 ? prepare_backward_operand(id, i)
                                                  : Program::kNone);
    }
  }

  // Reserves the unsharded gradient of a weight for the whole step. This is done if its type is
  // wider than that of the backward pass (as in Megatron), or if gradients are not sharded
  // (ZeRO-1). Reductions over devices then happen in place. Gradients that are scattered at once
  // (ZeRO-2 and ZeRO-3) are not reserved, and neither are those of software that frees buffers at
  // their last use.
  void reserve_gradient(BufferId g) {
    auto& buffer = program_.buffers[g.index()];
    if (program_.schedule.reduce_each || is_summand(g) || buffer.shared > Bytes{} ||
        program_.software.frees_at_last_use)
      return;
    const bool wide = buffer.dtype != pcg_.node(buffer.node).type.dtype;
    buffer.reserved = wide || program_.schedule.whole_gradients;
  }

  // Adds `g` to the gradient of the tensor of `id`.
  void add_gradient(NodeId id, BufferId g) {
    auto& sum = gradient_[id.index()];
    if (sum == Program::kNone) {
      sum = g;
      return;
    }
    // If one is a micro-batch's contribution and the other the sum, both become sums.
    const StagePass here{get_stage(id), true, false};
    if (is_summand(sum) != is_summand(g)) {
      if (is_summand(sum)) sum = accumulate_gradient(sum, here);
      if (is_summand(g)) g = accumulate_gradient(g, here);
    }
    add({.kind = TaskKind::kAddGradients,
         .node = id,
         .backward = true,
         .stage = here.stage,
         .reads = {sum, g},
         .writes = {sum}});
  }

  // Appends the update of a weight. The gradient is resharded to the weight's layout, so partial
  // sums are reduced on every replica. Updates come after the whole backward pass, so that no
  // backward task waits for a gradient's all-reduce.
  void lower_update(NodeId id, BufferId g) {
    const auto weight = program_.tensor[id.index()];
    const StagePass here{get_stage(id), true, false};
    if (!program_.schedule.reduce_each && is_summand(g)) g = accumulate_gradient(g, here);
    Task task{.kind = TaskKind::kUpdate,
              .node = id,
              .backward = true,
              .stage = here.stage,
              .reads = {weight},
              .writes = {weight}};
    reserve_gradient(g);
    task.reads.push_back(move(g, get_layout(id), id, here, here.stage));
    const auto& precision = program_.schedule.precision;
    const auto dtype = pcg_.node(id).type.dtype;
    const auto count = count_states(program_.optimizer, precision, dtype);
    for (std::size_t s = 0; s < count; ++s) {
      const auto state = add_buffer(BufferKind::kState, id, get_layout(id));
      program_.buffers[state.index()].dtype = precision.state(dtype);
      task.reads.push_back(state);
      task.writes.push_back(state);
    }
    updates_.push_back(std::move(task));
  }

  // --- Recomputation and regathering -----------------------------------------------------------

  // Returns the end of the chain that reads the operator's result within the stage: the sum of its
  // partial sums. Returns `id` if there is no such chain.
  NodeId find_chain_end(NodeId id) const {
    NodeId at = id;
    while (consumers_[at.index()].size() == 1) {
      const auto next = consumers_[at.index()][0];
      if (!is_parallel(pcg_.node(next)) || !is_recomputed_for(next, id)) break;
      at = next;
    }
    return is_inside_chain(at) ? id : at;
  }

  // Returns whether the backward pass recomputes an activation, or regathers a weight. A tensor
  // that another stage has sent is saved, because that stage's backward pass comes later.
  bool is_recomputed(NodeId id) const {
    const auto& node = pcg_.node(id);
    return mapped_.recompute[id.index()] && node.op.role() != ops::Role::kSource &&
           !(is_parallel(node) && get_stage(find_chain_start(id)) != get_stage(id));
  }

  // Returns whether `user` reads a second version of the tensor in its backward pass. A reader in
  // another stage saves the first version, because its backward pass runs before the second one
  // exists.
  bool is_recomputed_for(NodeId id, NodeId user) const {
    return is_recomputed(id) && get_stage(id) == get_stage(user);
  }

  BufferId get_tensor(NodeId id, NodeId user, bool recomputed) const {
    return recomputed && is_recomputed_for(id, user) ? recomputed_[id.index()]
                                                     : program_.tensor[id.index()];
  }

  // Returns the buffer that an operator's backward pass reads for `operand`.
  BufferId prepare_backward_operand(NodeId user, std::size_t operand) {
    const auto id = pcg_.inputs(user)[operand];
    if (is_recomputed_for(id, user)) recompute(id);
    return to_windows(get_tensor(id, user, true), user, operand, {get_stage(user), true, true});
  }

  // Recomputes the tensor, after all tensors between it and the saved ones.
  void recompute(NodeId id) {
    std::vector<NodeId> missing;
    std::vector<NodeId> open;
    const auto visit = [&](NodeId input, NodeId user) {
      auto& known = recomputed_[input.index()];
      if (!is_recomputed_for(input, user) || known != Program::kNone) return;
      known = program_.tensor[input.index()];  // prevents a second visit
      open.push_back(input);
    };
    visit(id, id);
    while (!open.empty()) {
      const NodeId now = open.back();
      open.pop_back();
      missing.push_back(now);
      if (is_parallel(pcg_.node(now))) {
        visit(find_chain_start(now), now);
      } else {
        for (auto i : pcg_.inputs(now)) visit(i, now);
      }
    }
    std::ranges::sort(missing);
    for (auto m : missing) recomputed_[m.index()] = emit_tensor(m, true);
  }

  std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> wants_gradient_;
  std::vector<BufferId> gradient_;    // by node: the current sum of its tensor's gradient
  std::vector<BufferId> recomputed_;  // by node: the buffer that the backward pass reads, if known
  std::vector<BufferId> saved_;  // by node: the buffer saved by the run that the backward pass uses
  std::vector<Task> updates_;
};

}  // namespace

Program lower(const plan::MappedGraph& mapped, const machine::Digits& digits,
              const machine::Software& software, plan::Optimizer optimizer, Mode mode) {
  check_mapped(mapped, digits);
  return lower_unchecked(mapped, digits, software, optimizer, mode);
}

Program lower_unchecked(const plan::MappedGraph& mapped, const machine::Digits& digits,
                        const machine::Software& software, plan::Optimizer optimizer, Mode mode) {
  return Lowering(mapped, digits, software, optimizer, mode).run();
}

}  // namespace tandem::lower
