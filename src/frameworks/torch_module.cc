#include "frameworks/torch_module.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "frameworks/degrees.h"
#include "frameworks/module_form.h"
#include "ops/registry.h"
#include "report/tensor_names.h"

namespace tandem::frameworks {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Layout;

[[noreturn]] void refuse(const std::string& where, const std::string& message,
                         const std::string& hint = "") {
  throw UserError("torch", where, message, hint);
}

// Reader of a tensor: an operator, the number of its operand, and the layout there.
struct ReadingOperator {
  NodeId id;
  std::size_t operand = 0;
  Layout layout;
};

class TorchReading {
 public:
  TorchReading(const plan::Plan& plan, const machine::Machine& machine)
      : plan_(plan),
        machine_(machine),
        pcg_(plan.mapped.pcg),
        digits_(make_digits(plan, machine)),
        consumers_(pcg_.consumers()) {}

  TorchModule run() {
    check_not_rewritten(plan_, "torch");
    check_schedule();
    check_placements();
    out_.mesh = make_mesh(plan_.mapped, digits_);
    out_.numbering = make_numbering(out_.mesh, digits_);
    for (auto id : pcg_.ids()) add(id);
    return std::move(out_);
  }

 private:
  [[nodiscard]] const Layout& layout(NodeId id) const { return plan_.mapped.layouts[id.index()]; }

  void check_schedule() const {
    const auto& schedule = plan_.mapped.schedule;
    if (schedule.stages > 1) {
      refuse(
          plan_.strategy,
          fmt::format("has {} pipeline stages, which `--to torch` does not support",
                      schedule.stages),
          "use `--to megatron` or `--to torchtitan`, or plan without a pipeline: `tandem plan ... "
          "--no-pipeline`");
    }
  }

  void check_placements() const {
    for (auto id : list_tensors(pcg_)) {
      const auto& node = pcg_.node(report::find_origin(pcg_, id));
      if (is_join(node)) {
        refuse(
            "%" + node.name,
            "is computed on several parts of the devices, but a DTensor must be on its whole mesh");
      }
      if ((layout(id).idle() & digits_.space()) != 0) {
        refuse("%" + node.name, fmt::format("is {}, but a DTensor must be on its whole mesh",
                                            describe_layout(layout(id), machine_, digits_)));
      }
    }
  }

  void add(NodeId id) {
    const auto& node = pcg_.node(id);
    const bool recomputed = plan_.mapped.recompute[id.index()];
    if (is_weight(node)) {
      add_weight(id);
    } else if (is_parallel(node)) {
      out_.regather =
          out_.regather || (recomputed && is_weight(pcg_.node(report::find_origin(pcg_, id))));
    } else if (node.op.role() == ops::Role::kCompute) {
      if (recomputed) out_.recomputed.push_back(node.name);
      if (out_.mesh.planned.empty()) return;
      check_operator(id);
      if (is_layer(node)) add_layer(id);
    }
  }

  // Returns the first reader of `id`. The others read what DTensor derives from its layout.
  [[nodiscard]] std::optional<ReadingOperator> find_first_reader(NodeId id) const {
    std::optional<ReadingOperator> out;
    for (auto user : consumers_[id.index()]) {
      std::optional<ReadingOperator> here;
      if (is_parallel(pcg_.node(user))) {
        here = find_first_reader(user);
      } else {
        const auto inputs = pcg_.inputs(user);
        const auto operand = std::ranges::find(inputs, id) - inputs.begin();
        here = ReadingOperator{user, static_cast<std::size_t>(operand), layout(id)};
      }
      if (here && (!out || here->id < out->id)) out = here;
    }
    return out;
  }

  // Returns the placements of `layout`; `dims` maps its dimensions to those of PyTorch.
  [[nodiscard]] Placements to_placements(const std::string& name, const Layout& layout,
                                         const DimMap& dims) const {
    Placements out;
    for (const auto& dim : out_.mesh.planned) {
      std::size_t digit = 0;
      while (!machine::has_digit(dim.digits, digit)) ++digit;
      const auto role = layout[digit];
      if (role == DigitRole::kReplica) {
        out.emplace_back("Replicate()");
      } else if (role == DigitRole::kPartial) {
        out.emplace_back("Partial()");
      } else if (dims[role.dim()]) {
        out.push_back(fmt::format("Shard({})", *dims[role.dim()]));
      } else {
        refuse(
            "%" + name,
            fmt::format("is sharded inside of attention heads ({}), but layers of PyTorch can only "
                        "be sharded into whole heads",
                        describe_layout(layout, machine_, digits_)));
      }
    }
    return out;
  }

