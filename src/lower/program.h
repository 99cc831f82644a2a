// A program: what every device does in one training step, as a list of tasks over buffers.
//
// All devices run the same list on their own shards; a task or a shard that an idle digit keeps
// from a device is skipped there. So a program is as long for 16,384 devices as for two. The
// simulator times it, the runtime executes it, the task interpreter checks it: one lowering, three
// readers.
//
// Tasks stand in an order in which they can run one after another; they need what they read, so
// anything else may overlap.
//
// With micro-batches and pipeline stages the list is cut into segments, the forward or the backward
// tasks of one stage, and a device runs its segments in the order of lower/order.h, once for every
// micro-batch. So a program is as long for 192 micro-batches as for one.
//
// With delayed updates (plan::Semantics) two steps are on their way at once. What there is one of
// for a step then has two versions, and step s works on version s % 2, weights included; its update
// makes this version of a weight anew from the other, which is the newest:
//   step s computes with W(s-1), then W(s+1) = W(s) - rate * gradient takes the place of W(s-1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "machine/reshard.h"
#include "machine/window.h"
#include "ops/signature.h"
#include "plan/plan.h"

namespace tandem::lower {

using BufferId = Id<struct BufferTag>;

enum class BufferKind : std::uint8_t {
  kInput,       // fed every step
  kWeight,      // lives on between steps
  kState,       // optimizer state of a weight, lives on between steps
  kActivation,  // made by the forward pass
  kGradient,    // made by the backward pass
  kGathered,    // a weight, or a part of one, as it is moved for those who read it
};
inline constexpr std::size_t kBufferKinds = 6;

struct Buffer {
  BufferKind kind = BufferKind::kActivation;
  graph::NodeId node;      // whose tensor (or its gradient, or its state) this is
  machine::Layout layout;  // a gradient's layout is its own, not its tensor's
  Shape sizes;             // global
  Shape shard;             // on a device that holds it; of windows the largest
  DType dtype = DType::kFp32;
  double density = 1;  // TensorType's
  // One for every micro-batch, from its first write to its last read; else one for the step.
  bool each = false;
  bool is_mask = false;   // of what stayed, not numbers: a byte for every element
  bool reserved = false;  // has its place from the first task of the step to the last
  // A gradient that is never there: what is multiplied for it, or its rows of a table, is
  // subtracted from its weight at once.
  bool in_product = false;
  Bytes shared = {};  // what of it lies in another buffer that is there all the while
  // Of a gradient that is kept as the rows that were looked up: how many elements, at the most.
  std::optional<std::int64_t> sparse_elements = {};
  // By dimension, where devices hold not their shards but windows of the tensor.
  std::vector<machine::Window> windows = {};
  // Of a block on its way round a ring of devices, which differ in these digits: how many places
  // further on the device is whose shard this is.
  machine::DigitMask ring = 0;
  std::int64_t turned = 0;

