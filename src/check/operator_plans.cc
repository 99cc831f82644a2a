#include "check/operator_plans.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::check {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Layout;

// Returns one letter per dimension: 3 -> "a b c ".
std::string make_index_letters(std::size_t rank) {
  std::string out;
  for (std::size_t d = 0; d < rank; ++d) out += fmt::format("{} ", static_cast<char>('a' + d));
  return out;
}

class PartBuilder {
 public:
  PartBuilder(const plan::MappedGraph& whole, const machine::Digits& digits)
      : whole_(whole), digits_(digits), builder_(whole.pcg.name()) {}

  plan::MappedGraph build(NodeId id) {
    const auto result = copy(id);
    const auto loss = builder_.node(result).type.shape.rank() == 0 ? result : add_loss(id, result);
    out_.pcg = builder_.finish({loss});
    out_.schedule = whole_.schedule;
    return std::move(out_);
  }

 private:
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs, const std::string& name,
             const Layout& layout, NodeId origin) {
    out_.layouts.push_back(layout);
    out_.stage.push_back(whole_.stage[origin.index()]);
    out_.recompute.push_back(whole_.recompute[origin.index()]);
    return builder_.add(op, inputs, name);
  }

  NodeId copy(NodeId id) {
    std::vector<NodeId> inputs;
    for (auto i : whole_.pcg.inputs(id)) inputs.push_back(add_operand(i));
    const auto& node = whole_.pcg.node(id);
    return add(node.op, inputs, node.name, whole_.layouts[id.index()], id);
  }

  NodeId add_operand(NodeId id) {
    const auto at = image_.find(id);
    if (at != image_.end()) return at->second;
    const bool alone = whole_.pcg.node(id).op.role() == ops::Role::kCompute;
    const auto made = alone ? add_stand_in(id) : copy(id);
    return image_[id] = made;
  }

  NodeId add_source(const ops::OpSpec& spec, const std::string& name, const Shape& sizes,
                    const Layout& layout, NodeId origin) {
    const auto dtype = whole_.pcg.node(origin).type.dtype;
    const auto shape = compute_parallel_shape(layout, sizes, digits_);
    CHECK(shape.has_value(), name, to_text(layout));
    const auto below = is_integer(dtype) ? 2 : 0;
    const auto op = &spec == &ops::kWeight ? ops::make_op(spec, ops::Weight{*shape, dtype})
                                           : ops::make_op(spec, ops::Input{*shape, dtype, below});
    return add(op, {}, name, layout, origin);
  }

  // Adds sum_j x[..., j] * w[j], where j has one element for each of the tensor's partial sums.
  NodeId add_stand_in(NodeId id) {
    const auto& node = whole_.pcg.node(id);
    const auto& layout = whole_.layouts[id.index()];
    const auto rank = node.type.shape.rank();
    if (is_integer(node.type.dtype)) {
      return add_source(ops::kInput, node.name, node.type.shape.sizes, layout, id);
    }
    auto sizes = node.type.shape.sizes;
    sizes.push_back(digits_.group_size(layout.digits(DigitRole::kPartial)));
    Layout x = layout;
    Layout w = layout;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (layout[i] == DigitRole::kPartial) {
        x.set(i, DigitRole::dim(rank));
        w.set(i, DigitRole::dim(0));
      } else if (layout[i].is_dim()) {
        w.set(i, DigitRole::kReplica);
      }
    }
    const std::array operands = {
        add_source(ops::kInput, node.name + ".x", sizes, x, id),
        add_source(ops::kWeight, node.name + ".w", Shape{sizes[rank]}, w, id)};
    const auto index = fmt::format("{0}j, j -> {0}", make_index_letters(rank));
    return add(ops::make_op(ops::kContract, ops::Contract{index}), operands, node.name, layout, id);
  }

  NodeId add_loss(NodeId id, NodeId result) {
    const auto& node = whole_.pcg.node(id);
    const auto& layout = whole_.layouts[id.index()];
    Layout whole = layout;
    Layout loss = layout;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (layout[i] == DigitRole::kPartial) whole.set(i, DigitRole::kReplica);
      if (layout[i].is_dim()) loss.set(i, DigitRole::kPartial);
    }
    const std::array operands = {
        result, add_source(ops::kInput, node.name + ".probe", node.type.shape.sizes, whole, id)};
    const auto all = make_index_letters(node.type.shape.rank());
    const auto index = fmt::format("{0}, {0} ->", all.substr(0, all.size() - 1));
    return add(ops::make_op(ops::kContract, ops::Contract{index}), operands, node.name + ".loss",
               loss, id);
  }

  const plan::MappedGraph& whole_;
  const machine::Digits& digits_;
  graph::GraphBuilder builder_;
  plan::MappedGraph out_;
  std::map<NodeId, NodeId> image_;
};

}  // namespace

std::vector<OperatorPlan> split_into_operators(const plan::MappedGraph& mapped,
                                               const machine::Digits& digits) {
  std::vector<OperatorPlan> out;
  std::set<std::string> known;
  for (auto id : mapped.pcg.ids()) {
    const auto& node = mapped.pcg.node(id);
    if (node.op.role() != ops::Role::kCompute || is_integer(node.type.dtype)) continue;
    auto part = PartBuilder(mapped, digits).build(id);
    if (known.insert(to_text_without_names(part)).second)
      out.push_back({node.name, std::move(part)});
  }
  return out;
}

std::string to_text_without_names(const plan::MappedGraph& mapped) {
  std::string out;
  for (auto id : mapped.pcg.ids()) {
    const auto& op = mapped.pcg.node(id).op;
    out += fmt::format("{} {} {} {} {}:", op.name(), op.attribute_text(),
                       to_text(mapped.layouts[id.index()]), mapped.stage[id.index()],
                       mapped.recompute[id.index()] ? 1 : 0);
    for (auto i : mapped.pcg.inputs(id)) out += fmt::format(" {}", i.value);
    out += "\n";
  }
  return out;
}

}  // namespace tandem::check
