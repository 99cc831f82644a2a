#include "lower/task_interpreter.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "lower/schedule_actions.h"
#include "lower/shard_boxes.h"
#include "lower/step_senders.h"
#include "machine/node_layout.h"
#include "ops/signature.h"
#include "term/evaluate.h"

namespace tandem::lower {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Digits;
using machine::Layout;
using machine::ReshardStep;
using machine::Step;
using term::Box;

// Returns values that no result can depend on without being noticed.
template <class T>
Dense<T> make_garbage(const Shape& shape) {
  Dense<T> out(shape);
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] = term::Numbers<T>::from_index(static_cast<std::int64_t>(mix(i + 17) >> 20U));
  }
  return out;
}

template <class T>
class Interpreter {
 public:
  Interpreter(const Program& program, const graph::StepValues<T>& sources, std::int64_t steps,
              T learning_rate)
      : program_(program),
        digits_(program.digits),
        sources_(sources),
        steps_(steps),
        learning_rate_(learning_rate) {
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      const auto& buffer = program.buffers[b];
      const auto times = buffer.each ? digits_.micro_batches() : program.versions(BufferId(b));
      out_.buffers.emplace_back(static_cast<std::size_t>(digits_.devices() * times));
      if (buffer.kind == BufferKind::kState) fill_zero(BufferId(b));
    }
    for (auto id : program.pcg.ids()) {
      if (!is_weight(program.pcg.node(id))) continue;
      for (step_ = 0; step_ < program.versions(program.tensor[id.index()]); ++step_) {
        place_source(id, sources(id, 0));
      }
    }
  }

  // Runs all ranks through their schedule slots. A rank that waits for data which another has not
  // sent yet lets the others proceed.
  Execution<T> run() {
    const auto ranks = digits_.group_size(program_.schedule.digits);
    std::vector<RankProgress> all;
    for (std::int64_t r = 0; r < ranks; ++r) {
      all.push_back({r, list_actions(program_.schedule, ranks, r, program_.mode, steps_)});
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& rank : all) moved = advance(rank) || moved;
    }
    for (const auto& rank : all)
      CHECK(rank.next_action == rank.actions.size(), "deadlock: a rank waits forever");
    keep_last_versions();
    return std::move(out_);
  }

 private:
  // The progress of one pipeline rank.
  struct RankProgress {
    std::int64_t rank = 0;
    std::vector<Action> actions;
    std::size_t next_action = 0;
    std::size_t task = 0;  // index in the slot's segment
  };

  // Runs all tasks that can run. Returns whether there were any.
  bool advance(RankProgress& rank) {
    bool moved = false;
    for (; rank.next_action < rank.actions.size(); ++rank.next_action, rank.task = 0) {
      const auto& action = rank.actions[rank.next_action];
      const auto& tasks = program_.segment(action.stage, action.phase).tasks;
      micro_batch_ = action.micro_batch;
      step_ = action.step;
      if (rank.task == 0) feed(rank.rank, action);
      for (; rank.task < tasks.size(); ++rank.task) {
        const auto& task = program_.tasks[tasks[rank.task]];
        if (!runs_in(task, action.micro_batch, digits_.micro_batches())) continue;
        if (task.kind == TaskKind::kReceive && !sent_.contains(make_message(task.peer)))
          return moved;
        if (task.kind == TaskKind::kSend) {
          sent_.emplace(make_message(tasks[rank.task]), copy_shards(task.reads[0]));
        } else {
          run_task(task);
        }
        moved = true;
      }
    }
    return moved;
  }

  // Feeds the inputs of a micro-batch. A rank's first stage is the first to see it.
  void feed(std::int64_t rank, const Action& action) {
    if (action.phase != Phase::kForward || action.stage != rank) return;
    for (auto id : program_.pcg.ids()) {
      const auto& node = program_.pcg.node(id);
      if (node.op.role() != ops::Role::kSource || is_weight(node)) continue;
      const auto& buffer = program_.buffer(program_.tensor[id.index()]);
      if (compute_place_rank(buffer.layout, program_.schedule.digits, digits_) != rank) continue;
      if (buffer.each || action.micro_batch == 0) place_source(id, sources_(id, action.step));
    }
  }

  // A message holds the data after the sender overwrites its buffer. The key is the send task, the
  // micro-batch and the step.
  using Message = std::tuple<std::size_t, std::int64_t, std::int64_t>;
  [[nodiscard]] Message make_message(std::size_t send) const { return {send, micro_batch_, step_}; }

  [[nodiscard]] std::vector<Dense<T>> copy_shards(BufferId id) {
    std::vector<Dense<T>> out;
    for (std::int64_t device = 0; device < digits_.devices(); ++device) {
      out.push_back(slot(id, digits_.slot(device, micro_batch_)));
    }
    return out;
  }

  void keep_last_versions() {
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      const auto versions = program_.versions(BufferId(b));
      if (versions == 1) continue;
      auto& all = out_.buffers[b];
      const auto first = all.begin() + (steps_ - 1) % versions * digits_.devices();
      all = std::vector<Dense<T>>(first, first + digits_.devices());
    }
  }

  void run_task(const Task& task) {
    switch (task.kind) {
      case TaskKind::kForward:
        return run_forward(task);
      case TaskKind::kLossGradient:
        return write_loss_gradient(task);
      case TaskKind::kBackward:
        return run_backward(task);
      case TaskKind::kMove:
        for (std::size_t i = 0; i < task.reads.size(); ++i) {
          move(compute_reshard_step(program_, task, i), task.reads[i], task.writes[i]);
        }
        return;
      case TaskKind::kSend:
        CHECK(false);  // a send is stored as a message instead
      case TaskKind::kReceive:
        return receive(task);
      case TaskKind::kJoin:
        return join(task);
      case TaskKind::kAddGradients:
        return add_gradients(task);
      case TaskKind::kAccumulateGradient:
        return accumulate_gradient(task);
      case TaskKind::kUpdate:
        return update(task);
    }
  }

  // --- Buffers -----------------------------------------------------------------------------------

  // Calls visit(slot) for every slot of the current micro-batch that holds a shard.
  template <class Visit>
  void for_each_holder(const Layout& layout, Visit&& visit) const {
    for (std::int64_t device = 0; device < digits_.devices(); ++device) {
      const auto slot = digits_.slot(device, micro_batch_);
      if (holds_shard(layout, digits_, slot)) visit(slot);
    }
  }

  Dense<T>& slot(BufferId id, std::int64_t slot) { return slot_in(step_, id, slot); }

  Dense<T>& slot_in(std::int64_t step, BufferId id, std::int64_t slot) {
    const auto devices = digits_.devices();
    const auto at =
        program_.buffer(id).each ? slot : slot % devices + step % program_.versions(id) * devices;
    return out_.buffers[id.index()][static_cast<std::size_t>(at)];
  }

  // Returns a shard that is read; CHECKs that it exists.
  const Dense<T>& shard(BufferId id, std::int64_t device) {
    const auto& out = slot(id, device);
    const auto& buffer = program_.buffer(id);
    CHECK(!out.data.empty() && out.shape == box(id, device).size,
          program_.pcg.node(buffer.node).name, to_text(buffer.layout), device);
    return out;
  }

  [[nodiscard]] Box box(BufferId id, std::int64_t device) const {
    return compute_box(program_.buffer(id), digits_, device);
  }

  [[nodiscard]] bool is_first(const Layout& layout, DigitRole role, std::int64_t device) const {
    return digits_.rank_in_group(device, layout.digits(role)) == 0;
  }

  void place_source(NodeId source, const Dense<T>& whole) {
    const auto id = program_.tensor[source.index()];
    const auto& layout = program_.buffer(id).layout;
    for_each_holder(layout, [&](std::int64_t device) {
      auto& into = slot(id, device) = Dense<T>(program_.buffer(id).shard);
      if (!is_first(layout, DigitRole::kPartial, device)) return;
      add_overlap(whole, make_whole_box(whole.shape), into, box(id, device));
    });
  }

  void fill_zero(BufferId id) {
    const auto& buffer = program_.buffer(id);
    for_each_holder(buffer.layout,
                    [&](std::int64_t device) { slot(id, device) = Dense<T>(buffer.shard); });
  }

  // --- Compute -----------------------------------------------------------------------------------

  struct OperatorLayouts {
    const ops::Signature* signature = nullptr;
    std::vector<Layout> inputs;
    std::vector<Shape> sizes;  // sizes of the inputs
    Layout output;
    machine::NodeLayout uses;
  };

  [[nodiscard]] OperatorLayouts get_operator_layouts(NodeId id) const {
    OperatorLayouts out;
    for (auto i : program_.pcg.inputs(id)) {
      const auto& buffer = program_.buffer(program_.tensor[i.index()]);
      out.sizes.push_back(buffer.sizes);
      out.inputs.push_back(buffer.layout);
    }
    out.signature = &ops::get_signature(program_.pcg.node(id).op, out.sizes);
    out.output = program_.buffer(program_.tensor[id.index()]).layout;
    const auto uses = infer_node_layout(*out.signature, out.inputs, digits_);
    CHECK(uses.has_value(), program_.pcg.node(id).name);
    out.uses = *uses;
    return out;
  }

  // Returns the ranges of the factors; of the block's factor only the block, if the task works on
  // one.
  [[nodiscard]] std::vector<term::FactorRange> compute_device_ranges(const OperatorLayouts& op,
                                                                     const Task& task,
                                                                     std::int64_t device) const {
    auto out = compute_slot_ranges(*op.signature, op.uses, digits_, device);
    if (!task.block) return out;
    const auto f = task.block->factor;
    const auto d = op.signature->map.find_input_dim(task.block->operand, f);
    const auto part = compute_range(program_.buffer(task.block->part), digits_, device,
                                    static_cast<std::size_t>(d));
    out[f].local = part.size;
    out[f].offset = part.offset;
    return out;
  }

  // Returns the buffer that an operator writes, set to zero unless blocks add to it.
  Dense<T>& prepare_result(const Task& task, BufferId id, std::int64_t device) {
    auto& into = slot(id, device);
    if (!task.block || task.block->first) into = Dense<T>(box(id, device).size);
    return into;
  }

  // Returns an operand with its position in the whole tensor. Its block is the device's box in
  // `buffer`, which is the buffer that is read or the one for its gradient. An operand without a
  // buffer is whole.
  term::Operand<T> make_operand(const Dense<T>& value, const Shape& whole, BufferId buffer,
                                std::int64_t device) const {
    if (buffer == Program::kNone) return term::Operand<T>(value);
    return {value, box(buffer, device).offset, whole};
  }

  static Box compute_result_box(const OperatorLayouts& op,
                                const std::vector<term::FactorRange>& parts) {
    const auto box = term::compute_box(op.signature->map.output, parts);
    return {box.offset, box.size};
  }

  void run_forward(const Task& task) {
    const OperatorLayouts op = get_operator_layouts(task.node);
    for_each_holder(op.output, [&](std::int64_t device) {
      std::vector<term::Operand<T>> operands;
      for (std::size_t i = 0; i < task.reads.size(); ++i) {
        operands.push_back(
            make_operand(shard(task.reads[i], device), op.sizes[i], task.reads[i], device));
      }
      const auto parts = compute_device_ranges(op, task, device);
      auto made = term::Evaluation<T>(op.signature->meaning, parts, std::move(operands))
                      .forward(op.signature->map.output);
      if (!task.block) {
        slot(task.writes[0], device) = std::move(made);
        return;
      }
      add_overlap(made, compute_result_box(op, parts), prepare_result(task, task.writes[0], device),
                  box(task.writes[0], device));
    });
  }

  void run_backward(const Task& task) {
    const OperatorLayouts op = get_operator_layouts(task.node);
    if (op.signature->gradient_from_result) return run_backward_from_result(task, op);
    for_each_holder(op.output, [&](std::int64_t device) {
      std::vector<Dense<T>*> gradients(op.inputs.size(), nullptr);
      std::vector<BufferId> blocks(task.reads.begin(), task.reads.end() - 1);
      for (std::size_t w = 0; w < task.writes.size(); ++w) {
        gradients[task.operands[w]] = &prepare_result(task, task.writes[w], device);
        auto& block = blocks[task.operands[w]];
        if (block == Program::kNone) block = task.writes[w];
      }
      std::vector<Dense<T>> unread(op.inputs.size());
      std::vector<term::Operand<T>> operands;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const bool is_read = task.reads[i] != Program::kNone;
        if (!is_read) {
          unread[i] = make_garbage<T>(blocks[i] == Program::kNone ? op.sizes[i]
                                                                  : box(blocks[i], device).size);
        }
        operands.push_back(make_operand(is_read ? shard(task.reads[i], device) : unread[i],
                                        op.sizes[i], blocks[i], device));
      }
      const auto parts = compute_device_ranges(op, task, device);
      Dense<T> of_block;
      const auto* gradient = &shard(task.reads.back(), device);
      if (task.block) {
        const auto result = compute_result_box(op, parts);
        of_block = Dense<T>(result.size);
        add_overlap(*gradient, box(task.reads.back(), device), of_block, result);
        gradient = &of_block;
      }
      term::Evaluation<T>(op.signature->meaning, parts, std::move(operands))
          .backward(op.signature->map.output, *gradient, std::move(gradients));
    });
  }

  void run_backward_from_result(const Task& task, const OperatorLayouts& op) {
    const auto& result = op.signature->map.output;
    for_each_holder(op.output, [&](std::int64_t device) {
      std::vector<term::Operand<T>> operands;
      for (auto b : task.reads) {
        operands.push_back(make_operand(shard(b, device), term::to_shape(result), b, device));
      }
      slot(task.writes[0], device) =
          term::Evaluation<T>(*op.signature->gradient_from_result,
                              compute_device_ranges(op, task, device), std::move(operands))
              .forward(op.signature->map.inputs[0]);
    });
  }

  // The gradient has the dual layout: its partial digits are the loss's replicas.
  void write_loss_gradient(const Task& task) {
    const auto& buffer = program_.buffer(task.writes[0]);
    for_each_holder(buffer.layout, [&](std::int64_t device) {
      const bool first = is_first(buffer.layout, DigitRole::kPartial, device);
      slot(task.writes[0], device) =
          Dense<T>(Shape{}, {term::Numbers<T>::from_index(first ? 1 : 0)});
    });
  }

  void join(const Task& task) {
    for_each_holder(program_.buffer(task.writes[0]).layout, [&](std::int64_t device) {
      int held = 0;
      for (auto b : task.reads) {
        if (!holds_shard(program_.buffer(b).layout, digits_, device)) continue;
        slot(task.writes[0], device) = shard(b, device);
        ++held;
      }
      CHECK(held == 1, held, device);
    });
  }

  void add_gradients(const Task& task) {
    const auto& layout = program_.buffer(task.reads[0]).layout;
    CHECK(task.reads[0] == task.writes[0] && layout == program_.buffer(task.reads[1]).layout);
    for_each_holder(layout, [&](std::int64_t device) {
      shard(task.reads[0], device);
      add_overlap(shard(task.reads[1], device), box(task.reads[1], device),
                  slot(task.writes[0], device), box(task.writes[0], device));
    });
  }

  void accumulate_gradient(const Task& task) {
    const auto sum = task.writes[0];
    for_each_holder(program_.buffer(sum).layout, [&](std::int64_t device) {
      auto& into = slot(sum, device);
      if (micro_batch_ == 0) into = Dense<T>(program_.buffer(sum).shard);
      add_overlap(shard(task.reads[0], device), box(task.reads[0], device), into, box(sum, device));
    });
  }

  // Returns a device's velocity after adding this step's gradient. It starts at 0.
  const Dense<T>& update_velocity(const Task& task, std::int64_t device) {
    const auto& gradient = shard(task.reads[1], device);
    auto& velocity = slot(task.reads[2], device);
    if (velocity.data.empty()) velocity = Dense<T>(gradient.shape);
    const T decay = term::Numbers<T>::from(plan::kVelocityDecay);
    for (std::size_t i = 0; i < velocity.data.size(); ++i) {
      velocity.data[i] = decay * velocity.data[i] + gradient.data[i];
    }
    return velocity;
  }

  void update(const Task& task) {
    if (program_.optimizer == plan::Optimizer::kAdam) return;
    const auto& layout = program_.buffer(task.writes[0]).layout;
    CHECK(task.reads[0] == task.writes[0] && layout == program_.buffer(task.reads[1]).layout);
    const T factor = term::Numbers<T>::from_index(-1) * learning_rate_;
    const bool has_velocity = program_.optimizer == plan::Optimizer::kMomentum;
    for_each_holder(layout, [&](std::int64_t device) {
      const auto& gradient =
          has_velocity ? update_velocity(task, device) : shard(task.reads[1], device);
      shard(task.reads[0], device);
      auto& weight = slot(task.writes[0], device);
      weight = slot_in(get_read_step(task, step_), task.reads[0], device);
      for (std::size_t i = 0; i < weight.data.size(); ++i) {
        weight.data[i] += factor * gradient.data[i];
      }
    });
  }

  // --- Moves -------------------------------------------------------------------------------------

  void move(const ReshardStep& step, BufferId from, BufferId to) {
    move(step, from, to,
         [&](std::int64_t sender) -> const Dense<T>& { return shard(from, sender); });
  }

  void receive(const Task& task) {
    const auto at = sent_.find(make_message(task.peer));
    move(task.step, program_.tasks[task.peer].reads[0], task.writes[0],
         [&](std::int64_t sender) -> const Dense<T>& {
           return at->second[static_cast<std::size_t>(sender % digits_.devices())];
         });
    sent_.erase(at);
  }

  // Moves `from` to `to` by one step; read(slot) returns the shard of `from` in that slot.
  void move(const ReshardStep& step, BufferId from, BufferId to, auto&& read) {
    CHECK(step.before == program_.buffer(from).layout);
    CHECK(step.after == program_.buffer(to).layout);
    for_each_holder(step.after, [&](std::int64_t device) {
      Dense<T> out(box(to, device).size);
      gather_from_group(step, from, to, device, read, out);
      slot(to, device) = std::move(out);
    });
  }

  void gather_from_group(const ReshardStep& step, BufferId from_buffer, BufferId to,
                         std::int64_t device, auto&& read, Dense<T>& out) {
    const auto group = digits_.group(device, step.digits);
    const auto kind = get_senders(step.kind);
    std::int64_t received = 0;
    const auto from = [&](std::int64_t sender) {
      received += add_overlap(read(sender), box(from_buffer, sender), out, box(to, device));
    };
    if (kind == Senders::kSelf) from(device);
    const auto root = group[static_cast<std::size_t>(find_root_rank(step, digits_))];
    if (kind == Senders::kSelfIfRoot && device == root) from(device);
    if (kind == Senders::kRoot) from(root);
    if (kind == Senders::kNext) {
      const auto rank = static_cast<std::size_t>(digits_.rank_in_group(device, step.digits));
      from(group[(rank + 1) % group.size()]);
    }
    if (kind >= Senders::kSummands) std::ranges::for_each(group, from);
    if (kind == Senders::kWindows) return;

    // CHECKs that the definition of the step makes sense for these layouts.
    const auto all = static_cast<std::int64_t>(out.data.size());
    const auto members = static_cast<std::int64_t>(group.size());
    const auto expected = [&] {
      if (step.kind == Step::kPad) return all / members;
      if (kind == Senders::kSelfIfRoot) return device == root ? all : 0;
      return kind == Senders::kSummands ? all * members : all;
    }();
    CHECK(received == expected, machine::name(step.kind), to_text(step.before), to_text(step.after),
          received, expected);
  }

  const Program& program_;
  const Digits& digits_;
  const graph::StepValues<T>& sources_;
  std::int64_t steps_;
  T learning_rate_;
  std::int64_t micro_batch_ = 0;
  std::int64_t step_ = 0;
  std::map<Message, std::vector<Dense<T>>> sent_;  // messages that have not arrived
  Execution<T> out_;
};

}  // namespace

