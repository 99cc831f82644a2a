// Tests steps of micro-batches: pipelines, recomputation and delayed updates. The task interpreter
// is compared with the sequential one.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/fewer_test_support.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "lower/task_interpreter.h"
#include "lower/training_step_test_support.h"
#include "plan/random_choices_test_support.h"

namespace tandem::lower {
namespace {

using plan::make_digits;
using plan::named_choices;
using plan::Optimizer;
using plan::parallelize;
using term::Field;

// Returns software that recomputes a layer's whole forward pass, or only what is read of it.
machine::Software make_recomputing_software(bool recomputes_whole) {
  machine::Software out;
  out.recomputes_whole = recomputes_whole;
  return out;
}

// The cases include several stages per rank and recomputed tensors.
TEST(LowerPipelines, TrainLikeOneDevice) {
  struct Case {
    std::vector<std::int64_t> counts;
    machine::DigitMask ranks;  // digits of the pipeline; digit 0 is time
    std::int64_t micro_batches, stages;
    plan::Order order;
  };
  using plan::Order;
  const std::vector<Case> cases = {
      {{2}, 0, 2, 1, Order::k1F1B},
      {{2, 2}, 0, 3, 1, Order::kGpipe},
      {{2}, 0b10, 4, 2, Order::k1F1B},
      {{2, 2}, 0b10, 2, 2, Order::kGpipe},
      {{2, 2}, 0b100, 3, 2, Order::k1F1B},
      {{2, 2}, 0b110, 4, 4, Order::k1F1B},
      {{2, 2}, 0b10, 2, 4, Order::kInterleaved},
      {{3, 2}, 0b10, 3, 6, Order::kInterleaved},
      {{2}, 0, 2, 3, Order::kGpipe},
      {{2, 2}, 0b10, 4, 4, Order::k1F1B},
  };
  unsigned sends = 0;
  unsigned recomputed = 0;
  for (const auto& c : cases) {
    const auto digits = make_digits(c.counts, c.micro_batches);
    for (std::uint64_t seed = 0; seed < 60; seed += kFewer) {
      const auto software = make_recomputing_software(seed / 2 % 2 == 1);
      const auto model = plan::random_model(digits.devices() * c.micro_batches, seed);
      const bool small_batch = seed % 3 == 1;  // the attention model has a batch of 2
      if (small_batch && c.micro_batches != 2) continue;
      const plan::Schedule schedule{.order = c.order,
                                    .micro_batches = c.micro_batches,
                                    .stages = c.stages,
                                    .digits = c.ranks,
                                    .reduce_each = seed % 2 == 1};
      plan::Chooser chooser(model, digits, seed, schedule);
      const auto program = lower(parallelize(model, digits, chooser.run(), schedule), digits,
                                 software, Optimizer::kSgd);
      SCOPED_TRACE(fmt::format("{} devices, {} micro-batches, {} stages, seed {}\n{}\n{}",
                               digits.devices(), c.micro_batches, c.stages, seed,
                               graph::to_text(program.pcg), to_text(program)));
      expect_same_step(model, program, seed);
      if (HasFailure()) return;
      for (const auto& task : program.tasks) {
        sends += task.kind == TaskKind::kSend ? 1 : 0;
        recomputed += task.recomputed ? 1 : 0;
      }
    }
  }
  EXPECT_GT(sends, 500 / kFewer);
  EXPECT_GT(recomputed, 500 / kFewer);
}

// Two layers are column-parallel and row-parallel. The backward pass does not read the second
// matmul or the sum of its partial sums.
TEST(LowerPipelines, RecomputeUnreadTensorsIfTheSoftwareRunsToTheEnd) {
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[4, 4]\n%w = weight() shape=[8, 4]\n%y = linear(%x, %w)\n"
      "%r = relu(%y)\n%v = weight() shape=[4, 8]\n%z = linear(%r, %v)\n%s = add(%z, %x)\n"
      "%t = input() shape=[4, 4]\n%loss = mse(%s, %t)\nreturn %loss\n");
  const auto digits = make_digits({2});
  const auto count_recomputed = [&](bool recomputes_whole) {
    const auto software = make_recomputing_software(recomputes_whole);
    auto choices = named_choices(model, digits, {{"y", "n"}, {"r", "d1"}, {"z", "k"}});
    for (auto id : model.ids()) {
      const auto& name = model.node(id).name;
      choices[id.index()].recompute = name == "y" || name == "r" || name == "z";
    }
    return std::ranges::count_if(
        lower(parallelize(model, digits, choices), digits, software, Optimizer::kSgd).tasks,
        [](const Task& task) { return task.recomputed; });
  };
  EXPECT_EQ(count_recomputed(false), 2);  // y and r
  EXPECT_EQ(count_recomputed(true), 4);   // also z, and the sum of its partial sums
}

// A tensor computed from weights alone is the same in all micro-batches. Its gradient is too, once
// it is summed over them, because each device reads only a part of the slice.
TEST(LowerPipelines, ShareTheGradientOfAWeightSlice) {
  const auto digits = make_digits({2}, 2);
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[4, 4, 2]\n%w = weight() shape=[8, 2]\n"
      "%p = slice(%w) size=4\n%y = add(%x, %p)\n%t = input() shape=[4, 4, 2]\n"
      "%loss = mse(%y, %t)\nreturn %loss\n");
  const plan::Schedule schedule{.micro_batches = 2};
  const auto choices = named_choices(model, digits, {{"y", "d0 d1"}, {"loss", "d0 d1"}});
  const auto program =
      lower(parallelize(model, digits, choices, schedule), digits, {}, Optimizer::kSgd);
  expect_same_step(model, program, 0);
}

