// Test support: checks that a parallel computation graph computes the same as its erasure on one
// device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "graph/sequential.h"
#include "graph/virtual_devices.h"
#include "term/random_values_test_support.h"

namespace tandem::graph {

inline bool same(const Dense<term::Field>& a, const Dense<term::Field>& b) { return a == b; }
inline bool same(const Dense<double>& a, const Dense<double>& b) {
  if (a.shape != b.shape) return false;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    if (!(std::abs(a.data[i] - b.data[i]) <= 1e-12 * std::max(1.0, std::abs(a.data[i]))))
      return false;
  }
  return true;
}

// Results of a graph on one device: every value, and every gradient for a random gradient of the
// last node.
template <class T>
struct OneDevice {
  OneDevice() = default;
  OneDevice(const Graph& serial, std::uint64_t seed) : graph(serial) {
    std::mt19937_64 random(seed);
    const auto out = graph.outputs()[0].index();
    for (auto id : graph.ids()) by_name[graph.node(id).name] = id;
    values = run_forward<T>(graph, make_feed_values<T>(graph, seed));
    output_gradients.resize(graph.size());
    output_gradients[out] = term::random_dense<T>(values[out].shape, random);
    gradients = run_backward<T>(graph, values, output_gradients);
  }

  Graph graph;
  std::map<std::string, NodeId> by_name;
  Values<T> values;
  Values<T> output_gradients;
  Values<T> gradients;
};

// Runs `pcg` with the values of `seed` and compares with `one`, the results of its erasure. It
// compares the last node's value and every source's gradient.
template <class T>
void expect_equals(const Graph& pcg, const OneDevice<T>& one, std::uint64_t seed) {
  const auto sharded = run_sharded_forward<T>(pcg, make_feed_values<T>(pcg, seed));
  const NodeId out = pcg.outputs()[0];
  const auto serial_out = one.graph.outputs()[0].index();
  bool agree = false;
  EXPECT_TRUE(same(assemble(sharded[out.index()], &agree), one.values[serial_out]));
  EXPECT_TRUE(agree) << "replicas of the output differ";
  EXPECT_EQ(sharded[out.index()].shape, pcg.node(out).type.shape);

  ShardedValues<T> sharded_seeds(pcg.size());
  sharded_seeds[out.index()] = distribute(one.output_gradients[serial_out],
                                          to_gradient_shape(pcg.node(out).type.shape), seed);
  const auto actual = run_sharded_backward<T>(pcg, sharded, std::move(sharded_seeds));
  for (auto id : pcg.ids()) {
    const Node& node = pcg.node(id);
    if (node.op.role() != ops::Role::kSource) continue;
    const auto& wanted = one.gradients[one.by_name.at(node.name).index()];
    const auto& got = actual[id.index()];
    ASSERT_EQ(got.shards.empty(), wanted.data.empty()) << node.name;
    if (wanted.data.empty()) continue;
    EXPECT_EQ(got.shape, to_gradient_shape(node.type.shape));
    EXPECT_TRUE(same(assemble(got, &agree), wanted)) << "gradient of " << node.name;
    EXPECT_TRUE(agree) << "replicas of the gradient of " << node.name << " differ";
  }
}

template <class T>
void expect_equals_one_device(const Graph& pcg, std::uint64_t seed) {
  expect_equals(pcg, OneDevice<T>(erase_parallelism(pcg), seed), seed);
}

}  // namespace tandem::graph
