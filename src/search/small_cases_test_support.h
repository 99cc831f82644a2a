// For tests: random small graphs and machines, small enough to enumerate all plans.
#pragma once

#include <random>
#include <utility>

#include "graph/text.h"
#include "machine/machine.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::search {

using graph::Graph;
using graph::NodeId;

// Makes a random graph of few operators on existing tensors. There are chains, forks, joins and
// graphs that are not series-parallel. Weights have one user or several, and graphs have one output
// or more.
class SmallGraph {
 public:
  enum class Ends { kLoss, kAnyhow };

  SmallGraph(std::uint64_t seed, std::size_t operators, Ends ends = Ends::kAnyhow)
      : random_(seed),
        operators_(operators),
        ends_(ends),
        builder_("small_" + std::to_string(seed)) {}

  Graph build() {
    const auto kind = draw(8);
    batch_ = pick({12, 48, 768});
    width_ = pick({12, 96, 768});
    if (kind == 0) {
      pool_.push_back(builder_.input("image", {batch_, width_, 12, 24}, DType::kFp32));
    } else if (kind < 4) {
      pool_.push_back(builder_.input("x", {batch_, 24, width_}, DType::kFp32));
    } else {
      pool_.push_back(builder_.input("x", {batch_, width_}, DType::kFp32));
    }
    if (chance(0.3)) add_twin_input();
    if (operators_ > 4 && chance(0.4)) add_butterfly();
    while (operators_added_ + 1 < operators_) grow();
    finish();
    std::vector<NodeId> outputs = {pool_.back()};
    if (ends_ == Ends::kAnyhow && chance(0.2) && operators_added_ > 1)
      outputs.push_back(pool_[pool_.size() - 2]);
    return builder_.finish(std::move(outputs));
  }

 private:
  using Attributes = ops::AttributeList;

  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  std::int64_t pick(std::initializer_list<std::int64_t> of) {
    return *(of.begin() + draw(static_cast<std::int64_t>(of.size())));
  }
  bool chance(double p) { return static_cast<double>(random_() >> 11U) * 0x1p-53 < p; }

  [[nodiscard]] const Shape& sizes(NodeId id) const { return builder_.node(id).type.shape.sizes; }

  NodeId add(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs,
             const Attributes& attributes = {}) {
    ++operators_added_;
    const auto id = builder_.add(ops::parse_op(spec, attributes), inputs);
    pool_.push_back(id);
    return id;
  }

  void add_twin_input() {
    pool_.push_back(builder_.input("y", ParallelShape(sizes(pool_[0])), DType::kFp32));
  }

  // Returns an existing weight, or a new one.
  NodeId weight(const Shape& sizes_wanted) {
    for (auto w : weights_) {
      if (sizes(w) == sizes_wanted && chance(0.4)) return w;
    }
    const auto w = builder_.weight("w" + std::to_string(weights_.size()),
                                   ParallelShape(sizes_wanted), DType::kFp32);
    weights_.push_back(w);
    return w;
  }

  NodeId any() {
    const auto n = static_cast<std::int64_t>(pool_.size());
    return pool_[static_cast<std::size_t>(n - 1 - draw(std::min<std::int64_t>(n, 3)))];
  }

  // Returns another existing tensor of the same sizes, or a weight.
  NodeId twin(NodeId x) {
    std::vector<NodeId> twins;
    for (auto id : pool_) {
      if (id != x && sizes(id) == sizes(x)) twins.push_back(id);
    }
    if (!twins.empty() && chance(0.9)) {
      return twins[static_cast<std::size_t>(draw(static_cast<std::int64_t>(twins.size())))];
    }
    return chance(0.3) ? x : weight(sizes(x));
  }

  // Adds a sum and a product of two tensors, then the sum of both.
  void add_butterfly() {
    const auto x = pool_.back();
    const auto a = linear(x, "none");
    const auto b = linear(x, chance(0.5) ? "none" : "relu");
    if (sizes(a) != sizes(b)) return;
    const auto c = add(ops::kAdd, {a, b});
    const auto d = add(ops::kMul, {a, b});
    add(ops::kAdd, {c, d});
  }

  NodeId linear(NodeId x, const std::string& act) {
    const auto in = sizes(x)[sizes(x).rank() - 1];
    const auto out = chance(0.7) ? in : pick({12, 96, 1536});
    const auto w = weight({out, in});
    if (chance(0.2)) return add(ops::kLinear, {x, w, weight({out})}, {{"act", act}});
    return add(ops::kLinear, {x, w}, {{"act", act}});
  }

