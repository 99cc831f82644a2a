// Test support: compares a program's training steps with those of one device.
#pragma once

#include <gtest/gtest.h>

#include "graph/sequential.h"
#include "lower/task_interpreter.h"

namespace tandem::lower {

// Expects that `program` computes exactly the same steps of SGD as `model`.
inline void expect_same_steps(const graph::Graph& model, const Program& program, std::uint64_t seed,
                              std::int64_t steps) {
  SCOPED_TRACE(fmt::format("{} steps", steps));
  using term::Field;
  const Field rate(3);
  const auto feed = [seed](const graph::Graph& graph) {
    return [&graph, seed](graph::NodeId id, std::int64_t step) {
      return graph::make_feed_values<Field>(graph, seed, static_cast<std::uint64_t>(step))(id);
    };
  };
  const auto expected =
      graph::train<Field>(model, feed(model), steps, rate, program.schedule.is_delayed());
  const auto actual =
      assemble_step_result(program, run_steps<Field>(program, feed(program.pcg), steps, rate));
  EXPECT_TRUE(actual.replicas_agree);
  EXPECT_EQ(actual.loss, expected.values[model.outputs()[0].index()]);
  std::size_t weights = 0;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_trained(node)) continue;
    ++weights;
    ASSERT_TRUE(actual.gradients.contains(node.name)) << node.name << " is not updated";
    EXPECT_EQ(actual.gradients.at(node.name), expected.gradients[id.index()])
        << "gradient of " << node.name;
    EXPECT_EQ(actual.weights.at(node.name), expected.weights[id.index()])
        << node.name << " after the update";
  }
  EXPECT_EQ(actual.gradients.size(), weights);
}

inline void expect_same_step(const graph::Graph& model, const Program& program,
                             std::uint64_t seed) {
  expect_same_steps(model, program, seed, 1);
}

}  // namespace tandem::lower
