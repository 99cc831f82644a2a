#include "lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "base/stop.h"
#include "lower/buckets.h"
#include "lower/rings.h"
#include "lower/row_sparse.h"
#include "lower/segments.h"
#include "ops/kept.h"
#include "ops/signature.h"

namespace tandem::lower {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Layout;

// Where a task that is being made belongs.
struct Place {
  std::uint16_t stage = 0;
  bool backward = false;
  bool remade = false;
};

class Lowering {
 public:
  Lowering(const plan::MappedGraph& mapped, const machine::Digits& digits,
           plan::Optimizer optimizer, Phase phase)
      : mapped_(mapped),
        pcg_(mapped.pcg),
        consumers_(mapped.pcg.consumers()),
        wants_gradient_(graph::needs_gradient(mapped.pcg)),
        remade_(mapped.pcg.size(), Program::kNone),
        kept_(mapped.pcg.size(), Program::kNone),
        program_{.pcg = mapped.pcg,
                 .digits = digits,
                 .optimizer = optimizer,
                 .schedule = mapped.schedule,
                 .phase = phase,
                 .buffers = {},
                 .tasks = {},
                 .segments = {},
                 .tensor = std::vector<BufferId>(mapped.pcg.size(), Program::kNone),
                 .loss = {}} {
    program_.buffers.reserve(4 * pcg_.size());  // about as many
    program_.tasks.reserve(3 * pcg_.size());
    find_parameters();
  }

  Program run() {
    const NodeId loss = pcg_.outputs()[0];
    const auto phase = program_.phase;
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
      std::ranges::for_each(updates_, [this](const Task& task) { add(task); });
      if (program_.schedule.bucket > Bytes{}) put_gradients_in_buckets(program_);
      keep_row_sparse_gradients(program_);
    }
    if (program_.schedule.ring) pass_blocks_round_rings(program_);
    cut_into_segments(program_);
    return std::move(program_);
  }

 private:
  // What depends on weights alone.
  void find_parameters() {
    is_parameter_.resize(pcg_.size());
    for (auto id : pcg_.ids()) {
      const auto inputs = pcg_.inputs(id);
      is_parameter_[id.index()] = is_weight(pcg_.node(id)) ||
                                  (!inputs.empty() && std::ranges::all_of(inputs, [&](NodeId i) {
                                    return is_parameter_[i.index()];
                                  }));
    }
  }

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

  const Layout& layout_of(NodeId id) const { return mapped_.layouts[id.index()]; }
  std::uint16_t stage_of(NodeId id) const { return mapped_.stage[id.index()]; }

  void forward(NodeId id) {
    stop_point();
    const auto& node = pcg_.node(id);
    auto& tensor = program_.tensor[id.index()];
    if (node.op.role() == ops::Role::kSource) {
      tensor =
          add_buffer(is_weight(node) ? BufferKind::kWeight : BufferKind::kInput, id, layout_of(id));
      return;
    }
    if (is_inside_chain(id)) return;
    tensor = make(id, false);
  }

  // The tensor of a node that is no source, from those before it. What is made `again` is there
  // for one micro-batch, even if it is the same in all of them.
  BufferId make(NodeId id, bool again) {
    return is_parallel(pcg_.node(id)) ? move_along_chain(id, again) : compute(id, again);
  }

