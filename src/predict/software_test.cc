// Tests effects of software on a timeline against closed forms. Each task takes one launch of 1 us
// or communicates 1000 bytes in 1 us, and nothing else takes time.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "lower/lower.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"
#include "predict/simulate.h"

namespace tandem::predict {
namespace {

using graph::Graph;
using lower::Program;
using machine::Machine;

constexpr double kMicro = 1e-6;

Machine counting_machine(std::int64_t devices) {
  Machine m = plan::make_machine({devices});
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e30}}};
  m.device.bandwidth = BytesPerSecond{1e30};
  m.device.launch = Seconds{kMicro};
  m.levels[0].bandwidth = BytesPerSecond{1e9};
  return m;
}

// Returns `layers` linear layers of [50, 50] with ReLUs between them. All-reducing a gradient takes
// 10 us.
Program layers(int layers, const Machine& m, bool data_parallel) {
  const auto model =
      models::parse_model(fmt::format("mlp:layers={},inputs=50,hidden=50,outputs=50", layers))
          .build(2, DType::kFp32);
  const machine::Digits digits(m);
  std::map<std::string, std::string> words;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (data_parallel && node.op.role() == ops::Role::kCompute) words[node.name] = "d0";
  }
  const auto choices = plan::named_choices(model, digits, words);
  return lower::lower(plan::parallelize(model, digits, choices), digits, m.device.software,
                      plan::Optimizer::kSgd);
}

double micros(const Program& program, const Machine& m) {
  return simulate(program, m).iteration.value / kMicro;
}

// Three layers: 6 forward tasks, 6 backward ones, 3 updates.
TEST(Software, IsBoundByASlowHost) {
  auto m = counting_machine(1);
  const auto program = layers(3, m, false);
  EXPECT_NEAR(micros(program, m), 15, 1e-9);
  auto& s = m.device.software;
  s.dispatch = Seconds{5 * kMicro};
  // The last forward task starts at 30; nothing after it waits for the host.
  EXPECT_NEAR(micros(program, m), 31 + 6 + 3, 1e-9);
}

TEST(Software, LetsAHostRunAhead) {
  auto m = counting_machine(1);
  const auto program = layers(3, m, false);
  auto& s = m.device.software;
  s.dispatch = Seconds{0.25 * kMicro};
  s.dispatch_backward = Seconds{0.5 * kMicro};
  EXPECT_NEAR(micros(program, m), 15 + 0.25, 1e-9);  // only the first task waits
  s.dispatch = Seconds{};
  s.dispatch_backward = Seconds{3 * kMicro};
  // Forward takes 6 us, and the host gets ahead by 1. Six backward and three update tasks follow.
  EXPECT_NEAR(micros(program, m), 9 * 3 + 1, 1e-9);
}

TEST(Software, SynchronizesTheHostInEveryStepAndMicroBatch) {
  auto m = counting_machine(1);
  const auto program = layers(3, m, false);
  m.device.software.micro_batch = Seconds{7 * kMicro};
  EXPECT_NEAR(micros(program, m), 15 + 7, 1e-9);
  m.device.software.step = Seconds{20 * kMicro};
  EXPECT_NEAR(micros(program, m), 15 + 7 + 20, 1e-9);
  const auto s = simulate(program, m);
  EXPECT_NEAR(s.bubble.value / kMicro, 27, 1e-9);
  EXPECT_NEAR(s.compute.value / kMicro, 15, 1e-9);
}

TEST(Software, DispatchesCollectives) {
  auto m = counting_machine(2);
  const auto program = layers(1, m, true);
  // Forward, loss, and both backward tasks take 4 us, the all-reduce 10 us; then comes the update.
  EXPECT_NEAR(micros(program, m), 4 + 10 + 1, 1e-9);
  m.device.software.dispatch_collective = Seconds{9 * kMicro};
  EXPECT_NEAR(micros(program, m), 9 + 10 + 1, 1e-9);
}

// The gradients of three layers take 10 us each. If they overlap, the first is ready at 8 us.
TEST(Software, SendsGradientsAfterTheBackwardPassWithoutOverlap) {
  auto m = counting_machine(2);
  const auto program = layers(3, m, true);
  EXPECT_NEAR(micros(program, m), 8 + 3 * 10 + 1, 1e-9);
  m.device.software.overlap = false;
  EXPECT_NEAR(micros(program, m), 12 + 3 * 10 + 1, 1e-9);
  const auto s = simulate(program, m);
  EXPECT_NEAR((s.compute + s.exposed_comm).value, s.iteration.value, 1e-15);
  EXPECT_NEAR(s.exposed_comm.value / kMicro, 12 + 3 * 10 + 1 - 15, 1e-9);
}

// Three gradients of 2,500 numbers take 10 us each on two devices, after everything else. Joined,
// none of them pays start-up time or latency.
TEST(Software, JoinsGradientsIntoOneCollective) {
  auto m = counting_machine(2);
  const auto program = layers(3, m, true);
  m.device.software.overlap = false;
  const auto apart = micros(program, m);
  m.device.collective = Seconds{4 * kMicro};
  EXPECT_NEAR(micros(program, m), apart + 3 * 4, 1e-9);
  m.device.software.joined_gradients = true;
  EXPECT_NEAR(micros(program, m), apart, 1e-9);
}

// Three layers, interference 1/2. The first gradient's all-reduce is [8, 18]. It overlaps the
// remaining four backward tasks of 1.5 us each, until 14. Half of these 6 us delays later
// collectives: the last of three ends at 8 + 30 + 3, and one update follows.
TEST(Software, SlowsOverlappingComputeAndCommunication) {
  auto m = counting_machine(2);
  const auto program = layers(3, m, true);
  m.device.software.interference = 0.5;
  const auto s = simulate(program, m);
  double end = 0;
  double compute = 0;
  for (const auto& span : s.timeline) {
    if (span.stream != 0) continue;
    if (span.start.value < 13 * kMicro) end = std::max(end, span.end.value / kMicro);
    compute += (span.end - span.start).value / kMicro;
  }
  EXPECT_NEAR(end, 14, 1e-9);
  EXPECT_NEAR(s.iteration.value / kMicro, 41 + 1, 1e-9);
  EXPECT_NEAR(compute, 15 + 2, 1e-9);
}

TEST(Software, LaunchesFusedKernelsOnce) {
  auto m = counting_machine(1);
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[8, 16]\n%w = weight() shape=[8, 16]\n%a = mul(%x, %w)\n"
      "%b = tanh(%a)\n%c = relu(%b)\n%t = input() shape=[8, 16]\n%loss = mse(%c, %t)\n"
      "return %loss\n");
  const machine::Digits digits(m);
  const auto program =
      lower::lower(plan::parallelize(model, digits, plan::named_choices(model, digits, {})), digits,
                   m.device.software, plan::Optimizer::kSgd);
  EXPECT_NEAR(micros(program, m), 2 * 4 + 1, 1e-9);
  m.device.software.fusion = machine::Fusion::kElementwise;
  EXPECT_NEAR(micros(program, m), 2 * 2, 1e-9);  // one kernel updates all weights
  m.device.software.dispatch = m.device.software.dispatch_backward = Seconds{10 * kMicro};
  EXPECT_NEAR(micros(program, m), 2 * 2 * 10 + 1, 1e-9);
}

}  // namespace
}  // namespace tandem::predict