template <class T>
Execution<T> run_program(const Program& program, const graph::SourceValues<T>& sources,
                         T learning_rate) {
  return run_steps<T>(
      program, [&](NodeId id, std::int64_t /*step*/) { return sources(id); }, 1, learning_rate);
}

template <class T>
Execution<T> run_steps(const Program& program, const graph::StepValues<T>& sources,
                       std::int64_t steps, T learning_rate) {
  return Interpreter<T>(program, sources, steps, learning_rate).run();
}

template <class T>
Dense<T> assemble(const Program& program, const Execution<T>& execution, BufferId id,
                  bool* replicas_agree) {
  const auto& buffer = program.buffer(id);
  const auto& digits = program.digits;
  const auto& shards = execution.buffers[id.index()];
  const auto copies = buffer.layout.digits(DigitRole::kReplica);
  Dense<T> out(buffer.sizes);
  for (std::size_t n = 0; n < shards.size(); ++n) {
    const auto slot = static_cast<std::int64_t>(n);
    const auto& shard = shards[n];
    CHECK(shard.data.empty() != holds_shard(buffer.layout, digits, slot), slot);
    if (shard.data.empty()) continue;
    const auto first = digits.group(slot, copies)[0];
    if (slot == first) {
      add_overlap(shard, compute_box(buffer, digits, slot), out, make_whole_box(buffer.sizes));
    } else if (replicas_agree != nullptr && shard != shards[static_cast<std::size_t>(first)]) {
      *replicas_agree = false;
    }
  }
  return out;
}

template <class T>
StepResult<T> assemble_step_result(const Program& program, const Execution<T>& execution) {
  StepResult<T> out;
  const auto whole = [&](BufferId id) {
    return assemble(program, execution, id, &out.replicas_agree);
  };
  out.loss = whole(program.loss);
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kUpdate) continue;
    const auto& name = program.pcg.node(task.node).name;
    out.gradients[name] = whole(task.reads[1]);
    out.weights[name] = whole(task.writes[0]);
  }
  return out;
}

#define TANDEM_INSTANTIATE(T)                                                                   \
  template Execution<T> run_program<T>(const Program&, const graph::SourceValues<T>&, T);       \
  template Execution<T> run_steps<T>(const Program&, const graph::StepValues<T>&, std::int64_t, \
                                     T);                                                        \
  template Dense<T> assemble<T>(const Program&, const Execution<T>&, BufferId, bool*);          \
  template StepResult<T> assemble_step_result<T>(const Program&, const Execution<T>&);
TANDEM_INSTANTIATE(double)
TANDEM_INSTANTIATE(term::Field)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::lower
