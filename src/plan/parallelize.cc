#include "plan/parallelize.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "machine/reshard.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "ops/sources.h"

namespace tandem::plan {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Digits;
using machine::Layout;
using machine::ReshardStep;
using machine::Step;

class Parallelizer {
 public:
  Parallelizer(const graph::Graph& model, const Digits& digits, const std::vector<Choice>& choices)
      : model_(model), digits_(digits), choices_(choices), builder_(model.name()) {}

  MappedGraph run(const Schedule& schedule) {
    image_.resize(model_.size());
    for (auto id : model_.ids()) {
      const auto& node = model_.node(id);
      image_[id.index()] = node.op.role() == ops::Role::kSource ? add_source(id) : add_operator(id);
    }
    std::vector<NodeId> outputs;
    for (auto o : model_.outputs()) outputs.push_back(image_[o.index()]);
    out_.pcg = builder_.finish(std::move(outputs));
    out_.schedule = schedule;
    return std::move(out_);
  }

 private:
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs, const std::string& name,
             const Layout& layout, std::uint16_t stage, bool recompute) {
    out_.layouts.push_back(layout);
    out_.stage.push_back(stage);
    out_.recompute.push_back(recompute);
    regather_.push_back(false);
    return builder_.add(op, inputs, name);
  }

  NodeId add_source(NodeId id) {
    const auto& node = model_.node(id);
    const auto& choice = choices_[id.index()];
    const auto& layout = choice.source;
    const auto shape = compute_parallel_shape(layout, node.type.shape.sizes, digits_);
    CHECK(shape.has_value(), node.name, to_text(layout));
    auto& op = sources_[hash_combine(node.op.hash(), hash_type({*shape}))];
    if (!op) op = ops::with_shape(node.op, *shape);
    return add(*op, {}, node.name, layout, choice.stage, choice.recompute);
  }

  NodeId add_operator(NodeId id) {
    const auto& node = model_.node(id);
    const auto& s = get_node_signature(model_, id);
    const auto& choice = choices_[id.index()];
    const auto& uses = choice.node;
    std::vector<NodeId> inputs;
    for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
      const auto producer = image_[model_.inputs(id)[i].index()];
      inputs.push_back(
          bring(producer, compute_input_layout(s, uses, digits_.count(), i), choice.stage));
    }
    const auto made =
        add(node.op, inputs, node.name, compute_output_layout(s, uses, digits_.count()),
            choice.stage, choice.recompute);
    regather_[made.index()] = choice.regather;
    return made;
  }

  // Returns `producer`'s tensor in the layout `wanted`, after new parallelization operators if
  // necessary.
  NodeId bring(NodeId producer, const Layout& wanted, std::uint16_t stage) {
    const Layout has = out_.layouts[producer.index()];
    if (has == wanted) return producer;
    const auto [at, fresh] = brought_.try_emplace({producer, wanted});
    if (!fresh) return at->second;
    NodeId now = producer;
    stage_ = out_.stage[producer.index()];
    const auto steps = reshard(has, wanted);
    const auto gathers = [](const ReshardStep& step) { return step.kind == Step::kAllGather; };
    recompute_ = out_.recompute[producer.index()] ||
                 (regather_[producer.index()] && std::ranges::all_of(steps, gathers));
    for (const auto& step : steps) {
      if (step.kind == Step::kSend) stage_ = stage;
      now = add_step(now, step);
    }
    return at->second = now;
  }

  // Adds the pair of parallelization operators for one reshard step. Between them, the step's
  // digits are idle.
  NodeId add_step(NodeId now, const ReshardStep& step) {
    const auto degree = digits_.group_size(step.digits);
    const auto first = static_cast<std::size_t>(std::countr_zero(step.digits));
    const auto from = step.before[first];
    const auto to = step.after[first];
    CHECK(to != DigitRole::kPartial, to_text(step.before), to_text(step.after));
    Layout between = step.before;
    for (std::size_t i = 0; i < between.count(); ++i) {
      if (((step.digits >> i) & 1U) == 0) continue;
      between.set(i, step.after[i].is_idle() ? step.after[i] : DigitRole::kIdle);
    }
    if (from.is_dim()) {
      now = add_parallel(make_dim_op(ops::kCombine, from, degree), now, between);
    } else if (from == DigitRole::kPartial) {
      now = add_parallel(make_degree_op(ops::kReduce, degree), now, between);
    } else if (from == DigitRole::kReplica) {
      now = add_parallel(make_degree_op(ops::kUnreplicate, degree), now, between);
    }
    if (to.is_dim()) {
      now = add_parallel(make_dim_op(ops::kPartition, to, degree), now, step.after);
    } else if (from.is_idle() && to.is_idle()) {
      now = add_parallel(ops::make_op(ops::kSend, ops::NoAttributes{}), now, step.after);
    } else if (to == DigitRole::kReplica) {
      now = add_parallel(make_degree_op(ops::kReplicate, degree), now, step.after);
    }
    return now;
  }

  ops::Op make_dim_op(const ops::OpSpec& spec, DigitRole role, std::int64_t degree) {
    const auto dim = static_cast<std::int64_t>(role.dim());
    auto& op = parallel_[{&spec, dim, degree}];
    if (!op) op = ops::make_op(spec, ops::DimDegree{dim, degree});
    return *op;
  }
  ops::Op make_degree_op(const ops::OpSpec& spec, std::int64_t degree) {
    auto& op = parallel_[{&spec, -1, degree}];
    if (!op) op = ops::make_op(spec, ops::Degree{degree});
    return *op;
  }

  NodeId add_parallel(const ops::Op& op, NodeId input, const Layout& layout) {
    return add(op, std::span(&input, 1), "", layout, stage_, recompute_);
  }

  const graph::Graph& model_;
  const Digits& digits_;
  const std::vector<Choice>& choices_;
  graph::GraphBuilder builder_;
  MappedGraph out_;
  std::uint16_t stage_ = 0;  // stage of the parallelization operators that are being added
  bool recompute_ = false;
  std::vector<bool> regather_;  // by node of the PCG, from its choice
  std::vector<NodeId> image_;
  std::map<std::pair<NodeId, Layout>, NodeId> brought_;
  // Cached operators, by their attributes, because interning one prints it.
  std::unordered_map<Hash, std::optional<ops::Op>> sources_;
  std::map<std::tuple<const ops::OpSpec*, std::int64_t, std::int64_t>, std::optional<ops::Op>>
      parallel_;
};

}  // namespace

MappedGraph parallelize(const graph::Graph& model, const Digits& digits,
                        const std::vector<Choice>& choices, const Schedule& schedule) {
  return Parallelizer(model, digits, choices).run(schedule);
}

}  // namespace tandem::plan