  void grow() {
    const auto x = any();
    const auto& shape = sizes(x);
    const auto rank = shape.rank();
    const auto last = shape[rank - 1];
    switch (draw(10)) {
      case 0:
      case 1:
      case 2:
        if (rank == 4) return convolve(x);
        linear(x, chance(0.6) ? "none" : "gelu");
        return;
      case 3:
      case 4:
        add(chance(0.7) ? ops::kAdd : ops::kMul, {x, twin(x)});
        return;
      case 5:
        add(chance(0.5) ? ops::kRelu : ops::kScale, {x});
        return;
      case 6:
        if (chance(0.5)) {
          add(ops::kSoftmax, {x});
        } else {
          add(ops::kLayerNorm, {x, weight({last}), weight({last})});
        }
        return;
      case 7:
        transpose(x);
        return;
      case 8:
        multiply(x);
        return;
      default:
        if (rank == 4 || rank == 1) return convolve(x);
        if (chance(0.5)) {
          add(ops::kSlice, {x}, {{"axis", "1"}, {"begin", "0"}, {"size", "12"}});
        } else {
          add(ops::kConcat, {x, twin(x)}, {{"axis", "1"}});
        }
    }
  }

  void convolve(NodeId x) {
    if (sizes(x).rank() != 4) return;
    const auto channels = sizes(x)[1];
    add(ops::kConv2d, {x, weight({channels, channels, 3, 3})}, {{"padding", "[1, 1]"}});
  }

  void transpose(NodeId x) {
    const auto rank = sizes(x).rank();
    if (rank == 2) add(ops::kTranspose, {x}, {{"perm", "[1, 0]"}});
    if (rank == 3) add(ops::kTranspose, {x}, {{"perm", "[0, 2, 1]"}});
    if (rank == 4) add(ops::kRelu, {x});
  }

  // Contracts every row of one tensor with every row of another.
  void multiply(NodeId x) {
    const auto& shape = sizes(x);
    for (auto y : pool_) {
      if (y == x || sizes(y) != shape || shape.rank() > 3) continue;
      const auto* index = shape.rank() == 2 ? "\"a i, b i -> a b\"" : "\"b s i, b t i -> b s t\"";
      add(ops::kContract, {x, y}, {{"index", index}});
      return;
    }
    add(ops::kAdd, {x, twin(x)});
  }

  // Adds the last operator: usually a loss.
  void finish() {
    if (ends_ == Ends::kAnyhow) {
      if (operators_added_ >= operators_) return;
      if (chance(0.25)) return grow();
    }
    const auto x = pool_.back();
    const auto target = builder_.input("target", ParallelShape(sizes(x)), DType::kFp32);
    add(ops::kMse, {x, target});
  }

  std::mt19937_64 random_;
  const std::size_t operators_;
  const Ends ends_;
  graph::GraphBuilder builder_;
  std::vector<NodeId> pool_;
  std::vector<NodeId> weights_;
  std::int64_t batch_ = 0;
  std::int64_t width_ = 0;
  std::size_t operators_added_ = 0;
};

// --- Machines ------------------------------------------------------------------------------------

// Returns a machine of Summit devices in one level or two.
inline machine::Machine small_machine(std::int64_t outer, std::int64_t inner) {
  auto m = machine::load_machine("summit:2");
  m.name = std::to_string(outer) + "x" + std::to_string(inner);
  m.levels = {m.levels.front(), m.levels.back()};
  m.levels[0].count = outer;
  m.levels[1].count = inner;
  return m;
}

inline std::vector<machine::Machine> small_machines() {
  std::vector<machine::Machine> out;
  for (const auto& [outer, inner] : {std::pair{2, 2}, {1, 4}, {1, 2}, {2, 1}, {1, 3}, {4, 1}}) {
    out.push_back(small_machine(outer, inner));
  }
  // A variant: the first unit's devices are half as fast. Another one: kernels are fused.
  auto m = small_machine(2, 2);
  m.name = "2x2 of two groups";
  auto slow = m.device;
  for (auto& [dtype, peak] : slow.peak) peak = peak / 2;
  m.groups = {{"slow", slow, 1}, {"fast", m.device, 1}};
  m.device = machine::make_weakest_device(m.groups);
  out.push_back(m);
  m = small_machine(2, 2);
  m.name = "2x2 with fused kernels";
  m.device.software.fusion = machine::Fusion::kElementwise;
  out.push_back(m);
  return out;
}

}  // namespace tandem::search
