// Tests that rings of blocks give exactly the same training without gathers.
// predict/simulate_test.cc tests time and memory.
#include "lower/rings.h"

#include <gtest/gtest.h>

#include <map>

#include "base/fewer_test_support.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "lower/training_step_test_support.h"
#include "plan/random_choices_test_support.h"

namespace tandem::lower {
namespace {

using machine::Step;
using plan::make_digits;
using plan::parallelize;

std::map<Step, int> count_moves(const Program& program) {
  std::map<Step, int> out;
  for (const auto& task : program.tasks) {
    if (task.kind == TaskKind::kMove) ++out[task.step.kind];
  }
  return out;
}

TEST(Rings, TrainRandomPlansLikeOneDevice) {
  unsigned blocks = 0;
  unsigned backward = 0;
  unsigned recomputed = 0;
  for (const std::int64_t micro_batches : {1, 2}) {
    for (const auto& counts : std::vector<std::vector<std::int64_t>>{{2}, {3}, {2, 2}, {2, 3}}) {
      const auto digits = make_digits(counts, micro_batches);
      for (std::uint64_t seed = 0; seed < 60; seed += kFewer) {
        const auto model = plan::random_model(digits.devices() * micro_batches, seed);
        plan::Schedule schedule;
        schedule.micro_batches = micro_batches;
        schedule.reduce_each = seed % 2 == 1;
        schedule.ring = true;
        plan::Chooser chooser(model, digits, seed, schedule);
        const auto program = lower(parallelize(model, digits, chooser.run(), schedule), digits, {},
                                   plan::Optimizer::kSgd);
        SCOPED_TRACE(fmt::format("{} devices, {} micro-batches, seed {}\n{}\n{}", digits.devices(),
                                 micro_batches, seed, graph::to_text(program.pcg),
                                 to_text(program)));
        expect_same_step(model, program, seed);
        if (testing::Test::HasFailure()) return;
        for (const auto& task : program.tasks) {
          blocks += task.block ? 1 : 0;
          backward += task.block && task.kind == TaskKind::kBackward ? 1 : 0;
          recomputed += task.block && task.recomputed ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(blocks, 300 / kFewer);
  EXPECT_GT(backward, 100 / kFewer);
  EXPECT_GT(recomputed, 10 / kFewer);
}

// Returns a program of attention on four devices, with the queries sharded along the sequence.
Program attention(bool ring) {
  const auto digits = make_digits({2, 2});
  std::mt19937_64 random(0);
  const auto model = plan::random_attention(4, random);
  std::map<std::string, std::string> words;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (node.op.role() == ops::Role::kSource) continue;
    const auto& s = get_node_signature(model, id);
    const bool has_s = s.map.find("s") >= 0;
    const auto word = has_s ? "s" : node.op.name() == "softmax" ? "d2" : "d1";
    words[node.name] = fmt::format("{0} {0}", word);
  }
  plan::Schedule schedule;
  schedule.ring = ring;
  const auto choices = plan::named_choices(model, digits, words);
  const auto program =
      lower(parallelize(model, digits, choices, schedule), digits, {}, plan::Optimizer::kSgd);
  expect_same_step(model, program, 0);
  return program;
}

// Keys and values go round once forward and once backward, and their gradients once backward.
// Nothing is gathered. Compared with the collectives, only the blocks of the backward pass are sent
// in addition.
TEST(Rings, PassKeysAndValues) {
  const auto gathered = attention(false);
  auto before = count_moves(gathered);
  EXPECT_EQ(before[Step::kAllGather], 2);
  EXPECT_EQ(before[Step::kReduceScatter], 2);
  const auto ring = attention(true);
  auto after = count_moves(ring);
  EXPECT_EQ(after[Step::kAllGather], 0);
  EXPECT_EQ(after[Step::kReduceScatter], 0);
  EXPECT_EQ(after[Step::kShift], 2 * 3 * 3);
  EXPECT_EQ(after[Step::kAllReduce], before[Step::kAllReduce]);
  // Keys and values are [2, 4, 4, 2]: each of 4 devices sends 3 blocks of a quarter of them.
  EXPECT_EQ(count_communicated_elements(ring) - count_communicated_elements(gathered),
            2 * 4 * 3 * 16);
}

TEST(Rings, PrintAsText) {
  const auto digits = make_digits({2});
  const auto model = graph::parse_graph(
      "graph g\n%q = weight() shape=[4, 6]\n%x = weight() shape=[8, 6]\n%k = relu(%x)\n"
      "%y = contract(%q, %k) index=\"s d, t d -> s t\"\n%t = input() shape=[4, 8]\n"
      "%loss = mse(%y, %t)\nreturn %loss\n");
  plan::Schedule schedule;
  schedule.ring = true;
  const auto choices =
      plan::named_choices(model, digits, {{"k", "d0"}, {"y", "s"}, {"loss", "d0"}});
  const auto program =
      lower(parallelize(model, digits, choices, schedule), digits, {}, plan::Optimizer::kSgd);
  expect_same_step(model, program, 0);
  EXPECT_EQ("\n" + to_text(program), R"(
-> forward relu %k
-> shift %k [8, 6] 0 -> 0 (96 B)
-> forward contract %y (own block)
-> forward contract %y (block +1)
-> forward mse %loss
<- seed mse %loss
<- backward mse %loss
<- shift %k [8, 6] 0 -> 0 (96 B)
<- backward contract %y (block +1)
<- shift %replicate4' [8, 6] 0 -> 0 (96 B)
<- backward contract %y (own block)
<- backward relu %k
<- update weight %x
<- update weight %q
)");
}

// Tests that the interpreter notices a wrong block.
TEST(Rings, DetectAWrongBlock) {
  const auto good = attention(true);
  const auto gradients = [](const Program& program) {
    return assemble_step_result(
               program, run_program(program, graph::make_feed_values<term::Field>(program.pcg),
                                    term::Field(3)))
        .gradients;
  };
  auto never_resets = good;
  for (auto& task : never_resets.tasks) {
    if (task.block) task.block->first = true;  // discards the blocks before
  }
  EXPECT_NE(gradients(never_resets), gradients(good));
}

}  // namespace
}  // namespace tandem::lower