// Compares overlapping steps of a pipeline with one device that delays its gradients. The number of
// steps varies, so that the loss and gradients of every step are compared.
TEST(LowerPipelines, TrainLikeOneDeviceWithDelayedGradients) {
  struct Case {
    std::vector<std::int64_t> counts;
    machine::DigitMask ranks;  // digits of the pipeline; digit 0 is time
    std::int64_t micro_batches, stages;
  };
  const std::vector<Case> cases = {
      {{2}, 0b10, 2, 2},     {{2}, 0b10, 4, 2},     {{3}, 0b10, 3, 3}, {{2, 2}, 0b10, 3, 2},
      {{2, 2}, 0b100, 2, 2}, {{2, 2}, 0b110, 4, 4}, {{2}, 0, 2, 1}};
  unsigned sends = 0;
  unsigned gathered_once = 0;
  for (const auto& c : cases) {
    const auto digits = make_digits(c.counts, c.micro_batches);
    for (std::uint64_t seed = 0; seed < 24; seed += kFewer) {
      const auto model = plan::random_model(digits.devices() * c.micro_batches, seed);
      const bool small_batch = seed % 3 == 1;  // the attention model has a batch of 2
      if (small_batch && c.micro_batches != 2) continue;
      const plan::Schedule schedule{.micro_batches = c.micro_batches,
                                    .stages = c.stages,
                                    .digits = c.ranks,
                                    .reduce_each = seed % 2 == 1,
                                    .semantics = plan::Semantics::kDelayed1};
      plan::Chooser chooser(model, digits, seed, schedule);
      const auto program =
          lower(parallelize(model, digits, chooser.run(), schedule), digits, {}, Optimizer::kSgd);
      SCOPED_TRACE(fmt::format("{} devices, {} micro-batches, seed {}\n{}\n{}", digits.devices(),
                               c.micro_batches, seed, graph::to_text(program.pcg),
                               to_text(program)));
      for (std::int64_t steps = 1; steps <= 4; ++steps) {
        expect_same_steps(model, program, seed, steps);
      }
      if (HasFailure()) return;
      for (const auto& task : program.tasks) {
        sends += task.kind == TaskKind::kSend ? 1 : 0;
        gathered_once +=
            task.kind == TaskKind::kMove && !task.backward && task.when == When::kFirst ? 1 : 0;
      }
    }
  }
  EXPECT_GT(sends, 100 / kFewer);
  EXPECT_GT(gathered_once, 100 / kFewer);
}

// Delayed updates are a different training, and the interpreter must notice the difference.
TEST(LowerPipelines, DistinguishDelayedFromPromptUpdates) {
  const auto digits = make_digits({2}, 2);
  const auto model = plan::random_model(4, 0);
  plan::Schedule schedule{.micro_batches = 2, .stages = 2, .digits = 0b10};
  plan::Chooser chooser(model, digits, 0, schedule);
  const auto choices = chooser.run();
  const auto prompt =
      lower(parallelize(model, digits, choices, schedule), digits, {}, Optimizer::kSgd);
  schedule.semantics = plan::Semantics::kDelayed1;
  const auto delayed =
      lower(parallelize(model, digits, choices, schedule), digits, {}, Optimizer::kSgd);
  const auto loss = [&](const Program& program, std::int64_t steps) {
    const auto feed = [&](graph::NodeId id, std::int64_t step) {
      return graph::make_feed_values<Field>(program.pcg, 0, static_cast<std::uint64_t>(step))(id);
    };
    return assemble_step_result(program, run_steps<Field>(program, feed, steps, Field(3))).loss;
  };
  expect_same_steps(model, prompt, 0, 3);
  EXPECT_EQ(loss(prompt, 1), loss(delayed, 1));
  EXPECT_NE(loss(prompt, 2), loss(delayed, 2));
}

}  // namespace
}  // namespace tandem::lower
