// Random legal graphs for property tests. Every node is legal by construction: new sources get the
// type that the operator needs next to an existing tensor.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::graph {

struct RandomGraphOptions {
  int operators = 12;
  bool parallel = true;           // with degrees, replicas, partial sums and their operators
  std::int64_t max_devices = 24;  // largest number of devices that hold one tensor
  std::int64_t max_elements = 600;
};

class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed, RandomGraphOptions options = {})
      : random_(seed), options_(options), builder_(fmt::format("random_{}", seed)) {}

  Graph build() {
    for (std::int64_t i = 0; i < 2; ++i) {
      add(builder_.input(name("x"), ParallelShape({4 + 2 * i, 6, 2}), DType::kFp32));
    }
    for (int i = 0; i < options_.operators; ++i) grow();
    // The outputs are the last node, and sometimes others.
    std::vector<NodeId> outputs = {pool_.back()};
    for (auto id : pool_) {
      if (chance(0.1) && id != pool_.back()) outputs.push_back(id);
    }
    return builder_.finish(std::move(outputs));
  }

 private:
  using Inputs = std::initializer_list<NodeId>;

  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  bool chance(double p) { return static_cast<double>(random_() >> 11U) * 0x1p-53 < p; }
  std::string name(const char* prefix) { return fmt::format("{}_{}", prefix, names_++); }

  void add(NodeId id) { pool_.push_back(id); }
  void add(const ops::OpSpec& spec, Inputs inputs) {
    add(builder_.add(spec, inputs, chance(0.5) ? name("n") : ""));
  }
  template <class Attributes>
  void add(const ops::OpSpec& spec, Attributes attributes, Inputs inputs) {
    add(builder_.add(ops::make_op(spec, std::move(attributes)), inputs, ""));
  }

  NodeId weight(const Shape& sizes, const Shape& degrees, std::int64_t replicas,
                std::int64_t partial = 1) {
    ParallelShape shape(sizes);
    shape.degrees = degrees;
    shape.replicas = replicas;
    shape.partial = partial;
    return builder_.weight(name("w"), shape, DType::kFp32);
  }

  void grow() {
    // Newer tensors are drawn more often, so that graphs get deep.
    const auto n = static_cast<std::int64_t>(pool_.size());
    const NodeId x = pool_[static_cast<std::size_t>(n - 1 - draw(std::min<std::int64_t>(n, 3)))];
    const ParallelShape type = builder_.node(x).type.shape;
    if (options_.parallel && chance(0.5)) return grow_parallel(x, type);
    switch (draw(8)) {
      case 0:
        return grow_linear(x, type);
      case 1:
        return grow_contract(x, type);
      case 2:
        return grow_normal(x, type);
      case 3:
        return grow_concat(x, type);
      case 4:
        return grow_embedding();
      case 5:
        return grow_matmul(x, type);
      case 6:
        return grow_relu(x, type);
      default:
        return add(ops::kAdd, {x, grow_twin(x, type)});
    }
  }

  // Grows a node with a tensor of the same type: another one of the pool if there is one, or a new
  // weight.
  NodeId grow_twin(NodeId x, const ParallelShape& type) {
    for (auto id : pool_) {
      if (id != x && builder_.node(id).type.shape == type && chance(0.7)) return id;
    }
    return chance(0.2) ? x : weight(type.sizes, type.degrees, type.replicas, type.partial);
  }

  void grow_relu(NodeId x, const ParallelShape& type) {
    if (type.partial == 1) add(ops::kRelu, {x});
  }

  // Returns the product of all degrees but the last `count`.
  static std::int64_t leading(const ParallelShape& type, std::size_t count) {
    std::int64_t n = 1;
    for (std::size_t d = 0; d + count < type.rank(); ++d) n *= type.degrees[d];
    return n;
  }

  // Returns a random degree that x's replicas allow for a new factor.
  std::int64_t draw_degree(const ParallelShape& type) {
    for (const std::int64_t d : {2, 3}) {
      if (type.replicas % d == 0 && chance(0.5)) return d;
    }
    return 1;
  }

  void grow_linear(NodeId x, const ParallelShape& type) {
    if (type.rank() == 0) return;
    const auto last = type.rank() - 1;
    const auto n = draw_degree(type);
    const auto replicas = leading(type, 1) * type.replicas / n * type.partial;
    const auto w = weight({6, type.sizes[last]}, {n, type.degrees[last]}, replicas);
    const bool whole = type.partial == 1 && type.degrees[last] == 1;
    const auto act = whole && chance(0.5) ? ops::Activation::kRelu : ops::Activation::kNone;
    if (whole && chance(0.5)) {
      const auto bias = weight({6}, {n}, replicas);
      return add(ops::kLinear, ops::LinearAttributes{act}, {x, w, bias});
    }
    add(ops::kLinear, ops::LinearAttributes{act}, {x, w});
  }

  // Multiplies the last dimension with a new weight and moves the result's dimension to the front.
  void grow_contract(NodeId x, const ParallelShape& type) {
    if (type.rank() == 0 || type.rank() > 4) return;
    std::string names;
    for (std::size_t d = 0; d + 1 < type.rank(); ++d) names += fmt::format("a{} ", d);
    const auto last = type.rank() - 1;
    const auto n = draw_degree(type);
    const auto w = weight({6, type.sizes[last]}, {n, type.degrees[last]},
                          leading(type, 1) * type.replicas / n * type.partial);
    add(ops::kContract,
        ops::Contract{fmt::format("{}k, n k -> n {}", names,
                                  names.substr(0, names.size() - (names.empty() ? 0 : 1))),
                      chance(0.5) ? 1 : 0.125},
        {x, w});
  }

  void grow_matmul(NodeId x, const ParallelShape& type) {
    if (type.rank() < 2) return;
    const auto last = type.rank() - 1;
    const auto n = draw_degree(type);
    Shape sizes = type.sizes;
    Shape degrees = type.degrees;
    sizes[last - 1] = type.sizes[last];
    degrees[last - 1] = type.degrees[last];
    sizes[last] = 6;
    degrees[last] = n;
    const auto replicas = type.degrees[last - 1] * type.replicas / n * type.partial;
    add(ops::kMatMul, {x, weight(sizes, degrees, replicas)});
  }

  void grow_normal(NodeId x, const ParallelShape& type) {
    if (type.rank() == 0 || type.partial != 1 || type.degrees[type.rank() - 1] != 1) return;
    if (chance(0.5)) return add(ops::kSoftmax, {x});
    const Shape h = {type.sizes[type.rank() - 1]};
    const auto replicas = leading(type, 1) * type.replicas;
    const auto scale = weight(h, {1}, replicas);
    const auto shift = weight(h, {1}, replicas);
    add(ops::kLayerNorm, ops::Norm{chance(0.5) ? 1e-5 : 0.1}, {x, scale, shift});
  }

  void grow_concat(NodeId x, const ParallelShape& type) {
    if (type.rank() == 0 || 2 * type.sizes.count() > options_.max_elements) return;
    const auto axis = draw(static_cast<std::int64_t>(type.rank()));
    if (type.degrees[static_cast<std::size_t>(axis)] != 1) return;
    add(ops::kConcat, ops::Concat{axis}, {x, grow_twin(x, type)});
  }

  void grow_embedding() {
    const std::int64_t degree = options_.parallel && chance(0.3) ? 2 : 1;
    ParallelShape indices({4, 3});
    indices.replicas = degree;
    const auto x = builder_.input(name("i"), indices, DType::kInt64, 6);
    // The degree cuts rows or columns of the table.
    add(ops::kEmbeddingBag,
        {x, weight({6, 4}, chance(0.5) ? Shape{degree, 1} : Shape{1, degree}, 1)});
  }

  void grow_parallel(NodeId x, const ParallelShape& type) {
    const std::int64_t degree = 2 + draw(2);
    const bool room = type.device_count() * degree <= options_.max_devices;
    const auto rank = static_cast<std::int64_t>(type.rank());
    const auto dim = rank == 0 ? 0 : draw(rank);
    const auto d = static_cast<std::size_t>(dim);
    switch (draw(5)) {
      case 0:
        if (room && rank > 0 && type.shard_shape()[d] % degree == 0)
          add(ops::kPartition, ops::DimDegree{dim, degree}, {x});
        return;
      case 1:
        if (rank > 0 && type.degrees[d] % degree == 0)
          add(ops::kCombine, ops::DimDegree{dim, degree}, {x});
        return;
      case 2:
        if (room) add(ops::kReplicate, ops::Degree{degree}, {x});
        return;
      case 3:
        if (type.partial % degree == 0) add(ops::kReduce, ops::Degree{degree}, {x});
        return;
      default:
        if (type.replicas % degree == 0) add(ops::kUnreplicate, ops::Degree{degree}, {x});
        return;
    }
  }

  std::mt19937_64 random_;
  RandomGraphOptions options_;
  GraphBuilder builder_;
  std::vector<NodeId> pool_;
  int names_ = 0;
};

inline Graph random_graph(std::uint64_t seed, RandomGraphOptions options = {}) {
  return RandomGraph(seed, options).build();
}

}  // namespace tandem::graph
