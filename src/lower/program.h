// A program is what every device does in one training step, as a list of tasks over buffers.
//
// All devices run the same list on their own shards. A device skips tasks and shards that an idle
// digit assigns to other devices. A program is therefore as long for 16,384 devices as for two.
// There is one lowering with three readers: the simulator times the program, the runtime executes
// it, and the task interpreter checks it.
//
// The list is a valid sequential order. Tasks depend only on what they read, so all others may
// overlap.
//
// With micro-batches and pipeline stages the list is split into segments: the forward or the
// backward tasks of one stage. A device runs its segments in the order of lower/schedule_actions.h,
// once for every micro-batch. A program is therefore as long for 192 micro-batches as for one.
//
// With delayed updates (plan::Semantics) two steps are in flight at once. Buffers that exist once
// per step, weights included, then have two versions, and step s works on version s % 2. Its update
// computes this version of a weight from the other one, which is the newest:
//   step s computes with W(s-1), then W(s+1) = W(s) - rate * gradient replaces W(s-1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "machine/machine.h"
#include "machine/reshard.h"
#include "machine/window.h"
#include "ops/signature.h"
#include "plan/plan.h"

namespace tandem::lower {

using BufferId = Id<struct BufferTag>;

enum class BufferKind : std::uint8_t {
  kInput,       // fed every step
  kWeight,      // persists between steps
  kState,       // optimizer state of a weight; persists between steps
  kActivation,  // written by the forward pass
  kGradient,    // written by the backward pass
  kGathered,    // a weight, or a part of it, that is gathered for its readers
};
inline constexpr std::size_t kBufferKinds = 6;

// One tensor of the program, of which every device holds a shard.
struct Buffer {
  BufferKind kind = BufferKind::kActivation;
  graph::NodeId node;      // node whose tensor, gradient or optimizer state this is
  machine::Layout layout;  // a gradient has its own layout
  Shape sizes;             // global sizes
  Shape shard;             // sizes on one device; the largest, for windows
  DType dtype = DType::kFp32;
  double density = 1;  // see TensorType
  // Whether there is an instance for every micro-batch, live from its first write to its last read.
  // Otherwise there is one for the step.
  bool each = false;
  bool is_mask = false;   // a mask of the retained elements, one byte each
  bool reserved = false;  // allocated from the first task of the step to the last
  // Whether this gradient is never stored: the kernel subtracts the matmul's result, or the rows of
  // a table's gradient, from the weight at once.
  bool fused_update = false;
  Bytes shared = {};  // bytes that are part of another buffer, which is live for as long
  // Largest number of elements of a gradient that is stored as the looked-up rows only.
  std::optional<std::int64_t> sparse_elements = {};
  // Windows of each dimension, if devices hold windows of the tensor instead of shards.
  std::vector<machine::Window> windows = {};
  // Digits of the device ring in which this buffer is a block in transit. The block is the shard of
  // the device `turned` positions ahead.
  machine::DigitMask ring = 0;
  std::int64_t turned = 0;

  [[nodiscard]] bool is_persistent() const {
    return kind == BufferKind::kWeight || kind == BufferKind::kState;
  }
  [[nodiscard]] Bytes bytes() const {
    if (fused_update) return {};
    return density * static_cast<double>(sparse_elements.value_or(shard.count())) *
           (is_mask ? Bytes{1} : get_element_size(dtype));
  }
};

enum class TaskKind : std::uint8_t {
  kForward,       // reads operands; writes the result
  kLossGradient,  // writes the loss gradient: 1 in each summand of replica 0, else 0
  // Reads the operands it needs (kNone for others), or the result if the gradient is computed from
  // that (ops/signature.h), then the result's gradient. Writes the gradients of `operands`.
  kBackward,
  // Reads one buffer and writes the same tensor in another layout: one reshard step. It may also
  // write the windows that an operator reads, or convert their gradient back to shards. For
  // gradients in a bucket it reads and writes several buffers in one collective. Each has the step
  // that its layouts imply; all steps have one kind and the same devices.
  kMove,
  kSend,          // reads a buffer: a reshard step to other devices, without waiting for them
  kReceive,       // writes what task `peer` sends
  kJoin,          // reads tensors on disjoint devices; writes them as partial sums; moves nothing
  kAddGradients,  // adds the second buffer read to the first, which it writes
  kAccumulateGradient,  // adds a micro-batch's contribution to the sum over micro-batches, which it
                        // writes
  // Reads a weight, its gradient and its optimizer state, with the master copy last. Writes the
  // weight and its state. It reads the other version of a weight that has two.
  kUpdate,
};

inline constexpr BufferId kNoBuffer{std::uint32_t{0xffffffff}};

// The micro-batches in which a task runs.
enum class When : std::uint8_t { kEach, kFirst, kLast };

enum class Mode : std::uint8_t { kTraining, kInference };

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate };

