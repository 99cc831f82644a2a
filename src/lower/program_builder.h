// Builder of a program: adds buffers, and the tasks that move tensors to another layout, stage or
// micro-batch. lower.cc decides which of them a plan needs.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "lower/program.h"
#include "plan/plan.h"

namespace tandem::lower {

// The stage and pass that a new task belongs to.
struct StagePass {
  std::uint16_t stage = 0;
  bool backward = false;
  bool recomputed = false;
};

// Base class of the lowering that holds the program under construction.
class ProgramBuilder {
 protected:
  using NodeId = graph::NodeId;
  using Layout = machine::Layout;

  // Stores a reference to `mapped`, which must outlive the builder.
  ProgramBuilder(const plan::MappedGraph& mapped, Program program);
  ~ProgramBuilder() = default;

  const Layout& get_layout(NodeId id) const { return mapped_.layouts[id.index()]; }
  std::uint16_t get_stage(NodeId id) const { return mapped_.stage[id.index()]; }

  // Returns the cached signature of node `id`.
  const ops::Signature& get_signature(NodeId id);
  // Returns the windows in which node `id` reads `operand`; empty if it reads shards.
  std::vector<machine::Window> compute_windows(NodeId id, std::size_t operand);

  // Returns the buffer with the windows that `user` reads of `operand`, given its `shards`.
  // All readers of the same windows share one buffer, in the backward pass too.
  BufferId to_windows(BufferId shards, NodeId user, std::size_t operand, StagePass place);

  // Returns a gradient as shards, after summing the overlaps if an operator wrote it over windows.
  BufferId to_shards(BufferId gradient, StagePass place);

  // Sets the windows and the shard size of the buffer `id`.
  void set_windows(BufferId id, const std::vector<machine::Window>& windows);

  BufferId add_buffer(BufferKind kind, NodeId node, const Layout& layout);

  // Returns whether a layout is one micro-batch's contribution to a sum over all of them.
  bool is_summand(const Layout& layout) const;
  bool is_summand(BufferId id) const { return is_summand(program_.buffer(id).layout); }

  // Appends `task`. A task whose results are the same in all micro-batches runs in the first one,
  // or in the last one if it needs the results of all.
  void add(Task task);

  // Returns the sum of `summand` over all micro-batches.
  BufferId accumulate_gradient(BufferId summand, StagePass place);

  // Moves `from`, on the devices of place.stage, to the layout `to` on the devices of `to_stage`.
  // Returns the new buffer.
  BufferId move(BufferId from, const Layout& to, NodeId node, StagePass place,
                std::uint16_t to_stage);

  const plan::MappedGraph& mapped_;
  const graph::Graph& pcg_;
  Program program_;
  bool each_ = false;  // whether new buffers exist for each micro-batch

 private:
  void find_parameters();
  bool has_time() const { return program_.digits.time() != 0; }

  // Returns the same tensor in other windows, or in shards if `windows` is empty.
  BufferId exchange_halo(BufferId from, const std::vector<machine::Window>& windows,
                         machine::Step kind, StagePass place);

  // Reshards `from` to `to`, which is the same over time.
  BufferId reshard_to(BufferId from, const Layout& to, NodeId node, StagePass place,
                      std::uint16_t to_stage);

  // Appends a move by one step and returns the buffer it writes.
  BufferId add_move(BufferId from, const machine::ReshardStep& step, NodeId node, StagePass place);

  // Appends a send and its receive and returns the received buffer.
  BufferId add_send(BufferId from, const machine::ReshardStep& step, NodeId node, StagePass place,
                    std::uint16_t to_stage);

  // Returns a task of this kind at `place`.
  static Task make_task(TaskKind kind, const machine::ReshardStep& step, NodeId node,
                        StagePass place, std::vector<BufferId> reads, std::vector<BufferId> writes);

  // Returns a new buffer for the result of one step.
  BufferId add_moved_buffer(BufferId from, const machine::ReshardStep& step, StagePass place);

  // Returns whether a weight gathered at `place` stays for the whole step. It is then
  // gathered around the device's own shard and is allocated like an unsharded weight.
  bool is_gathered_once(StagePass place) const;

  std::vector<bool> is_parameter_;                 // by node: whether it depends on weights alone
  std::vector<const ops::Signature*> signatures_;  // by node; null if not computed yet
  // Windows that exist so far: shards, reading stage, and windowed buffer.
  std::vector<std::tuple<BufferId, std::uint16_t, BufferId>> windowed_;
  std::set<BufferId> inside_gathered_;  // weights that are part of the buffer gathered around them
};

}  // namespace tandem::lower
