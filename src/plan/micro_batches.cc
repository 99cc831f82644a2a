#include "plan/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/hashes.h"
#include "ops/sources.h"
#include "rewrite/collection.h"
#include "rewrite/rule_text.h"

namespace tandem::plan {

namespace {

using graph::NodeId;
using machine::DigitRole;
using ops::MicroBatches;

constexpr std::string_view kRule = "batch-of-pipeline";
constexpr std::string_view kStep = "batch-of-pipeline-reversed";

[[noreturn]] void refuse(const graph::Node& node, const std::string& message) {
  throw UserError("plan", fmt::format("%{}", node.name), message);
}

// Returns how an input is split into micro-batches, or nullopt if the node is not split.
std::optional<MicroBatches> find_split(const MappedGraph& mapped, NodeId id) {
  if (mapped.schedule.micro_batches == 1) return std::nullopt;
  if (mapped.pcg.node(id).op.role() != ops::Role::kSource) return std::nullopt;
  const auto role = mapped.layouts[id.index()][0];
  if (!role.is_dim()) return std::nullopt;
  return MicroBatches{static_cast<std::int64_t>(role.dim()), mapped.schedule.micro_batches};
}

// Copies a mapped graph node by node, with its layouts, stages and recomputation.
class Rewriter {
 public:
  explicit Rewriter(const MappedGraph& from)
      : from_(from), builder_(from.pcg.name()), image_(from.pcg.size()) {}

  NodeId add(const ops::Op& op, std::span<const NodeId> inputs, const std::string& name,
             NodeId like, const machine::Layout& layout) {
    record_mapping(like, layout);
    return builder_.add(op, inputs, name);
  }

  void copy_node(NodeId id) {
    std::vector<NodeId> inputs;
    for (auto i : from_.pcg.inputs(id)) inputs.push_back(image_[i.index()]);
    record_mapping(id, from_.layouts[id.index()]);
    image_[id.index()] = builder_.copy_node(from_.pcg, id, inputs);
  }

  NodeId& image(NodeId id) { return image_[id.index()]; }

  MappedGraph finish() {
    std::vector<NodeId> outputs;
    for (auto o : from_.pcg.outputs()) outputs.push_back(image_[o.index()]);
    out_.pcg = builder_.finish(std::move(outputs));
    out_.schedule = from_.schedule;
    return std::move(out_);
  }

 private:
  void record_mapping(NodeId like, const machine::Layout& layout) {
    out_.layouts.push_back(layout);
    out_.stage.push_back(from_.stage[like.index()]);
    out_.recompute.push_back(from_.recompute[like.index()]);
  }

