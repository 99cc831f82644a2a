#include "lower/resize_program.h"

#include <algorithm>

#include "lower/row_sparse.h"

namespace tandem::lower {

namespace {

using graph::Graph;
using graph::NodeId;

// Returns whether two nodes differ only in extents. Inputs have their extents among the attributes;
// weights must be equal.
bool differs_only_in_extents(const graph::Node& a, const graph::Node& b) {
  const bool same_op = a.op.role() == ops::Role::kSource && !is_weight(a)
                           ? &a.op.spec() == &b.op.spec()
                           : a.op == b.op;
  return same_op && a.type.shape.rank() == b.type.shape.rank() && a.type.dtype == b.type.dtype &&
         a.type.density == b.type.density && a.name == b.name;
}

bool differ_only_in_extents(const Graph& a, const Graph& b) {
  if (a.size() != b.size() || a.outputs() != b.outputs()) return false;
  return std::ranges::all_of(a.ids(), [&](NodeId id) {
    return differs_only_in_extents(a.node(id), b.node(id)) &&
           std::ranges::equal(a.inputs(id), b.inputs(id));
  });
}

// Returns whether two schedules are equal in all that lowering reads.
bool are_equal_for_lowering(const plan::Schedule& a, const plan::Schedule& b) {
  return a.micro_batches == b.micro_batches && a.stages == b.stages && a.order == b.order &&
         a.digits == b.digits && a.semantics == b.semantics && a.precision == b.precision &&
         a.reduce_each == b.reduce_each && a.whole_gradients == b.whole_gradients &&
         a.ring == b.ring && a.bucket == b.bucket;
}

// Returns whether an operator reads windows of a tensor whose extents have changed.
bool reads_windows(const Graph& before, const Graph& graph) {
  const auto changes = [&](NodeId id) {
    return before.node(id).type.shape.sizes != graph.node(id).type.shape.sizes;
  };
  return std::ranges::any_of(graph.ids(), [&](NodeId id) {
    if (graph.node(id).op.role() != ops::Role::kCompute) return false;
    if (std::ranges::none_of(graph.inputs(id), changes)) return false;
    return !std::ranges::all_of(get_node_signature(graph, id).map.inputs, [](const auto& dims) {
      return std::ranges::all_of(dims, &term::Dim::exact);
    });
  });
}

// Returns the new shard sizes of all buffers. Returns nullopt if a resized buffer shares memory
// with another one, because the shared bytes may depend on either's size.
std::optional<std::vector<Shape>> compute_new_shards(const Program& program, const Graph& pcg) {
  std::vector<Shape> out;
  out.reserve(program.buffers.size());
  for (const auto& buffer : program.buffers) {
    const auto& sizes = pcg.node(buffer.node).type.shape.sizes;
    const bool stays = sizes == buffer.sizes;
    if (stays) {
      out.push_back(buffer.shard);
      continue;
    }
    const auto shape = compute_parallel_shape(buffer.layout, sizes, program.digits);
    if (!shape || buffer.shared > Bytes{}) return std::nullopt;
    out.push_back(shape->shard_shape());
  }
  return out;
}

}  // namespace

bool resize_program(Program& program, const plan::MappedGraph& before,
                    const plan::MappedGraph& mapped) {
  const auto& schedule = program.schedule;
  if (schedule.ring || schedule.bucket > Bytes{} ||
      !are_equal_for_lowering(before.schedule, mapped.schedule)) {
    return false;
  }
  if (before.layouts != mapped.layouts || before.stage != mapped.stage ||
      before.recompute != mapped.recompute || !differ_only_in_extents(before.pcg, mapped.pcg) ||
      reads_windows(before.pcg, mapped.pcg)) {
    return false;
  }
  const auto shards = compute_new_shards(program, mapped.pcg);
  if (!shards) return false;
  program.pcg = mapped.pcg;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    auto& buffer = program.buffers[b];
    buffer.sizes = program.pcg.node(buffer.node).type.shape.sizes;
    buffer.shard = (*shards)[b];
  }
  if (program.mode == Mode::kTraining) mark_row_sparse_gradients(program);
  return true;
}

}  // namespace tandem::lower
