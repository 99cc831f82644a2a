// Tests which gradients are never stored, and that nothing else changes.
#include "lower/fused_updates.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "lower/lower.h"
#include "lower/training_step_test_support.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"

namespace tandem::lower {
namespace {

constexpr const char* kMlp = R"(
graph perceptron
%x = input() shape=[8, 12] dtype=fp32
%w1 = weight() shape=[16, 12] dtype=fp32
%b1 = weight() shape=[16] dtype=fp32
%h = linear(%x, %w1, %b1) act=relu
%w2 = weight() shape=[16, 16] dtype=fp32
%y = linear(%h, %w2)
%z = linear(%y, %w2)
%w3 = weight() shape=[4, 16] dtype=fp32
%out = linear(%z, %w3)
%target = input() shape=[8, 4] dtype=fp32
%loss = mse(%out, %target)
return %loss
)";

// Returns a machine of two devices whose software updates weights in matmuls.
machine::Machine make_updating_machine() {
  auto machine = plan::make_machine({2});
  machine.device.software.updates_in_matmuls = true;
  return machine;
}

// Returns the names of the weights whose gradients are never stored.
std::vector<std::string> list_updated(const Program& program) {
  std::vector<std::string> out;
  for (const auto& buffer : program.buffers) {
    if (!buffer.fused_update) continue;
    EXPECT_EQ(buffer.bytes(), Bytes{});
    out.push_back(program.pcg.node(buffer.node).name);
  }
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> list_updated(const std::map<std::string, std::string>& words,
                                      plan::Optimizer optimizer = plan::Optimizer::kSgd) {
  const auto model = graph::parse_graph(kMlp, "perceptron");
  const auto machine = make_updating_machine();
  const machine::Digits digits(machine);
  const auto mapped = plan::parallelize(model, digits, plan::named_choices(model, digits, words));
  return list_updated(lower(mapped, digits, machine.device.software, optimizer));
}

using Names = std::vector<std::string>;

TEST(MatmulUpdates, CoverUnshardedWeightsWithOneMatmul) {
  // w2 has two readers, and b1 is an operand of add.
  EXPECT_EQ(list_updated({{"h", "n"}, {"y", "k"}, {"z", "*"}, {"out", "n"}}), (Names{"w1", "w3"}));
}

TEST(MatmulUpdates, ExcludeReducedGradients) {
  EXPECT_EQ(list_updated({{"h", "d0"}, {"y", "d0"}, {"z", "d0"}, {"out", "d0"}, {"loss", "d0"}}),
            Names{});
}

TEST(MatmulUpdates, RequirePlainSgd) {
  EXPECT_EQ(list_updated({{"h", "n"}, {"out", "n"}}, plan::Optimizer::kMomentum), Names{});
  EXPECT_EQ(list_updated({{"h", "n"}, {"out", "n"}}, plan::Optimizer::kAdam), Names{});
}

TEST(MatmulUpdates, DependOnTheSoftwareProfile) {
  const auto model = graph::parse_graph(kMlp, "perceptron");
  const auto digits = plan::make_digits({2});
  const auto mapped =
      plan::parallelize(model, digits, plan::named_choices(model, digits, {{"h", "n"}}));
  EXPECT_EQ(list_updated(lower(mapped, digits, {}, plan::Optimizer::kSgd)), Names{});
}

TEST(MatmulUpdates, ExcludeMicroBatches) {
  const auto model = graph::parse_graph(kMlp, "perceptron");
  const auto machine = make_updating_machine();
  const machine::Digits digits(machine, 2);
  plan::Chooser chooser(model, digits, 1, {.micro_batches = 2});
  const auto mapped = plan::parallelize(model, digits, chooser.run(), {.micro_batches = 2});
  EXPECT_EQ(list_updated(lower(mapped, digits, machine.device.software, plan::Optimizer::kSgd)),
            Names{});
}

// Tests that rows of tables are updated while their gradients are computed, if the software does
// that. The weights of matmuls are not, unless the software does that too.
TEST(MatmulUpdates, CoverTableRows) {
  const auto model = models::parse_model("dlrm:tables=2,rows=64,dim=8,dense=4,bottom=8,top=4")
                         .build(4, DType::kFp32);
  auto machine = plan::make_machine({1});
  const auto lower_with = [&](plan::Optimizer optimizer) {
    const machine::Digits digits(machine);
    const auto choices = plan::named_choices(model, digits, {});
    return lower(plan::parallelize(model, digits, choices), digits, machine.device.software,
                 optimizer);
  };
  EXPECT_EQ(list_updated(lower_with(plan::Optimizer::kSgd)), Names{});
  machine.device.software.updates_in_tables = true;
  const auto tables = list_updated(lower_with(plan::Optimizer::kSgd));
  ASSERT_FALSE(tables.empty());
  for (const auto& name : tables) EXPECT_NE(name.find("table"), std::string::npos) << name;
  expect_same_step(model, lower_with(plan::Optimizer::kSgd), 1);
  EXPECT_EQ(list_updated(lower_with(plan::Optimizer::kAdam)), Names{});
}

// The interpreter computes the gradient and subtracts it afterwards. That is equivalent only if
// nothing reads the weight in between, which this test checks.
TEST(MatmulUpdates, ComeAfterAllReadsOfTheWeight) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto machine = make_updating_machine();
    const machine::Digits digits(machine);
    std::mt19937_64 random(seed);
    const auto model = plan::random_mlp(2, random);
    const auto program =
        lower(plan::parallelize(model, digits, plan::random_choices(model, digits, seed)), digits,
              machine.device.software, plan::Optimizer::kSgd);
    SCOPED_TRACE(fmt::format("seed {}\n{}\n{}", seed, graph::to_text(model), to_text(program)));
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      for (auto gradient : program.tasks[t].writes) {
        if (!program.buffer(gradient).fused_update) continue;
        ++count;
        ASSERT_EQ(program.tasks[t].kind, TaskKind::kBackward);
        const auto weight = program.tensor[program.buffer(gradient).node.index()];
        for (std::size_t later = t + 1; later < program.tasks.size(); ++later) {
          const auto& task = program.tasks[later];
          if (task.kind == TaskKind::kUpdate) continue;
          EXPECT_EQ(std::ranges::count(task.reads, weight), 0) << "task " << later;
          EXPECT_EQ(std::ranges::count(task.reads, gradient), 0) << "task " << later;
        }
      }
    }
    expect_same_step(model, program, seed);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace tandem::lower