  const MappedGraph& from_;
  graph::GraphBuilder builder_;
  std::vector<NodeId> image_;
  MappedGraph out_;
};

// Returns `shape` before the split into micro-batches.
ParallelShape undo_split(ParallelShape shape, const MicroBatches& cut) {
  shape.degrees[static_cast<std::size_t>(cut.dim)] /= cut.count;
  return shape;
}

std::string make_unused_name(std::string name, const graph::Graph& graph) {
  const auto taken = [&] {
    return std::ranges::any_of(graph.ids(), [&](NodeId id) { return graph.node(id).name == name; });
  };
  while (taken()) name += ".pipeline";
  return name;
}

// Returns the source that a pipeline node splits. Throws UserError if they do not agree with the
// schedule and the layouts.
NodeId find_split_source(const MappedGraph& written, NodeId id) {
  const auto& node = written.pcg.node(id);
  const auto source = written.pcg.inputs(id)[0];
  const auto& cut = node.op.get<MicroBatches>();
  if (written.pcg.node(source).op.role() != ops::Role::kSource) {
    refuse(
        node,
        "is a pipeline node after an operator, but pipeline nodes must directly follow a source");
  }
  if (cut.count != written.schedule.micro_batches) {
    refuse(node, fmt::format("makes {} micro-batches, but the schedule has {}", cut.count,
                             written.schedule.micro_batches));
  }
  auto expected = written.layouts[source.index()];
  if (expected.count() == 0 || expected[0] != DigitRole::kIdle) {
    refuse(
        written.pcg.node(source),
        fmt::format("has layout '{}', but only its pipeline node may split it into micro-batches",
                    to_text(expected)));
  }
  expected.set(0, DigitRole::dim(static_cast<std::size_t>(cut.dim)));
  if (written.layouts[id.index()] != expected) {
    refuse(node, fmt::format("has layout '{}', but must have '{}'",
                             to_text(written.layouts[id.index()]), to_text(expected)));
  }
  if (written.stage[id.index()] != written.stage[source.index()]) {
    refuse(node, "is not in the same stage as its input");
  }
  return source;
}

// Returns the graph with batch(pipeline(x)) behind every node whose hash is `place`.
graph::Graph insert_pair(const graph::Graph& graph, Hash place, const MicroBatches& cut) {
  const auto hashes = graph::hash_nodes(graph, graph::HashKind::kIdentity);
  graph::GraphBuilder builder(graph.name());
  std::vector<NodeId> image(graph.size());
  std::optional<NodeId> pair;
  for (auto id : graph.ids()) {
    std::vector<NodeId> inputs;
    for (auto i : graph.inputs(id)) inputs.push_back(image[i.index()]);
    auto& made = image[id.index()];
    if (hashes[id.index()] != place) {
      made = builder.copy_node(graph, id, inputs);
      continue;
    }
    if (!pair) {
      made = builder.copy_node(graph, id, inputs);
      const auto name = make_unused_name(graph.node(id).name + ".pipeline", graph);
      const auto parts = builder.add(ops::make_op(ops::kPipeline, cut), {made}, name);
      pair = builder.add(ops::make_op(ops::kBatch, cut), {parts},
                         make_unused_name(graph.node(id).name + ".batch", graph));
    }
    made = *pair;
  }
  std::vector<NodeId> outputs;
  for (auto o : graph.outputs()) outputs.push_back(image[o.index()]);
  return builder.finish(std::move(outputs));
}

}  // namespace

MicroBatched find_micro_batched(const MappedGraph& mapped) {
  MicroBatched out;
  for (auto id : mapped.pcg.ids()) {
    if (const auto cut = find_split(mapped, id)) out.emplace(mapped.pcg.node(id).name, *cut);
  }
  return out;
}

MicroBatched find_micro_batched(const graph::Graph& graph) {
  MicroBatched out;
  for (auto id : graph.ids()) {
    const auto& op = graph.node(id).op;
    if (!op.is(ops::kPipeline)) continue;
    const auto& source = graph.node(graph.inputs(id)[0]);
    if (source.op.role() == ops::Role::kSource) out.emplace(source.name, op.get<MicroBatches>());
  }
  return out;
}

MappedGraph add_pipeline_nodes(const MappedGraph& mapped) {
  Rewriter out(mapped);
  for (auto id : mapped.pcg.ids()) {
    const auto cut = find_split(mapped, id);
    if (!cut) {
      out.copy_node(id);
      continue;
    }
    const auto& node = mapped.pcg.node(id);
    auto layout = mapped.layouts[id.index()];
    layout.set(0, DigitRole::kIdle);
    const auto source = out.add(ops::with_shape(node.op, undo_split(node.type.shape, *cut)), {},
                                node.name, id, layout);
    out.image(id) = out.add(ops::make_op(ops::kPipeline, *cut), std::span(&source, 1),
                            make_unused_name(node.name + ".pipeline", mapped.pcg), id,
                            mapped.layouts[id.index()]);
  }
  return out.finish();
}

MappedGraph remove_pipeline_nodes(const MappedGraph& written) {
  const auto& pcg = written.pcg;
  std::vector<std::optional<NodeId>> cut_by(pcg.size());
  for (auto id : pcg.ids()) {
    if (pcg.node(id).op.is(ops::kBatch))
      refuse(pcg.node(id), "is a batch node, which plans must not have: their layouts imply it");
    if (!pcg.node(id).op.is(ops::kPipeline)) continue;
    auto& by = cut_by[find_split_source(written, id).index()];
    if (by) refuse(pcg.node(id), fmt::format("splits the same tensor as %{}", pcg.node(*by).name));
    by = id;
  }
  Rewriter out(written);
  for (auto id : pcg.ids()) {
    const auto& node = pcg.node(id);
    for (auto i : pcg.inputs(id)) {
      if (cut_by[i.index()] && *cut_by[i.index()] != id) {
        refuse(node,
               fmt::format("reads %{} before it is split into micro-batches", pcg.node(i).name));
      }
    }
    if (node.op.is(ops::kPipeline)) {
      out.image(id) = out.image(pcg.inputs(id)[0]);
    } else if (const auto by = cut_by[id.index()]) {
      out.image(id) = out.add(ops::with_shape(node.op, pcg.node(*by).type.shape), {}, node.name, id,
                              written.layouts[by->index()]);
    } else if (find_split(written, id)) {
      refuse(node, "is read by micro-batch, but has no pipeline node");
    } else {
      out.copy_node(id);
    }
  }
  for (auto o : pcg.outputs()) {
    if (cut_by[o.index()]) refuse(pcg.node(o), "is returned before it is split into micro-batches");
  }
  return out.finish();
}

rewrite::Derivation make_pipeline_steps(const graph::Graph& model, const MicroBatched& cut) {
  rewrite::Derivation out;
  std::set<Hash> done;
  auto now = model;
  for (const auto& [name, how] : cut) {
    const auto hashes = graph::hash_nodes(now, graph::HashKind::kIdentity);
    const auto ids = now.ids();
    const auto at = std::ranges::find_if(
        ids, [&, &name = name](NodeId id) { return now.node(id).name == name; });
    CHECK(at != ids.end(), name);
    const auto place = hashes[(*at).index()];
    if (!done.insert(place).second) continue;
    auto next = insert_pair(now, place, how);
    out.push_back({std::string(kStep),
                   {place},
                   {how.dim, how.count},
                   now.identity_hash(),
                   next.identity_hash()});
    now = std::move(next);
  }
  return out;
}

bool is_pipeline_step(const rewrite::DerivationStep& step) { return step.rule == kStep; }

const std::string& pipeline_rule() {
  static const std::string text = [] {
    const auto& rules = rewrite::shipped_rules();
    const auto at =
        std::ranges::find_if(rules, [](const auto& known) { return known.rule.name == kRule; });
    CHECK(at != rules.end());
    return rewrite::to_text(at->rule);
  }();
  return text;
}

}  // namespace tandem::plan
