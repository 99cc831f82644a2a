// A program: what every device does in one training step, as a list of tasks over buffers.
//
// All devices run the same list on their own shards; a task or a shard that an idle digit keeps
// from a device is skipped there. So a program is as long for 16,384 devices as for two. The
// simulator times it, the runtime executes it, the task interpreter checks it: one lowering, three
// readers.
//
// Tasks stand in an order in which they can run one after another; they need what they read, so
// anything else may overlap.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "machine/reshard.h"
#include "plan/plan.h"

namespace tandem::lower {

using BufferId = Id<struct BufferTag>;

enum class BufferKind : std::uint8_t {
  kInput,       // fed every step
  kWeight,      // lives on between steps
  kState,       // optimizer state of a weight, lives on between steps
  kActivation,  // made by the forward pass
  kGradient,    // made by the backward pass
};

struct Buffer {
  BufferKind kind = BufferKind::kActivation;
  graph::NodeId node;      // whose tensor (or its gradient, or its state) this is
  machine::Layout layout;  // a gradient's layout is its own, not its tensor's
  Shape sizes;             // global
  Shape shard;             // on a device that holds it
  DType dtype = DType::kFp32;
  double density = 1;  // TensorType's
  // Of a gradient that is kept as the rows that were looked up: how many elements, at the most.
  std::optional<std::int64_t> sparse_elements = {};

  [[nodiscard]] bool is_persistent() const {
    return kind == BufferKind::kWeight || kind == BufferKind::kState;
  }
  [[nodiscard]] Bytes bytes() const {
    return density * static_cast<double>(sparse_elements.value_or(shard.count())) * size_of(dtype);
  }
};

enum class TaskKind : std::uint8_t {
  kForward,   // reads operands; writes the result
  kSeed,      // writes the loss's gradient: 1 on every summand of replica 0, else 0
  kBackward,  // reads the operands it needs (kNone for others), then the result's gradient; writes
              // the gradients of `operands`
  kMove,      // reads one buffer, writes the same tensor in another layout: one reshard step
  kAccumulate,  // adds the second buffer read to the first, which it writes
  kUpdate,      // reads a weight, its gradient and its state; writes weight and state
};

struct Task {
  TaskKind kind = TaskKind::kForward;
  graph::NodeId node;           // of the PCG
  machine::ReshardStep step{};  // kMove
  bool backward = false;        // in the backward pass; for reports
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  // kBackward: which operand each written gradient belongs to.
  std::vector<std::size_t> operands = {};
};

struct Program {
  graph::Graph pcg;
  machine::Digits digits;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  std::vector<Buffer> buffers;
  std::vector<Task> tasks;
  // By PCG node, the buffer of its tensor; parallelization operators inside a fused chain have
  // none.
  std::vector<BufferId> tensor;
  BufferId loss;  // may be partial: the loss is the sum over its partial digits

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }

  static constexpr BufferId kNone{std::uint32_t{0xffffffff}};
};

// Of a move: the largest buffer one device has in it, as cost/collectives.h wants it.
Bytes moved_bytes(const Program& program, const Task& task);

// Elements that all devices together send in one step, by ring algorithms.
double elements_communicated(const Program& program);

// One line a task: "move all_reduce %h1 [64, 512] 'p' -> 'r' (64 KB)"; for people and golden tests.
std::string to_text(const Program& program);

}  // namespace tandem::lower