  void add_weight(NodeId id) {
    const auto& node = pcg_.node(id);
    const auto reader = find_first_reader(id);
    if (!reader) return;
    const auto form = make_module_form(pcg_, reader->id, reader->operand);
    out_.weights.push_back({.name = node.name,
                            .shape = form.weight,
                            .stored = to_placements(node.name, layout(id), form.weight_dims),
                            .used = to_placements(node.name, reader->layout, form.weight_dims)});
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (machine::has_digit(out_.mesh.shard.digits, i) && !layout(id)[i].is_dim()) {
        out_.whole.push_back(node.name);
        break;
      }
    }
  }

  static bool is_layer(const graph::Node& node) {
    return node.op.is(ops::kLinear) || node.op.is(ops::kContract) || node.op.is(ops::kEmbedding) ||
           node.op.is(ops::kLayerNorm) || node.op.is(ops::kRmsNorm);
  }

  // Returns the number of the operand that is a weight, or nullopt if none is.
  [[nodiscard]] std::optional<std::size_t> find_weight_operand(NodeId id) const {
    const auto inputs = pcg_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (is_weight(pcg_.node(report::find_origin(pcg_, inputs[i])))) return i;
    }
    return std::nullopt;
  }

  void check_operator(NodeId id) const {
    const auto& node = pcg_.node(id);
    if (node.op.is(ops::kEmbeddingBag) || node.op.is(ops::kEmbeddingBags)) {
      refuse("%" + node.name,
             fmt::format("uses the operator {}, for which DTensor has no sharding rule",
                         node.op.name()),
             "plan with data parallelism only: `tandem plan ... --dims data`");
    }
    if (node.op.is(ops::kMoeDispatch) || node.op.is(ops::kMoeCombine)) {
      refuse("%" + node.name,
             "dispatches tokens to experts, for which PyTorch has no standard module",
             "plan with data parallelism only: `tandem plan ... --dims data`");
    }
    const bool has_windows =
        node.op.is(ops::kConv2d) || node.op.is(ops::kMaxPool2d) || node.op.is(ops::kAvgPool2d);
    for (std::size_t i = 0; has_windows && i < digits_.count(); ++i) {
      const auto role = layout(pcg_.inputs(id)[0])[i];
      if (!role.is_dim() || role.dim() < 2) continue;
      refuse("%" + node.name,
             fmt::format("shards rows or columns of images ({}), but DTensor has no halo exchange",
                         describe_layout(layout(pcg_.inputs(id)[0]), machine_, digits_)),
             "plan without it: `tandem plan ... --dims data,model`");
    }
  }

  void add_layer(NodeId id) {
    const auto operand = find_weight_operand(id);
    const auto inputs = pcg_.inputs(id);
    if (!operand || inputs.size() < 2) return;
    const auto& name = pcg_.node(id).name;
    const auto form = make_module_form(pcg_, id, *operand);
    const auto activation = inputs[*operand == 0 ? 1 : 0];
    const auto weight = report::find_origin(pcg_, inputs[*operand]);
    const auto reader = find_first_reader(id);
    const auto& wanted = reader ? reader->layout : layout(id);
    out_.layers.push_back(
        {.name = name,
         .weight = find_first_reader(weight)->id == id ? pcg_.node(weight).name : "",
         .reads = to_placements(name, layout(activation), form.input_dims),
         .gives = to_placements(name, wanted, form.output_dims)});
  }

  const plan::Plan& plan_;
  const machine::Machine& machine_;
  const graph::Graph& pcg_;
  machine::Digits digits_;
  std::vector<std::vector<NodeId>> consumers_;
  TorchModule out_;
};

}  // namespace

TorchModule make_torch_module(const plan::Plan& plan, const machine::Machine& machine) {
  return TorchReading(plan, machine).run();
}

}  // namespace tandem::frameworks
