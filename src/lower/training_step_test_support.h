// For tests: does a program do one step of training like one device?
#pragma once

#include <gtest/gtest.h>

#include "graph/sequential.h"
#include "lower/task_interpreter.h"

namespace tandem::lower {

inline constexpr std::uint64_t kLearningRate = 3;

// Expects the program to do one SGD step of the model, exactly.
inline void expect_same_step(const graph::Graph& model, const Program& program,
                             std::uint64_t seed) {
  const auto values = graph::run_forward(model, graph::feed_values<term::Field>(model, seed));
  const auto gradients = graph::run_backward(model, values, graph::loss_seed<term::Field>(model));
  const auto execution = run_program(program, graph::feed_values<term::Field>(program.pcg, seed),
                                     term::Field(kLearningRate));
  const auto step = step_result(program, execution);
  EXPECT_TRUE(step.replicas_agree);
  EXPECT_EQ(step.loss, values[model.outputs()[0].index()]);
  std::size_t weights = 0;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node)) continue;
    ++weights;
    ASSERT_TRUE(step.gradients.contains(node.name)) << node.name << " is not updated";
    const auto& gradient = gradients[id.index()];
    EXPECT_EQ(step.gradients.at(node.name), gradient) << "gradient of " << node.name;
    auto updated = values[id.index()];
    for (std::size_t i = 0; i < updated.data.size(); ++i) {
      updated.data[i] += term::Field(term::Field::kPrime - kLearningRate) * gradient.data[i];
    }
    EXPECT_EQ(step.weights.at(node.name), updated) << node.name << " after the update";
  }
  EXPECT_EQ(step.gradients.size(), weights);
}

}  // namespace tandem::lower