  BufferId compute(NodeId id, bool again) {
    each_ = is_remade(id);
    const auto out = add_buffer(BufferKind::kActivation, id, layout_of(id));
    each_ = false;
    const bool joins = is_join(pcg_.node(id));
    Task task{.kind = joins ? TaskKind::kJoin : TaskKind::kForward,
              .node = id,
              .backward = again,
              .remade = again,
              .stage = stage_of(id),
              .reads = {},
              .writes = {out}};
    const auto inputs = pcg_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto tensor = tensor_for(inputs[i], id, again);
      task.reads.push_back(joins ? tensor
                                 : in_windows(tensor, id, i, {stage_of(id), again, again}));
    }
    if (is_for_backward(id, again)) task.kept = kept_[id.index()] = add_kept(id);
    add(std::move(task));
    return out;
  }

  // Does the backward pass keep what this run of the operator draws?
  bool is_for_backward(NodeId id, bool again) const {
    return program_.phase == Phase::kTraining && wants_gradient_[id.index()] &&
           again == is_remade(id);
  }

  BufferId add_kept(NodeId id) {
    const auto& node = pcg_.node(id);
    const bool is_mask = node.op.spec().keeps_mask;
    const auto type = ops::kept_for_backward(node.op, node.type.dtype);
    if (!is_mask && !type) return Program::kNone;
    const auto kept = add_buffer(BufferKind::kActivation, id, layout_of(id));
    auto& buffer = program_.buffers[kept.index()];
    buffer.is_mask = is_mask;
    if (type) buffer.dtype = *type;
    return kept;
  }

  BufferId move_along_chain(NodeId id, bool again) {
    const NodeId start = chain_start(id);
    each_ = is_remade(id);
    const auto out = move(tensor_for(start, id, again), layout_of(id), id,
                          {stage_of(start), again, again}, stage_of(id));
    each_ = false;
    return out;
  }

  // --- Backward --------------------------------------------------------------------------------

  void seed(NodeId loss) {
    const auto g = add_buffer(BufferKind::kGradient, loss, dual(layout_of(loss)));
    gradient_[loss.index()] = g;
    add({.kind = TaskKind::kSeed,
         .node = loss,
         .backward = true,
         .stage = stage_of(loss),
         .reads = {},
         .writes = {g}});
  }

  void backward(NodeId id) {
    stop_point();
    const auto g = gradient_[id.index()];
    if (g == Program::kNone || !wants_gradient_[id.index()]) return;
    const auto& node = pcg_.node(id);
    if (is_weight(node)) {
      update(id, g);
    } else if (is_parallel(node)) {
      backward_chain(id, g);
    } else if (is_join(node)) {
      backward_join(id, g);
    } else {
      backward_operator(id, g);
    }
  }

  void backward_chain(NodeId id, BufferId g) {
    const NodeId start = chain_start(id);
    auto wanted = dual(layout_of(start));
    const Place here{stage_of(id), true, false};
    if (!program_.schedule.reduce_each && is_summand(g) && is_summand(wanted)) {
      g = collect(g, here);
      wanted.set(0, DigitRole::kReplica);
    }
    if (is_weight(pcg_.node(start))) reserve(g);
    add_gradient(start, move(g, wanted, id, here, stage_of(start)));
  }

  // What is a partial sum forward is a replica backward: every operand takes its own, where it is.
  void backward_join(NodeId id, BufferId g) {
    for (auto i : pcg_.inputs(id)) {
      if (!wants_gradient_[i.index()]) continue;
      add_gradient(i, move(g, dual(layout_of(i)), id, {stage_of(id), true, false}, stage_of(i)));
    }
  }

  void backward_operator(NodeId id, BufferId g) {
    Task task{.kind = TaskKind::kBackward,
              .node = id,
              .backward = true,
              .stage = stage_of(id),
              .reads = {},
              .writes = {}};
    const auto inputs = pcg_.inputs(id);
    read_what_is_kept(id, task);
    task.reads.push_back(g);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!wants_gradient_[inputs[i].index()]) continue;
      task.operands.push_back(i);
      auto layout = dual(layout_of(inputs[i]));
      // Of a sum over all micro-batches it makes a sum, and is the same in all of them.
      if (!is_summand(g) && is_summand(dual(layout_of(id)))) layout.set(0, DigitRole::kReplica);
      const auto made = add_buffer(BufferKind::kGradient, inputs[i], layout);
      read_in_windows(made, windows_of(id, i));
      task.writes.push_back(made);
    }
    const auto written = task.writes;
    const auto operands = task.operands;
    add(std::move(task));
    for (std::size_t w = 0; w < written.size(); ++w) {
      add_gradient(inputs[operands[w]], in_shards(written[w], {stage_of(id), true, false}));
    }
  }

  void read_what_is_kept(NodeId id, Task& task) {
    task.kept = kept_[id.index()];
    const auto& signature = signature_of(pcg_, id);
    if (signature.gradient_from_result) {
      if (is_remade(id)) remake(id);
      task.reads.push_back(tensor_for(id, id, true));
      return;
    }
    const auto inputs = pcg_.inputs(id);
    ops::InputMask wanted = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (wants_gradient_[inputs[i].index()]) wanted |= ops::InputMask{1} << i;
    }
    const auto kept = term::backward_reads(signature.meaning, wanted);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      task.reads.push_back((kept >> i & 1U) != 0 ? kept_operand(id, i) : Program::kNone);
    }
  }

  // A gradient of a weight, whole, has its place all through the step where it is of a wider type
  // than the backward pass (as Megatron has it) or is kept whole (ZeRO-1). Sums over devices are
  // then made in that place.
  void reserve(BufferId g) {
    auto& buffer = program_.buffers[g.index()];
    if (is_summand(g) || buffer.shared > Bytes{}) return;
    const bool wide = buffer.dtype != pcg_.node(buffer.node).type.dtype;
    buffer.reserved = wide || program_.schedule.whole_gradients;
  }

  void add_gradient(NodeId id, BufferId g) {
    auto& sum = gradient_[id.index()];
    if (sum == Program::kNone) {
      sum = g;
      return;
    }
    // Where one is a summand of a micro-batch and the other the sum, both become sums.
    const Place here{stage_of(id), true, false};
    if (is_summand(sum) != is_summand(g)) {
      if (is_summand(sum)) sum = collect(sum, here);
      if (is_summand(g)) g = collect(g, here);
    }
    add({.kind = TaskKind::kAccumulate,
         .node = id,
         .backward = true,
         .stage = here.stage,
         .reads = {sum, g},
         .writes = {sum}});
  }

  // The gradient is wanted where the weight is: what was partial becomes whole on every replica.
  // Updates come after the whole backward pass, so that none of it waits for a gradient's
  // all-reduce.
  void update(NodeId id, BufferId g) {
    const auto weight = program_.tensor[id.index()];
    const Place here{stage_of(id), true, false};
    if (!program_.schedule.reduce_each && is_summand(g)) g = collect(g, here);
    Task task{.kind = TaskKind::kUpdate,
              .node = id,
              .backward = true,
              .stage = here.stage,
              .reads = {weight},
              .writes = {weight}};
    reserve(g);
    task.reads.push_back(move(g, layout_of(id), id, here, here.stage));
    const auto& precision = program_.schedule.precision;
    const auto dtype = pcg_.node(id).type.dtype;
    const auto count = states(program_.optimizer) + (precision.has_master(dtype) ? 1 : 0);
    for (std::size_t s = 0; s < count; ++s) {
      const auto state = add_buffer(BufferKind::kState, id, layout_of(id));
      program_.buffers[state.index()].dtype = precision.state(dtype);
      task.reads.push_back(state);
      task.writes.push_back(state);
    }
    updates_.push_back(std::move(task));
  }

  // --- What the backward pass makes again ------------------------------------------------------

  // An activation, or a weight gathered along a chain. What another stage has sent is kept: that
  // one's backward pass comes later.
  bool is_remade(NodeId id) const {
    const auto& node = pcg_.node(id);
    return mapped_.remake[id.index()] && node.op.role() != ops::Role::kSource &&
           !(is_parallel(node) && stage_of(chain_start(id)) != stage_of(id));
  }

  // Does `user` read a second version of the tensor in its backward pass? Another stage keeps the
  // first: the second will be made after it has gone.
  bool is_remade_for(NodeId id, NodeId user) const {
    return is_remade(id) && stage_of(id) == stage_of(user);
  }

  BufferId tensor_for(NodeId id, NodeId user, bool again) const {
    return again && is_remade_for(id, user) ? remade_[id.index()] : program_.tensor[id.index()];
  }

  // What an operator's backward pass reads of an operand.
  BufferId kept_operand(NodeId user, std::size_t operand) {
    const auto id = pcg_.inputs(user)[operand];
    if (is_remade_for(id, user)) remake(id);
    return in_windows(tensor_for(id, user, true), user, operand, {stage_of(user), true, true});
  }

  // Makes the tensor again, and first all those between it and what was kept.
  void remake(NodeId id) {
    std::vector<NodeId> missing;
    std::vector<NodeId> open;
    const auto visit = [&](NodeId input, NodeId user) {
      auto& known = remade_[input.index()];
      if (!is_remade_for(input, user) || known != Program::kNone) return;
      known = program_.tensor[input.index()];  // not to be visited twice
      open.push_back(input);
    };
    visit(id, id);
    while (!open.empty()) {
      const NodeId now = open.back();
      open.pop_back();
      missing.push_back(now);
      if (is_parallel(pcg_.node(now))) {
        visit(chain_start(now), now);
      } else {
        for (auto i : pcg_.inputs(now)) visit(i, now);
      }
    }
    std::ranges::sort(missing);
    for (auto m : missing) remade_[m.index()] = make(m, true);
  }

  // --- Windows ---------------------------------------------------------------------------------

  std::vector<machine::Window> windows_of(NodeId id, std::size_t operand) const {
    return machine::windows_of(signature_of(pcg_, id), operand, layout_of(pcg_.inputs(id)[operand]),
                               program_.digits);
  }

  // An operand as the operator reads it. What reads the same windows, the backward pass included,
  // shares them.
  BufferId in_windows(BufferId shards, NodeId user, std::size_t operand, Place place) {
    const auto windows = windows_of(user, operand);
    if (windows.empty()) return shards;
    for (const auto& [from, stage, made] : windowed_) {
      if (from == shards && stage == place.stage && program_.buffer(made).windows == windows) {
        return made;
      }
    }
    const auto made = exchange(shards, windows, machine::Step::kHalo, place);
    windowed_.emplace_back(shards, place.stage, made);
    return made;
  }

  // A gradient that an operator has written over what it reads.
  BufferId in_shards(BufferId gradient, Place place) {
    if (program_.buffer(gradient).windows.empty()) return gradient;
    return exchange(gradient, {}, machine::Step::kHaloReduce, place);
  }

  // The same tensor in other windows, or in shards where there are none.
  BufferId exchange(BufferId from, const std::vector<machine::Window>& windows, machine::Step kind,
                    Place place) {
    const auto origin = program_.buffer(from);
    const auto to = add_buffer(
        origin.kind == BufferKind::kGradient ? BufferKind::kGradient : BufferKind::kActivation,
        origin.node, origin.layout);
    program_.buffers[to.index()].each = origin.each;
    read_in_windows(to, windows);
    const auto halo = machine::halo_of(windows.empty() ? origin.windows : windows, origin.layout,
                                       origin.sizes, program_.digits);
    if ((halo.digits & program_.digits.time()) != 0) {
      throw UserError("plan", fmt::format("%{}", pcg_.node(origin.node).name),
                      "micro-batches cannot exchange halos");
    }
    add({.kind = TaskKind::kMove,
         .node = origin.node,
         .step =
             {.kind = kind, .digits = halo.digits, .before = origin.layout, .after = origin.layout},
         .backward = place.backward,
         .remade = place.remade,
         .stage = place.stage,
         .reads = {from},
         .writes = {to}});
    return to;
  }

  void read_in_windows(BufferId id, const std::vector<machine::Window>& windows) {
    auto& buffer = program_.buffers[id.index()];
    buffer.windows = windows;
    if (windows.empty()) return;
    buffer.shard = largest_block(windows, buffer.layout, buffer.sizes, program_.digits);
  }

  // --- Both ------------------------------------------------------------------------------------

  BufferId add_buffer(BufferKind kind, NodeId node, const Layout& layout) {
    const auto& type = pcg_.node(node).type;
    const auto shape = parallel_shape(layout, type.shape.sizes, program_.digits);
    CHECK(shape.has_value(), pcg_.node(node).name, to_text(layout));
    const bool differs = has_time() && layout[0] != DigitRole::kReplica;
    const bool sums_up =
        kind == BufferKind::kGradient && is_parameter_[node.index()] && !is_summand(layout);
    program_.buffers.push_back(
        {.kind = kind,
         .node = node,
         .layout = layout,
         .sizes = type.shape.sizes,
         .shard = shape->shard(),
         .dtype = sums_up ? program_.schedule.precision.gradient(type.dtype) : type.dtype,
         .density = program_.digits.stores_zeros() ? 1 : type.density,
         .each = has_time() && (differs || each_)});
    return BufferId(program_.buffers.size() - 1);
  }

  bool has_time() const { return program_.digits.time() != 0; }
  bool is_summand(const Layout& layout) const {
    return has_time() && layout[0] == DigitRole::kPartial;
  }
  bool is_summand(BufferId id) const { return is_summand(program_.buffer(id).layout); }

  // A task over what is the same in all micro-batches runs in the first of them, or the last if
  // it needs what all of them have made.
  void add(Task task) {
    const auto each = [&](BufferId id) { return program_.buffer(id).each; };
    const bool runs_each =
        task.kind == TaskKind::kCollect || std::ranges::any_of(task.writes, each);
    if (has_time() && !runs_each) {
      const bool first = !task.backward || task.kind == TaskKind::kSeed;
      task.when = first ? When::kFirst : When::kLast;
    }
    if (task.kind == TaskKind::kReceive) program_.tasks[task.peer].when = task.when;
    program_.tasks.push_back(std::move(task));
  }

  // The sum over all micro-batches.
  BufferId collect(BufferId summand, Place place) {
    const auto origin = program_.buffer(summand);
    auto layout = origin.layout;
    layout.set(0, DigitRole::kReplica);
    const auto sum = add_buffer(origin.kind, origin.node, layout);
    add({.kind = TaskKind::kCollect,
         .node = origin.node,
         .backward = place.backward,
         .stage = place.stage,
         .reads = {summand},
         .writes = {sum}});
    return sum;
  }

  // From the devices of place.stage to those of `to_stage`.
  BufferId move(BufferId from, const Layout& to, NodeId node, Place place, std::uint16_t to_stage) {
    const Layout before = program_.buffer(from).layout;
    if (!has_time() || before[0] == to[0]) return reshard_to(from, to, node, place, to_stage);
    auto same_time = to;
    same_time.set(0, before[0]);
    from = reshard_to(from, same_time, node, place, to_stage);
    place.stage = to_stage;
    const bool is_gradient = place.backward && !place.remade;
    if (is_gradient && before[0] == DigitRole::kPartial && to[0] == DigitRole::kReplica) {
      return collect(from, place);
    }
    const auto step = reshard(same_time, to);
    if (step.size() != 1 || !is_local(step[0].kind)) {
      throw UserError("plan", fmt::format("%{}", pcg_.node(node).name),
                      fmt::format("needs all micro-batches at once: '{}' becomes '{}'",
                                  to_text(before), to_text(to)),
                      "only gradients may put micro-batches together");
    }
    return take(from, step[0], node, place);
  }

  BufferId reshard_to(BufferId from, const Layout& to, NodeId node, Place place,
                      std::uint16_t to_stage) {
    for (const auto& step : reshard(Layout(program_.buffer(from).layout), to)) {
      if (step.kind == machine::Step::kSend) {
        from = send(from, step, node, place, to_stage);
        place.stage = to_stage;
      } else {
        from = take(from, step, node, place);
      }
    }
    return from;
  }

  BufferId take(BufferId from, const machine::ReshardStep& step, NodeId node, Place place) {
    const auto next = moved(from, step, place);
    add(moving(TaskKind::kMove, step, node, place, {from}, {next}));
    return next;
  }

  BufferId send(BufferId from, const machine::ReshardStep& step, NodeId node, Place place,
                std::uint16_t to_stage) {
    const auto next = moved(from, step, place);
    add(moving(TaskKind::kSend, step, node, place, {from}, {}));
    place.stage = to_stage;
    auto receive = moving(TaskKind::kReceive, step, node, place, {}, {next});
    receive.peer = program_.tasks.size() - 1;
    add(std::move(receive));
    return next;
  }

  static Task moving(TaskKind kind, const machine::ReshardStep& step, NodeId node, Place place,
                     std::vector<BufferId> reads, std::vector<BufferId> writes) {
    return {.kind = kind,
            .node = node,
            .step = step,
            .backward = place.backward,
            .remade = place.remade,
            .stage = place.stage,
            .reads = std::move(reads),
            .writes = std::move(writes)};
  }

  BufferId moved(BufferId from, const machine::ReshardStep& step, Place place) {
    const auto kind =
        place.backward && !place.remade ? BufferKind::kGradient : BufferKind::kActivation;
    const auto to = add_buffer(kind, NodeId(program_.buffer(from).node), step.after);
    const auto& origin = program_.buffer(from);
    auto& made = program_.buffers[to.index()];
    const bool in_place = kind == BufferKind::kGradient && step.kind != machine::Step::kSend;
    if (in_place && (origin.reserved || origin.shared > Bytes{})) {
      made.shared = made.bytes();
    } else if (origin.kind == BufferKind::kWeight && step.kind == machine::Step::kAllGather &&
               is_gathered_once(place) && !lies_inside_.contains(from)) {
      lies_inside_.insert(from);
      made.shared = origin.bytes();
      made.reserved = true;
    }
    return to;
  }

  // What is gathered for a whole step is gathered around the device's own shard, and has its place
  // as a weight has that is stored whole.
  bool is_gathered_once(Place place) const {
    return program_.phase == Phase::kTraining && !program_.schedule.is_delayed() && !each_ &&
           !place.remade;
  }

  const plan::MappedGraph& mapped_;
  const graph::Graph& pcg_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> wants_gradient_;
  std::vector<BufferId> gradient_;  // by node: the sum so far of its tensor's gradient
  std::vector<BufferId> remade_;    // by node: what the backward pass reads, where it is known
  std::vector<BufferId> kept_;      // by node, of the run that the backward pass is for
  std::vector<bool> is_parameter_;  // by node
  // Shards, the stage that reads them, and their windows.
  std::vector<std::tuple<BufferId, std::uint16_t, BufferId>> windowed_;
  std::set<BufferId> lies_inside_;  // weights that lie in what is gathered around them
  bool each_ = false;               // buffers made now are there for one micro-batch
  std::vector<Task> updates_;
  Program program_;
};

}  // namespace

Program lower(const plan::MappedGraph& mapped, const machine::Digits& digits,
              plan::Optimizer optimizer, Phase phase) {
  check_mapped(mapped, digits);
  return lower_legal(mapped, digits, optimizer, phase);
}

Program lower_legal(const plan::MappedGraph& mapped, const machine::Digits& digits,
                    plan::Optimizer optimizer, Phase phase) {
  return Lowering(mapped, digits, optimizer, phase).run();
}

}  // namespace tandem::lower
