#include "lower/rings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/signature.h"

namespace tandem::lower {

namespace {

using machine::Step;

// Rebuilds the task list of a program, with rings in place of gathers.
class Rings {
 public:
  explicit Rings(Program& program)
      : program_(program),
        readers_(program.buffers.size()),
        ring_of_(program.tasks.size()),
        dropped_(program.tasks.size()),
        moved_to_(program.tasks.size()) {
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      for (auto b : program.tasks[t].reads) {
        if (b != Program::kNone) readers_[b.index()].push_back(t);
      }
    }
  }

  void run() {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) replace_gather(t);
    const auto tasks = std::exchange(program_.tasks, {});
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (dropped_[t]) continue;
      moved_to_[t] = program_.tasks.size();
      if (!ring_of_[t]) {
        program_.tasks.push_back(tasks[t]);
      } else if (tasks[t].kind == TaskKind::kForward) {
        emit_forward_blocks(tasks[t], *ring_of_[t]);
      } else {
        emit_backward_blocks(tasks[t], *ring_of_[t]);
      }
    }
    for (auto& task : program_.tasks) {
      if (task.kind == TaskKind::kReceive) task.peer = moved_to_[task.peer];
    }
  }

 private:
  // The ring that splits one operator's task into a task for each block.
  struct Ring {
    graph::NodeId node;         // node that would be gathered
    machine::ReshardStep step;  // a shift over the ring's digits
    std::size_t operand = 0;
    ops::FactorId factor = 0;
    BufferId shards;  // shards of the operand, on every device
    // Index of the operand's gradient in the task's writes, for the backward pass.
    std::optional<std::size_t> gradient;
    std::size_t scatter = 0;  // task that would reduce-scatter that gradient
    BufferId scattered;       // shards that this task writes
  };

  // Replaces the gather `t` by rings if all tasks that read its result can work on blocks.
  void replace_gather(std::size_t t) {
    const auto& gather = program_.tasks[t];
    if (gather.kind != TaskKind::kMove || gather.step.kind != Step::kAllGather) return;
    const auto& shards = program_.buffer(gather.reads[0]);
    if (shards.kind != BufferKind::kActivation || !shards.windows.empty()) return;
    const auto& users = readers_[gather.writes[0].index()];
    std::vector<Ring> rings;
    for (auto user : users) {
      const auto ring = find_ring(gather, user);
      if (!ring) return;
      rings.push_back(*ring);
    }
    dropped_[t] = !users.empty();
    for (std::size_t i = 0; i < users.size(); ++i) {
      ring_of_[users[i]] = rings[i];
      if (rings[i].gradient) dropped_[rings[i].scatter] = true;
    }
  }

  // Returns the ring for the task `user`, which reads the result of `gather`. Returns nullopt if it
  // cannot work on blocks.
  [[nodiscard]] std::optional<Ring> find_ring(const Task& gather, std::size_t user) const {
    const auto& task = program_.tasks[user];
    const bool computes = task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
    if (!computes || ring_of_[user] || task.when != gather.when) return std::nullopt;
    if (std::ranges::count(task.reads, gather.writes[0]) != 1) return std::nullopt;
    Ring out{.node = gather.node,
             .step = make_shift_step(gather),
             .operand = static_cast<std::size_t>(std::ranges::find(task.reads, gather.writes[0]) -
                                                 task.reads.begin()),
             .factor = 0,
             .shards = gather.reads[0],
             .gradient = std::nullopt,
             .scatter = 0,
             .scattered = {}};
    const auto factor = find_block_factor(task, out.operand, gather.step.from_dim);
    if (!factor) return std::nullopt;
    out.factor = *factor;
    const auto wanted = std::ranges::find(task.operands, out.operand);
    if (wanted == task.operands.end()) return out;
    out.gradient = static_cast<std::size_t>(wanted - task.operands.begin());
    const auto scatter = find_reduce_scatter(task.writes[*out.gradient], gather, task);
    if (!scatter) return std::nullopt;
    out.scatter = *scatter;
    out.scattered = program_.tasks[*scatter].writes[0];
    return out;
  }

  static machine::ReshardStep make_shift_step(const Task& gather) {
    auto step = gather.step;
    step.kind = Step::kShift;
    step.after = step.before;
    return step;
  }

  // Returns the factor that the dimension runs over, if a contraction may be partitioned along it.
  [[nodiscard]] std::optional<ops::FactorId> find_block_factor(const Task& task,
                                                               std::size_t operand,
                                                               std::size_t dim) const {
    const auto& s = get_node_signature(program_.pcg, task.node);
    if (operand >= s.map.inputs.size() || s.monoid != Monoid::kSum) return std::nullopt;
    if (std::ranges::find(s.use, ops::FactorUse::kReducing) == s.use.end()) return std::nullopt;
    const auto factor = s.map.inputs[operand][dim].carriers[0];
    const auto use = s.use[factor];
    if (use != ops::FactorUse::kParallel && use != ops::FactorUse::kReducing) return std::nullopt;
    const auto is_plain = [&](const term::Dims& dims) {
      return std::ranges::all_of(dims, [&](const term::Dim& d) {
        const bool has = std::ranges::find(d.carriers, factor) != d.carriers.end();
        return !has || (d.exact && d.carriers.size() == 1);
      });
    };
    const bool plain = std::ranges::all_of(s.map.inputs, is_plain) && is_plain(s.map.output);
    return plain ? std::optional(factor) : std::nullopt;
  }

  // Returns the task that reduce-scatters the gradient of the gathered tensor, if nothing else
  // reads that gradient.
  [[nodiscard]] std::optional<std::size_t> find_reduce_scatter(BufferId gradient,
                                                               const Task& gather,
                                                               const Task& user) const {
    const auto& users = readers_[gradient.index()];
    if (users.size() != 1) return std::nullopt;
    const auto& task = program_.tasks[users[0]];
    const bool is_dual = task.kind == TaskKind::kMove && task.step.kind == Step::kReduceScatter &&
                         task.step.digits == gather.step.digits &&
                         task.step.after == to_gradient_layout(gather.step.before) &&
                         task.when == user.when && task.stage == user.stage;
    return is_dual ? std::optional(users[0]) : std::nullopt;
  }

  // --- Tasks -------------------------------------------------------------------------------------

  [[nodiscard]] std::int64_t count_devices(const Ring& ring) const {
    return program_.digits.group_size(ring.step.digits);
  }

  // Returns the buffer for the shards of the devices `add_block_buffer` positions ahead.
  BufferId add_block_buffer(BufferId shards, const Ring& ring, std::int64_t add_block_buffer) {
    if (add_block_buffer == 0) return shards;
    auto buffer = program_.buffer(shards);
    buffer.ring = ring.step.digits;
    buffer.turned = add_block_buffer;
    program_.buffers.push_back(buffer);
    return BufferId(program_.buffers.size() - 1);
  }

  void add_shift(BufferId from, BufferId to, const Ring& ring, const Task& user) {
    auto step = ring.step;
    step.before = step.after = program_.buffer(from).layout;
    program_.tasks.push_back({.kind = TaskKind::kMove,
                              .node = ring.node,
                              .step = step,
                              .backward = user.backward,
                              .when = user.when,
                              .recomputed = user.recomputed,
                              .stage = user.stage,
                              .reads = {from},
                              .writes = {to}});
  }

  // Returns the task `whole`, restricted to one block.
  static Task restrict_to_block(const Task& whole, const Ring& ring, BufferId block, bool first) {
    auto task = whole;
    task.reads[ring.operand] = block;
    task.block = Task::FactorBlock{.operand = ring.operand,
                                   .factor = ring.factor,
                                   .part = block,
                                   .ring = ring.step.digits,
                                   .first = first};
    return task;
  }

  void emit_forward_blocks(const Task& whole, const Ring& ring) {
    auto block = ring.shards;
    for (std::int64_t ring_step = 0; ring_step < count_devices(ring); ++ring_step) {
      const bool last = ring_step + 1 == count_devices(ring);
      const auto next = last ? block : add_block_buffer(ring.shards, ring, ring_step + 1);
      if (!last) add_shift(block, next, ring, whole);
      program_.tasks.push_back(restrict_to_block(whole, ring, block, ring_step == 0));
      block = next;
    }
  }

  // The device's own block comes last, because the sum that arrives with it is the device's own.
  void emit_backward_blocks(const Task& whole, const Ring& ring) {
    const auto n = count_devices(ring);
    auto block = add_block_buffer(ring.shards, ring, 1);
    add_shift(ring.shards, block, ring, whole);
    BufferId sum;
    for (std::int64_t ring_step = 1; ring_step <= n; ++ring_step) {
      const auto next =
          ring_step < n ? add_block_buffer(ring.shards, ring, (ring_step + 1) % n) : block;
      if (ring_step + 1 < n) add_shift(block, next, ring, whole);
      auto task = restrict_to_block(whole, ring, block, ring_step == 1);
      if (ring.gradient) {
        const auto to = add_block_buffer(ring.scattered, ring, ring_step % n);
        if (ring_step > 1) add_shift(sum, to, ring, whole);
        task.writes[*ring.gradient] = sum = to;
      }
      program_.tasks.push_back(std::move(task));
      block = next;
    }
  }

  Program& program_;
  std::vector<std::vector<std::size_t>> readers_;  // by buffer: indices of the tasks that read it
  // The following are by index in the original task list.
  std::vector<std::optional<Ring>> ring_of_;
  std::vector<bool> dropped_;
  std::vector<std::size_t> moved_to_;
};

}  // namespace

void replace_gathers_by_rings(Program& program) { Rings(program).run(); }

}  // namespace tandem::lower
