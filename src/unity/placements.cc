#include "unity/placements.h"

#include <algorithm>

#include "base/error.h"

namespace tandem::unity {

namespace {

using machine::DigitRole;
using machine::DigitUse;
using machine::Layout;
using machine::NodeLayout;
using predict::CostModel;

// Longer lists of placements retain one of those that only exchange equivalent digits.
constexpr std::size_t kAllPlacements = 12;

TensorType to_unsharded_type(const TensorType& type) {
  return {ParallelShape(type.shape.sizes), type.dtype, type.density};
}

Hash compute_hash(const Operator& op) {
  Hash h = hash_combine(op.op.hash(), hash_type(op.result));
  for (const auto& type : op.operands) h = hash_combine(h, hash_type(type));
  return hash_combine(hash_combine(h, op.differentiated), op.trained);
}

// Assigns digits to the axes of a grid, one after another. The sizes of an axis's digits multiply
// to its degree.
template <class Use>
class DigitAssignment {
 public:
  struct TaskGridAxis {
    Use use;
    std::int64_t left = 1;  // rest of its degree
  };

  DigitAssignment(const machine::Digits& digits, const Region& region,
                  std::vector<TaskGridAxis> axes)
      : digits_(digits), region_(region), axes_(std::move(axes)) {}

  // Calls done(uses) for each assignment. may(axis, uses so far, digit) returns whether the axis
  // may have the digit.
  template <class May, class Done>
  void run(std::vector<Use> idle, May&& may, Done&& done) {
    uses_ = std::move(idle);
    assign_from(0, may, done);
  }

 private:
  template <class May, class Done>
  void assign_from(std::size_t i, May& may, Done& done) {
    if (i == digits_.count()) {
      if (std::ranges::all_of(axes_, [](const TaskGridAxis& a) { return a.left == 1; }))
        done(uses_);
      return;
    }
    if (region_.is_free(i)) {
      const auto idle = uses_[i];
      for (auto& axis : axes_) {
        if (axis.left % digits_[i].size != 0 || axis.left == 1 || !may(axis.use, uses_, i))
          continue;
        axis.left /= digits_[i].size;
        uses_[i] = axis.use;
        assign_from(i + 1, may, done);
        axis.left *= digits_[i].size;
      }
      uses_[i] = idle;
    }
    assign_from(i + 1, may, done);
  }