  [[nodiscard]] bool is_persistent() const {
    return kind == BufferKind::kWeight || kind == BufferKind::kState;
  }
  [[nodiscard]] Bytes bytes() const {
    if (in_product) return {};
    return density * static_cast<double>(sparse_elements.value_or(shard.count())) *
           (is_mask ? Bytes{1} : size_of(dtype));
  }
};

enum class TaskKind : std::uint8_t {
  kForward,   // reads operands; writes the result
  kSeed,      // writes the loss's gradient: 1 on every summand of replica 0, else 0
  kBackward,  // reads the operands it needs (kNone for others), or the result where the gradient is
              // made from that (ops/signature.h), then the result's gradient; writes the gradients
              // of `operands`
  kMove,      // reads one buffer, writes the same tensor in another layout: one reshard step; or
              // in windows for the operand of an operator, and its gradient back in shards. Of
              // gradients in a bucket it reads and writes several, each with the step that its
              // layouts make, all of one kind over the same devices: one collective
  kSend,      // reads a buffer: a reshard step to other devices, which they do not wait for
  kReceive,   // writes what the task `peer` sends
  kJoin,      // reads tensors, of which a device has one; writes it as a partial sum; moves nothing
  kAccumulate,  // adds the second buffer read to the first, which it writes
  kCollect,     // adds a micro-batch's summand to the sum over all of them, which it writes
  kUpdate,      // reads a weight, its gradient and its state, a master copy last; writes weight and
                // state. It reads the other version of a weight that has two
};

inline constexpr BufferId kNoBuffer{std::uint32_t{0xffffffff}};

// In which micro-batches a task runs.
enum class When : std::uint8_t { kEach, kFirst, kLast };

enum class Phase : std::uint8_t { kTraining, kInference };

enum class Part : std::uint8_t { kForward, kBackward, kUpdate };

struct Task {
  TaskKind kind = TaskKind::kForward;
  graph::NodeId node;           // of the PCG
  machine::ReshardStep step{};  // kMove, kSend, kReceive; of several buffers the first one's
  bool backward = false;        // in the backward pass
  When when = When::kEach;
  bool remade = false;  // runs a second time, for the backward pass
  std::uint16_t stage = 0;
  // What the operator keeps for its backward pass beside operands and result: of one that
  // keeps_mask what it drew, else see ops/kept.h; it may be the result. It takes memory; but who
  // draws the same numbers again, or computes the same, need not read it.
  BufferId kept = kNoBuffer;
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  // kBackward: which operand each written gradient belongs to.
  std::vector<std::size_t> operands = {};
  std::size_t peer = 0;  // kReceive
  // kForward, kBackward: works on one block of a factor of several (lower/rings.h).
  struct Block {
    std::size_t operand = 0;  // that it is a block of
    ops::FactorId factor = 0;
    BufferId part;  // what a device has of the operand's dimension in this buffer is the block
    machine::DigitMask ring = 0;  // there are as many blocks as devices in a group
    bool first = true;            // the others add to what they write
  };
  std::optional<Block> block = {};
};

// The tasks of one part of one stage, by number.
struct Segment {
  std::uint16_t stage = 0;
  Part part = Part::kForward;
  std::vector<std::uint32_t> tasks;
};

struct Program {
  graph::Graph pcg;
  machine::Digits digits;
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Schedule schedule;
  Phase phase = Phase::kTraining;
  std::vector<Buffer> buffers;
  std::vector<Task> tasks;
  std::vector<Segment> segments;  // by stage: forward, backward, update
  // By PCG node, the buffer of its tensor; parallelization operators inside a fused chain have
  // none.
  std::vector<BufferId> tensor;
  BufferId loss;  // may be partial: the loss is the sum over its partial digits

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  [[nodiscard]] const Segment& segment(std::size_t stage, Part part) const {
    return segments[stage * 3 + static_cast<std::size_t>(part)];
  }
  // A gradient is used up before the next step's begins, and state belongs to the newest weight;
  // a frozen weight is the same in all.
  [[nodiscard]] std::int64_t versions(BufferId id) const {
    const auto& b = buffer(id);
    const bool of_one_step =
        b.kind == BufferKind::kGradient || b.kind == BufferKind::kState ||
        (b.kind == BufferKind::kWeight && !graph::is_trained(pcg.node(b.node)));
    return schedule.is_delayed() && !b.each && !of_one_step ? 2 : 1;
  }

  static constexpr BufferId kNone = kNoBuffer;
};

// Is the node a weight, or one behind parallelization operators?
bool comes_from_weight(const graph::Graph& pcg, graph::NodeId id);

// By buffer, the one task that reads it; null where there are several, or none.
std::vector<const Task*> only_readers(const Program& program);

// Of inference: keys and values that later tokens are made from, the outputs but the first.
std::vector<BufferId> cached(const Program& program);
// By buffer, the input that it is appended to and whose place it takes; kNone for all others.
std::vector<BufferId> cached_in_place(const Program& program);

// Devices differ in what they do by their coordinates in these digits: those of the pipeline, and
// those that are idle at several places. (In digits that are idle at 0 only, the device there does
// the most and may stand for the others.)
machine::DigitMask class_digits(const Program& program);

// The index range of `dim` that a slot holds.
machine::Range range_of(const Buffer& buffer, const machine::Digits& digits, std::int64_t slot,
                        std::size_t dim);

// The step whose version of a buffer a task reads: see above.
inline std::int64_t step_read(const Task& task, std::int64_t step) {
  return task.kind == TaskKind::kUpdate ? step + 1 : step;
}

// Of a move with a halo step: what devices exchange.
machine::Halo halo_of(const Program& program, const Task& task);

// Of a move of several buffers: the step of one of them.
machine::ReshardStep step_of(const Program& program, const Task& task, std::size_t which);

// Of a move, send or receive: the largest buffer one device has in it, as predict/collectives.h
// wants it; of a halo what one device gets. Of several buffers: of one, and of all together.
Bytes moved_bytes(const Program& program, const Task& task, std::size_t which);
Bytes moved_bytes(const Program& program, const Task& task);

// What a move needs beside the buffers it reads and writes: a bucket's gradients lie in a row.
// Those that are all-reduced are parts of the row afterwards; of what is reduce-scattered it is a
// copy.
Bytes bucket_bytes(const Program& program, const Task& task);

// Elements that all devices together send in one step, by ring algorithms.
double elements_communicated(const Program& program);

// One line a task: "move all_reduce %h1 [64, 512] 'p' -> 'r' (64 KB)"; for people and golden tests.
std::string to_text(const Program& program);

}  // namespace tandem::lower
