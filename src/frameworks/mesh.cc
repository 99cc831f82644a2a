#include "frameworks/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "machine/node_layout.h"
#include "strategies/factor_kinds.h"

namespace tandem::frameworks {

namespace {

using graph::NodeId;
using machine::bit;
using machine::DigitMask;
using machine::DigitRole;
using machine::Digits;
using machine::has_digit;

class MeshReading {
 public:
  MeshReading(const plan::MappedGraph& mapped, const Digits& digits)
      : mapped_(mapped), pcg_(mapped.pcg), digits_(digits), tensors_(list_tensors(mapped.pcg)) {}

  Mesh run() const {
    Mesh out;
    const auto data = find_batch_digits();
    const auto shared = data & find_sharding_digits();
    out.replicate.digits = data & ~shared;
    out.shard.digits = shared;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (has_digit(digits_.time() | data, i)) continue;
      if (out.planned.empty() || !have_same_roles(out.planned.back().digits, i)) {
        out.planned.emplace_back();
      }
      out.planned.back().digits |= bit(i);
    }
    name_and_count(out);
    return out;
  }

 private:
  [[nodiscard]] const machine::Layout& layout(NodeId id) const {
    return mapped_.layouts[id.index()];
  }

  // Returns the digits along which every operator that depends on the input is split along the
  // batch. Sums over the batch, as in a loss, are then partial sums or computed from them.
  [[nodiscard]] DigitMask find_batch_digits() const {
    auto out = digits_.space();
    const auto analyzed = strategies::analyze(pcg_);
    std::vector<bool> depends(pcg_.size());
    for (auto id : pcg_.ids()) {
      const auto& node = pcg_.node(id);
      const auto inputs = pcg_.inputs(id);
      depends[id.index()] = is_input(node) || std::ranges::any_of(inputs, [&](NodeId input) {
                              return depends[input.index()];
                            });
      if (node.op.role() != ops::Role::kCompute || !depends[id.index()]) continue;
      const auto batch = analyzed[id.index()].batch();
      if (!batch) continue;
      std::vector<machine::Layout> layouts;
      layouts.reserve(inputs.size());
      for (auto input : inputs) layouts.push_back(layout(input));
      const auto& signature = analyzed[id.index()].signature;
      const auto how = infer_node_layout(signature, layouts, digits_);
      CHECK(how.has_value(), node.name);
      for (std::size_t i = 0; i < digits_.count(); ++i) {
        if (how->uses[i] != machine::DigitUse::factor(*batch)) out &= ~bit(i);
      }
    }
    return out;
  }

  // Returns the digits along which weights are sharded.
  [[nodiscard]] DigitMask find_sharding_digits() const {
    DigitMask out = 0;
    for (auto id : pcg_.ids()) {
      if (!is_weight(pcg_.node(id))) continue;
      for (std::size_t i = 0; i < digits_.count(); ++i) {
        if (layout(id)[i].is_dim()) out |= bit(i);
      }
    }
    return out;
  }

  // Returns whether digit `i` and the digits of `mask` have the same role for every tensor. Digits
  // between them must be no part of DTensors.
  [[nodiscard]] bool have_same_roles(DigitMask mask, std::size_t i) const {
    std::size_t first = 0;
    while (!has_digit(mask, first)) ++first;
    return std::ranges::all_of(pcg_.ids(),
                               [&](NodeId id) { return layout(id)[i] == layout(id)[first]; });
  }

  void name_and_count(Mesh& mesh) const {
    mesh.replicate.size = digits_.group_size(mesh.replicate.digits);
    mesh.shard.size = digits_.group_size(mesh.shard.digits);
    for (std::size_t d = 0; d < mesh.planned.size(); ++d) {
      mesh.planned[d].name = mesh.planned.size() == 1 ? "tensor" : fmt::format("tensor{}", d);
      mesh.planned[d].size = digits_.group_size(mesh.planned[d].digits);
    }
  }

  const plan::MappedGraph& mapped_;
  const graph::Graph& pcg_;
  const Digits& digits_;
  std::vector<NodeId> tensors_;
};

}  // namespace

std::vector<MeshDim> Mesh::dims() const {
  std::vector<MeshDim> out;
  if (has_data()) out = {replicate, shard};
  out.insert(out.end(), planned.begin(), planned.end());
  return out;
}

std::vector<NodeId> list_tensors(const graph::Graph& pcg) {
  const auto consumers = pcg.consumers();
  std::vector<NodeId> out;
  for (auto id : pcg.ids()) {
    const bool is_read = std::ranges::any_of(consumers[id.index()], [&](NodeId user) {
      return pcg.node(user).op.role() == ops::Role::kCompute && !is_parallel(pcg.node(user));
    });
    if (is_read || !is_parallel(pcg.node(id))) out.push_back(id);
  }
  return out;
}

Mesh make_mesh(const plan::MappedGraph& mapped, const Digits& digits) {
  return MeshReading(mapped, digits).run();
}

Numbering make_numbering(const Mesh& mesh, const Digits& digits) {
  const auto dims = mesh.dims();
  const auto dim_of = [&](std::size_t digit) {
    std::size_t d = 0;
    while (!has_digit(dims[d].digits, digit)) ++d;
    return d;
  };
  Numbering out;
  std::vector<std::size_t> dim_of_run;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (has_digit(digits.time(), i)) continue;
    if (!dim_of_run.empty() && dim_of_run.back() == dim_of(i)) {
      out.sizes.back() *= digits[i].size;
    } else {
      dim_of_run.push_back(dim_of(i));
      out.sizes.push_back(digits[i].size);
    }
  }
  for (std::size_t run = 0; run < dim_of_run.size(); ++run) out.order.push_back(run);
  std::ranges::stable_sort(out.order, {}, [&](std::size_t run) { return dim_of_run[run]; });
  return out;
}

}  // namespace tandem::frameworks