  const machine::Digits& digits_;
  const Region& region_;
  std::vector<TaskGridAxis> axes_;
  std::vector<Use> uses_;
};

// Returns whether equivalent digits are in the order of the axes, with idle ones last.
template <class Use, class Axes>
bool is_ordered(const std::vector<Use>& uses, const Axes& axes, const machine::Digits& digits,
                const Region& region) {
  const auto rank = [&](const Use& use) {
    return std::ranges::find_if(axes, [&](const auto& a) { return a.use == use; }) - axes.begin();
  };
  for (std::size_t i = 0; i + 1 < digits.count(); ++i) {
    const auto& a = digits[i];
    const auto& b = digits[i + 1];
    if (!region.is_free(i) || !region.is_free(i + 1) || a.level != b.level || a.size != b.size)
      continue;
    if (rank(uses[i]) > rank(uses[i + 1])) return false;
  }
  return true;
}

template <class Use, class Axes>
void drop_equivalent_uses(std::vector<std::vector<Use>>& all, const Axes& axes,
                          const machine::Digits& digits, const Region& region) {
  if (all.size() <= kAllPlacements) return;
  std::erase_if(all, [&](const auto& uses) { return !is_ordered(uses, axes, digits, region); });
}

}  // namespace

KindId Placements::find_or_add_kind(const Operator& op) {
  auto& known = by_hash_[compute_hash(op)];
  for (auto id : known) {
    if (!kinds_[id].is_tensor && kinds_[id].op == op) return id;
  }
  VertexKind kind;
  kind.op = op;
  kind.whole_result = to_unsharded_type(op.result);
  std::vector<Shape> sizes;
  std::vector<ParallelShape> shapes;
  for (const auto& type : op.operands) {
    kind.whole.push_back(to_unsharded_type(type));
    sizes.push_back(type.shape.sizes);
    shapes.push_back(type.shape);
  }
  kind.signature = &ops::get_signature(op.op, sizes);
  try {
    kind.grid = ops::infer_grid(*kind.signature, shapes);
  } catch (const UserError&) {
    kind.grid.reset();
  }
  known.push_back(static_cast<KindId>(kinds_.size()));
  kinds_.push_back(std::move(kind));
  return known.back();
}

KindId Placements::find_or_add_tensor_kind(const TensorType& type) {
  auto& known = by_hash_[hash_combine(hash_type(type), hash_text("tensor"))];
  for (auto id : known) {
    if (kinds_[id].is_tensor && kinds_[id].op.result == type) return id;
  }
  VertexKind kind;
  kind.is_tensor = true;
  kind.whole_result = to_unsharded_type(type);
  kind.op.result = type;
  known.push_back(static_cast<KindId>(kinds_.size()));
  kinds_.push_back(std::move(kind));
  return known.back();
}

const std::vector<Placement>& Placements::get_placements(KindId id, RegionId region) {
  const auto known = kinds_[id].placements.find(region);
  if (known != kinds_[id].placements.end()) return known->second;
  auto made = kinds_[id].is_tensor ? list_tensor_placements(kinds_[id], regions_[region])
                                   : operator_placements(kinds_[id], regions_[region]);
  return kinds_[id].placements.emplace(region, std::move(made)).first->second;
}

predict::CostModel::LayoutId Placements::intern_layout(const Layout& layout) {
  const auto id = costs_.intern_layout(layout);
  if (id >= partial_.size()) partial_.resize(id + 1);
  partial_[id] = layout.digits(DigitRole::kPartial);
  return id;
}

std::vector<Placement> Placements::operator_placements(const VertexKind& kind,
                                                       const Region& region) {
  std::vector<Placement> out;
  if (!kind.grid) return out;
  const auto& s = *kind.signature;
  std::vector<typename DigitAssignment<DigitUse>::TaskGridAxis> axes;
  for (ops::FactorId f = 0; f < kind.grid->degrees.size(); ++f) {
    if (kind.grid->degrees[f] > 1) axes.push_back({DigitUse::factor(f), kind.grid->degrees[f]});
  }
  if (kind.grid->through > 1) {
    const auto set = std::ranges::find(s.partial_inputs, kind.grid->through_inputs);
    if (set == s.partial_inputs.end()) return out;
    const auto which = static_cast<std::size_t>(set - s.partial_inputs.begin());
    axes.push_back({DigitUse::through(which), kind.grid->through});
  }
  if (kind.grid->replicas > 1) axes.push_back({DigitUse::kReplica, kind.grid->replicas});
  std::vector<DigitUse> idle(digits_.count());
  for (std::size_t i = 0; i < idle.size(); ++i) {
    idle[i] = DigitUse::idle(region.is_free(i) ? 0 : region.place[i]);
  }
  NodeLayout so_far;
  const auto may = [&](DigitUse use, const std::vector<DigitUse>& uses, std::size_t i) {
    if (!use.is_factor()) return true;
    std::ranges::copy(uses, so_far.uses.begin());
    for (std::size_t j = i; j < uses.size(); ++j) so_far.uses[j] = idle[j];
    return machine::may_cut_next(s, use.factor(), so_far, digits_, i);
  };
  std::vector<std::vector<DigitUse>> all;
  DigitAssignment<DigitUse>(digits_, region, axes).run(idle, may, [&](const auto& uses) {
    all.push_back(uses);
  });
  drop_equivalent_uses(all, axes, digits_, region);
  for (const auto& uses : all) {
    Placement placement;
    std::ranges::copy(uses, placement.node.uses.begin());
    for (std::size_t i = 0; i < kind.whole.size(); ++i) {
      placement.in.push_back(
          intern_layout(compute_input_layout(s, placement.node, digits_.count(), i)));
    }
    placement.out = intern_layout(compute_output_layout(s, placement.node, digits_.count()));
    placement.seconds = cost_operator(kind, placement.node);
    out.push_back(std::move(placement));
  }
  return out;
}

std::vector<Placement> Placements::list_tensor_placements(const VertexKind& kind,
                                                          const Region& region) {
  const auto& shape = kind.op.result.shape;
  std::vector<typename DigitAssignment<DigitRole>::TaskGridAxis> axes;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape.degrees[d] > 1) axes.push_back({DigitRole::dim(d), shape.degrees[d]});
  }
  if (shape.replicas > 1) axes.push_back({DigitRole::kReplica, shape.replicas});
  if (shape.partial > 1) axes.push_back({DigitRole::kPartial, shape.partial});
  std::vector<DigitRole> idle(digits_.count());
  for (std::size_t i = 0; i < idle.size(); ++i) {
    idle[i] = DigitRole::idle(region.is_free(i) ? 0 : region.place[i]);
  }
  std::vector<std::vector<DigitRole>> all;
  const auto may = [](DigitRole, const std::vector<DigitRole>&, std::size_t) { return true; };
  DigitAssignment<DigitRole>(digits_, region, axes).run(idle, may, [&](const auto& roles) {
    all.push_back(roles);
  });
  drop_equivalent_uses(all, axes, digits_, region);
  std::vector<Placement> out;
  for (const auto& roles : all) {
    Layout layout(digits_.count(), DigitRole::kIdle);
    for (std::size_t i = 0; i < roles.size(); ++i) layout.set(i, roles[i]);
    const auto id = intern_layout(layout);
    out.push_back({.node = {}, .in = {id}, .out = id});
  }
  return out;
}

