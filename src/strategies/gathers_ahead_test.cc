// Checks weight gathers that are issued before earlier gradients are reduced: their places in the
// program, and the time that they save. Other tests check that every strategy trains as before.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "lower/prefetch_gathers.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"
#include "predict/simulate.h"
#include "strategies/grid.h"

namespace tandem::strategies {
namespace {

// Returns a machine with links of 1 GB/s between two devices and launches of 10 us; nothing else
// takes time. (A gather of an n x n weight sends half of it.)
machine::Machine counting_machine() {
  auto m = plan::make_machine({2});
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e30}}};
  m.device.bandwidth = BytesPerSecond{1e30};
  m.device.launch = Seconds{10e-6};
  m.levels[0].bandwidth = BytesPerSecond{1e9};
  return m;
}

lower::Program lower_named(const std::string& strategy, const machine::Machine& machine) {
  const auto graph =
      models::parse_model("mlp:layers=3,inputs=64,hidden=64,outputs=64").build(2, DType::kFp32);
  const auto made = make_named_strategies(strategy, graph, machine::Digits(machine)).at(0);
  const machine::Digits digits(machine, made.schedule.micro_batches);
  return lower::lower(plan::parallelize(graph, digits, made.choices, made.schedule), digits,
                      machine.device.software, plan::Optimizer::kSgd);
}

std::string format_backward(const lower::Program& program) {
  const auto text = to_text(program);
  return "\n" + text.substr(text.find("<- seed"));
}

TEST(PrefetchedGathers, PrecedeSumsOfEarlierGradients) {
  EXPECT_EQ(format_backward(lower_named("fsdp", counting_machine())), R"(
<- seed mse %loss
<- backward mse %loss
<- all_gather %w3 [64, 64] 0 -> r (16.4 kB)
<- backward linear %linear3
<- all_gather %w2 [64, 64] 0 -> r (16.4 kB)
<- reduce_scatter %replicate13' [64, 64] p -> 0 (16.4 kB)
<- backward relu %relu2
<- backward linear %linear2
<- reduce_scatter %replicate8' [64, 64] p -> 0 (16.4 kB)
<- backward relu %relu1
<- backward linear %linear1
<- reduce_scatter %replicate3' [64, 64] p -> 0 (16.4 kB)
<- update weight %w3
<- update weight %w2
<- update weight %w1
)");
}

// The weights are replicated, so nothing changes.
TEST(PrefetchedGathers, ChangeNothingForReplicatedWeights) {
  for (const char* strategy : {"dp", "deepspeed:zero=2", "megatron:tp=2"}) {
    auto program = lower_named(strategy, counting_machine());
    const auto before = to_text(program);
    lower::prefetch_weight_gathers(program);
    EXPECT_EQ(to_text(program), before) << strategy;
  }
}

// A gather takes 8.2 us, and so does a scatter; an operator takes 10 us or more. After the first
// gather nothing stalls. In the forward pass, gathers overlap earlier operators. In the backward
// pass, a gather overlaps the operator before it, and that operator's gradient is sent during the
// ReLU. The last gradient is sent during updates of other weights. If gathers were issued where the
// weights are used, the second and third one of the backward pass would be exposed.
TEST(PrefetchedGathers, OverlapTheOperatorBefore) {
  const auto m = counting_machine();
  const auto s = predict::simulate(lower_named("fsdp", m), m);
  EXPECT_NEAR(s.exposed_comm.value, 64 * 64 * 4 / 2 / 1e9, 1e-12);
  EXPECT_EQ(s.bubble, Seconds{});
}

}  // namespace
}  // namespace tandem::strategies