// One step of a program that the devices of a stage execute on their shards.
struct Task {
  TaskKind kind = TaskKind::kForward;
  graph::NodeId node;  // node of the PCG
  // Reshard step of kMove, kSend and kReceive. If they move several buffers, it is the first one's.
  machine::ReshardStep step{};
  bool backward = false;  // in the backward pass
  When when = When::kEach;
  bool recomputed = false;  // recomputed or regathered for the backward pass
  std::uint16_t stage = 0;
  // Buffer that the operator saves for backward in addition to operands and result. It is the
  // dropout mask for keeps_mask, or else follows ops/saved_for_backward.h and may be the result. It
  // takes memory, but an executor that recomputes the same values need not read it.
  BufferId saved = kNoBuffer;
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  // Operand whose gradient each written buffer is, for kBackward.
  std::vector<std::size_t> operands = {};
  std::size_t peer = 0;  // sending task, for kReceive
  // The block of a factor that a kForward or kBackward task works on, one of several
  // (lower/rings.h).
  struct FactorBlock {
    std::size_t operand = 0;  // operand that the block is a part of
    ops::FactorId factor = 0;
    BufferId part;                // buffer whose extent along the operand's dimension is the block
    machine::DigitMask ring = 0;  // digits of the ring, which has one block for each device
    bool first = true;            // whether it is the first block; the others add to the result
  };
  std::optional<FactorBlock> block = {};
};

// The tasks of one phase of one stage, by index.
struct ProgramSegment {
  std::uint16_t stage = 0;
  Phase phase = Phase::kForward;
  std::vector<std::uint32_t> tasks;
};

// The lowered form of a mapped graph; see the top of this file.
struct Program {
  graph::Graph pcg;
  machine::Digits digits;
  machine::Software software;  // what the devices' software does; its costs are not read
  plan::Optimizer optimizer = plan::Optimizer::kSgd;
  plan::Schedule schedule;
  Mode mode = Mode::kTraining;
  std::vector<Buffer> buffers;
  std::vector<Task> tasks;
  std::vector<ProgramSegment> segments;  // by stage: forward, backward, update
  // Buffer of each PCG node's tensor. Parallelization operators inside a fused chain have none.
  std::vector<BufferId> tensor;
  BufferId loss;  // may be partial; the loss is then the sum over its partial digits

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  [[nodiscard]] const ProgramSegment& segment(std::size_t stage, Phase phase) const {
    return segments[stage * 3 + static_cast<std::size_t>(phase)];
  }
  // Returns the number of versions of a buffer. With delayed updates, a buffer that exists once per
  // step has 2, with three exceptions. A gradient is consumed before the next step's begins, state
  // belongs to the newest weight, and a frozen weight is the same in all steps.
  [[nodiscard]] std::int64_t versions(BufferId id) const {
    const auto& b = buffer(id);
    const bool of_one_step =
        b.kind == BufferKind::kGradient || b.kind == BufferKind::kState ||
        (b.kind == BufferKind::kWeight && !graph::is_trained(pcg.node(b.node)));
    return schedule.is_delayed() && !b.each && !of_one_step ? 2 : 1;
  }

  static constexpr BufferId kNone = kNoBuffer;
};

// Returns whether the node is a weight, or a weight behind parallelization operators.
bool comes_from_weight(const graph::Graph& pcg, graph::NodeId id);

// Returns for each buffer the one task that reads it, or null if there are several or none.
std::vector<const Task*> find_only_readers(const Program& program);

// Returns the KV cache of an inference program: all graph outputs but the first.
std::vector<BufferId> list_kv_cache_buffers(const Program& program);
// Returns for each buffer the input that it is appended to in place, or kNone.
std::vector<BufferId> find_in_place_appends(const Program& program);

// Returns the digits whose coordinates make devices do different work: those of the pipeline, and
// those that are idle at several places. (In digits that are idle at place 0 only, the device there
// does the most work and may represent the others.)
machine::DigitMask find_class_digits(const Program& program);

// Returns the index range of dimension `dim` that a slot holds.
machine::IndexRange compute_range(const Buffer& buffer, const machine::Digits& digits,
                                  std::int64_t slot, std::size_t dim);

// Returns the step whose version of a buffer `task` reads in `step` (see the top of this file).
inline std::int64_t get_read_step(const Task& task, std::int64_t step) {
  return task.kind == TaskKind::kUpdate ? step + 1 : step;
}

// Returns the halo that devices exchange in a move with a halo step.
machine::Halo compute_halo(const Program& program, const Task& task);

// Returns the step of buffer number `which` in a move of several buffers.
machine::ReshardStep compute_reshard_step(const Program& program, const Task& task,
                                          std::size_t which);

// Return the bytes of the largest buffer that one device has in a move, send or receive, as
// predict/collectives.h needs them. For a halo these are the bytes that one device receives. The
// first function counts buffer number `which`, the second all buffers of the task.
Bytes count_moved_bytes(const Program& program, const Task& task, std::size_t which);
Bytes count_moved_bytes(const Program& program, const Task& task);

// Returns the extra memory of a bucket's move beyond the buffers it reads and writes. A bucket's
// gradients are contiguous. All-reduced gradients stay parts of the bucket, so it needs none; a
// reduce-scatter needs a copy.
Bytes count_bucket_bytes(const Program& program, const Task& task);

// Returns the number of elements that all devices together send in one step, by ring algorithms.
double count_communicated_elements(const Program& program);

// Returns the program as text, one task per line: "move all_reduce %h1 [64, 512] 'p' -> 'r' (64
// KB)". It is for people and golden tests.
std::string to_text(const Program& program);

}  // namespace tandem::lower