double Placements::cost_operator(const VertexKind& kind, const NodeLayout& layout) {
  const auto& s = *kind.signature;
  const auto& op = kind.op;
  auto cost =
      costs_.operator_cost(op.op, s, kind.whole, kind.whole_result, layout, op.differentiated);
  predict::Cost weights;
  for (std::size_t i = 0; i < kind.whole.size(); ++i) {
    const auto read = compute_input_layout(s, layout, digits_.count(), i);
    const auto has = [&](ops::InputMask mask) { return ((mask >> i) & 1U) != 0; };
    cost += costs_.halo_cost(kind.whole[i], s, i, read, has(op.differentiated));
    if (!has(op.trained)) continue;
    std::optional<Shape> looked_up;
    if (op.op.spec().row_sparse_operand == i) {
      looked_up = compute_parallel_shape(compute_input_layout(s, layout, digits_.count(), 0),
                                         kind.whole[0].shape.sizes, digits_)
                      ->shard_shape();
    }
    weights += costs_.weight_cost(kind.whole[i].shape.sizes, kind.whole[i].dtype, read,
                                  looked_up ? &*looked_up : nullptr,
                                  op.op.spec().matmul_operand == i && pass_.times == 1);
  }
  const auto total = [](const predict::Cost& c) {
    return (c.compute + c.update + c.blocking + c.async).value;
  };
  return total(cost) + total(weights) / static_cast<double>(pass_.times);
}

double Placements::cost_transfer(const TensorType& tensor, predict::CostModel::LayoutId from,
                                 predict::CostModel::LayoutId wanted, bool has_gradient) {
  // No operator of the forward pass converts a complete value to a partial sum.
  if ((partial_[wanted] & ~partial_[from]) != 0) return kImpossible;
  const auto gradient = has_gradient ? std::optional(tensor.dtype) : std::nullopt;
  return costs_.reshard_cost(tensor, from, wanted, gradient, true).blocking.value;
}

const CostTable& Placements::get_reshard_costs(KindId from, RegionId from_region, KindId to,
                                               RegionId to_region, std::size_t operand) {
  Hash key = hash_combine((Hash{from} << 32U) | to, (Hash{from_region} << 32U) | to_region);
  key = hash_combine(key, operand);
  const auto known = between_.find(key);
  if (known != between_.end()) return known->second;
  const auto& rows = get_placements(from, from_region);
  const auto& cols = get_placements(to, to_region);
  const auto& target = kinds_[to];
  const bool has_gradient = target.is_tensor || ((target.op.differentiated >> operand) & 1U) != 0;
  CostTable table{rows.size(), cols.size(), {}};
  table.seconds.reserve(rows.size() * cols.size());
  for (const auto& row : rows) {
    for (const auto& col : cols) {
      table.seconds.push_back(
          cost_transfer(kinds_[from].whole_result, row.out, col.in[operand], has_gradient));
    }
  }
  return between_.emplace(key, std::move(table)).first->second;
}

}  // namespace tandem::unity
