// A program that is being made: its buffers, and the tasks that move tensors to another layout,
// stage or time. lower.cc says which of them a plan needs.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "lower/program.h"
#include "plan/plan.h"

namespace tandem::lower {

// Where a task that is being made belongs.
struct Place {
  std::uint16_t stage = 0;
  bool backward = false;
  bool remade = false;
};

class ProgramBuilder {
 protected:
  using NodeId = graph::NodeId;
  using Layout = machine::Layout;

  // `mapped` must outlive it.
  ProgramBuilder(const plan::MappedGraph& mapped, Program program);
  ~ProgramBuilder() = default;

  const Layout& layout_of(NodeId id) const { return mapped_.layouts[id.index()]; }
  std::uint16_t stage_of(NodeId id) const { return mapped_.stage[id.index()]; }

  const ops::Signature& signature(NodeId id);
  std::vector<machine::Window> windows_of(NodeId id, std::size_t operand);

  // An operand as the operator reads it. What reads the same windows, the backward pass included,
  // shares them.
  BufferId in_windows(BufferId shards, NodeId user, std::size_t operand, Place place);

  // A gradient that an operator has written over what it reads.
  BufferId in_shards(BufferId gradient, Place place);

  void read_in_windows(BufferId id, const std::vector<machine::Window>& windows);

  BufferId add_buffer(BufferKind kind, NodeId node, const Layout& layout);

  bool is_summand(const Layout& layout) const;
  bool is_summand(BufferId id) const { return is_summand(program_.buffer(id).layout); }

  // A task over what is the same in all micro-batches runs in the first of them, or the last if
  // it needs what all of them have made.
  void add(Task task);

  // The sum over all micro-batches.
  BufferId collect(BufferId summand, Place place);

  // From the devices of place.stage to those of `to_stage`.
  BufferId move(BufferId from, const Layout& to, NodeId node, Place place, std::uint16_t to_stage);

  const plan::MappedGraph& mapped_;
  const graph::Graph& pcg_;
  Program program_;
  bool each_ = false;  // buffers made now are there for one micro-batch

 private:
  void find_parameters();
  bool has_time() const { return program_.digits.time() != 0; }

  // The same tensor in other windows, or in shards where there are none.
  BufferId exchange(BufferId from, const std::vector<machine::Window>& windows, machine::Step kind,
                    Place place);

  BufferId reshard_to(BufferId from, const Layout& to, NodeId node, Place place,
                      std::uint16_t to_stage);

  BufferId take(BufferId from, const machine::ReshardStep& step, NodeId node, Place place);

  BufferId send(BufferId from, const machine::ReshardStep& step, NodeId node, Place place,
                std::uint16_t to_stage);

  static Task moving(TaskKind kind, const machine::ReshardStep& step, NodeId node, Place place,
                     std::vector<BufferId> reads, std::vector<BufferId> writes);

  BufferId moved(BufferId from, const machine::ReshardStep& step, Place place);

  // What is gathered for a whole step is gathered around the device's own shard, and has its place
  // as a weight has that is stored whole.
  bool is_gathered_once(Place place) const;

  std::vector<bool> is_parameter_;                 // by node: depends on weights alone
  std::vector<const ops::Signature*> signatures_;  // by node; null: not looked up yet
  // Shards, the stage that reads them, and their windows.
  std::vector<std::tuple<BufferId, std::uint16_t, BufferId>> windowed_;
  std::set<BufferId> lies_inside_;  // weights that lie in what is gathered around them
};

}  // namespace tandem::lower
