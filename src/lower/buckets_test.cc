// Tests that gradients in buckets give exactly the same training with fewer collectives.
// predict/simulate_test.cc tests time and memory.
#include "lower/buckets.h"

#include <gtest/gtest.h>

#include <map>

#include "graph/text.h"
#include "lower/lower.h"
#include "lower/training_step_test_support.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"

namespace tandem::lower {
namespace {

using plan::make_digits;
using plan::parallelize;

TEST(Buckets, TrainRandomPlansLikeOneDevice) {
  struct Case {
    std::vector<std::int64_t> counts;
    std::int64_t micro_batches, stages;
    machine::DigitMask ranks;
  };
  const std::vector<Case> cases = {{{2}, 1, 1, 0},        {{2, 2}, 1, 1, 0}, {{2, 3}, 1, 1, 0},
                                   {{2, 2}, 2, 2, 0b100}, {{2}, 4, 1, 0},    {{2, 2}, 4, 2, 0b10}};
  std::map<machine::Step, int> together;
  int waited = 0;
  for (const auto& c : cases) {
    const auto digits = make_digits(c.counts, c.micro_batches);
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto model = plan::random_model(digits.devices() * c.micro_batches, seed);
      const bool small_batch = seed % 3 == 1;  // the attention model has a batch of 2
      if (small_batch && c.micro_batches > 2) continue;
      const plan::Schedule schedule{
          .micro_batches = c.micro_batches,
          .stages = c.stages,
          .digits = c.ranks,
          .reduce_each = seed % 2 == 1,
          .semantics = plan::Semantics::kSynchronous,
          .bucket = Bytes{seed % 4 == 0 ? 1e9 : static_cast<double>(50 << (seed % 4))}};
      plan::Chooser chooser(model, digits, seed, schedule);
      const auto program = lower(parallelize(model, digits, chooser.run(), schedule), digits, {},
                                 plan::Optimizer::kSgd);
      SCOPED_TRACE(fmt::format("{} devices, {} micro-batches, seed {}\n{}\n{}", digits.devices(),
                               c.micro_batches, seed, graph::to_text(program.pcg),
                               to_text(program)));
      expect_same_step(model, program, seed);
      if (testing::Test::HasFailure()) return;
      for (const auto& task : program.tasks) {
        if (task.kind != TaskKind::kMove || task.reads.size() == 1) continue;
        ++together[task.step.kind];
        waited += task.when == When::kEach ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(together.size(), 2U);
  EXPECT_GT(together[machine::Step::kAllReduce], 20);
  EXPECT_GT(together[machine::Step::kReduceScatter], 20);
  EXPECT_GT(waited, 20);
}

TEST(Buckets, AreSentWhenFull) {
  const auto digits = make_digits({2});
  const auto model =
      models::parse_model("mlp:layers=3,inputs=4,hidden=6,outputs=2").build(8, DType::kFp32);
  std::map<std::string, std::string> words;
  for (const char* node : {"linear1", "relu1", "linear2", "relu2", "linear3", "loss"}) {
    words[node] = "d0";
  }
  const auto collectives = [&](double bucket) {
    plan::Schedule schedule;
    schedule.bucket = Bytes{bucket};
    const auto choices = plan::named_choices(model, digits, words);
    const auto text = to_text(
        lower(parallelize(model, digits, choices, schedule), digits, {}, plan::Optimizer::kSgd));
    return "\n" + text.substr(text.find("<- seed"));
  };
  // Two gradients of 48 and 144 bytes, then one of 96.
  EXPECT_EQ(collectives(100), R"(
<- seed mse %loss
<- backward mse %loss
<- backward linear %linear3
<- backward relu %relu2
<- backward linear %linear2
<- all_reduce %w3' [2, 6] p -> r and 1 more (192 B)
<- backward relu %relu1
<- backward linear %linear1
<- all_reduce %w1' [6, 4] p -> r (96 B)
<- update weight %w3
<- update weight %w2
<- update weight %w1
)");
  EXPECT_EQ(collectives(1e6).find("all_reduce"), collectives(1e6).rfind("all_reduce"));
  EXPECT_EQ(collectives(1), collectives(0));
}

}  // namespace
}  // namespace tandem::lower
