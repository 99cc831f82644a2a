// Tests the simulator against closed forms. To count compute tasks instead of timing them, each
// task takes exactly one launch and the device is otherwise infinitely fast.
#include "predict/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "graph/text.h"
#include "lower/lower.h"
#include "models/inference.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"
#include "predict/memory.h"

namespace tandem::predict {
namespace {

using graph::Graph;
using lower::Mode;
using lower::Program;
using machine::Digits;
using machine::Machine;
using plan::named_choices;
using plan::Optimizer;

constexpr double kMicro = 1e-6;
constexpr double kInfinite = 1e30;

// Launches take 1 us, links have 1 GB/s on each level, and nothing else takes time. An all-reduce
// of 1000 bytes over two devices then takes 1 us.
Machine counting_machine(const std::vector<std::int64_t>& counts) {
  Machine m = plan::make_machine(counts);
  m.device.peak = {{DType::kFp32, FlopsPerSecond{kInfinite}}};
  m.device.bandwidth = BytesPerSecond{kInfinite};
  m.device.launch = Seconds{kMicro};
  for (auto& level : m.levels) level.bandwidth = BytesPerSecond{1e9};
  return m;
}

Program lower_choices(const Graph& model, const Digits& digits,
                      const std::vector<plan::Choice>& choices, Mode mode = Mode::kTraining,
                      Optimizer optimizer = Optimizer::kSgd) {
  return lower::lower(plan::parallelize(model, digits, choices), digits, {}, optimizer, mode);
}

Program alone(const Graph& model, Mode mode = Mode::kTraining,
              Optimizer optimizer = Optimizer::kSgd) {
  const auto digits = plan::make_digits({1});
  return lower_choices(model, digits, named_choices(model, digits, {}), mode, optimizer);
}

Graph mlp(const std::string& settings, std::int64_t batch) {
  return models::parse_model("mlp:" + settings).build(batch, DType::kFp32);
}

// --- Time ----------------------------------------------------------------------------------------

TEST(Simulate, AddsAChainOfCompute) {
  auto m = plan::make_machine({1});
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e9}}};
  m.device.compute_utilization = 0.5;
  m.device.bandwidth = BytesPerSecond{kInfinite};
  m.device.launch = Seconds{3 * kMicro};
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[8, 16]\n%w1 = weight() shape=[32, 16]\n"
      "%w2 = weight() shape=[4, 32]\n%y = linear(%x, %w1)\n%z = linear(%y, %w2)\nreturn %z\n");
  const auto s = simulate(alone(model, Mode::kInference), m);
  const double flops = 2.0 * 8 * 16 * 32 + 2.0 * 8 * 32 * 4;
  EXPECT_NEAR(s.iteration.value, flops / 0.5e9 + 6 * kMicro, 1e-15);
  EXPECT_EQ(s.model_flops, Flops{flops});
  EXPECT_NEAR(s.mfu, flops / 1e9 / s.iteration.value, 1e-12);
  EXPECT_EQ(s.compute, s.iteration);
  EXPECT_EQ(s.exposed_comm, Seconds{});
  EXPECT_EQ(s.bubble, Seconds{});
}

TEST(Simulate, LaunchesEveryTaskOnceOnOneDevice) {
  const auto s =
      simulate(alone(mlp("layers=3,inputs=4,hidden=4,outputs=4", 2)), counting_machine({1}));
  // Linears, ReLUs and the loss, forward and backward, and three updates.
  EXPECT_NEAR(s.iteration.value, (2 * (3 + 2 + 1) + 3) * kMicro, 1e-15);
}

// Three layers, data parallel on two devices. In microseconds, forward ends at 6. The loss follows,
// and then linears at 8, 10 and 12, each followed by the all-reduce of its gradient. The updates
// come after all compute, each after its all-reduce.
TEST(Simulate, OverlapsDataParallelAllReducesWithTheBackwardPass) {
  struct Case {
    std::int64_t inputs, hidden, outputs;
    const char* what;
  };
  const Case cases[] = {{100, 10, 25, "the last all-reduce sticks out"},
                        {25, 10, 25, "all hidden"},
                        {25, 10, 1000, "the first one delays the others"},
                        {25, 100, 25, "the middle one does"},
                        {1000, 1000, 1000, "communication bound"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    const auto model = mlp(
        fmt::format("layers=3,inputs={},hidden={},outputs={}", c.inputs, c.hidden, c.outputs), 2);
    const auto m = counting_machine({2});
    const Digits digits(m);
    const auto program = lower_choices(model, digits,
                                       named_choices(model, digits,
                                                     {{"linear1", "d0"},
                                                      {"relu1", "d0"},
                                                      {"linear2", "d0"},
                                                      {"relu2", "d0"},
                                                      {"linear3", "d0"},
                                                      {"loss", "d0"}}));
    const auto s = simulate(program, m);
    const auto time = [](std::int64_t rows, std::int64_t columns) {
      return static_cast<double>(rows * columns * 4) / 1000;
    };
    const double end3 = 8 + time(c.outputs, c.hidden);
    const double end2 = std::max(10.0, end3) + time(c.hidden, c.hidden);
    const double end1 = std::max(12.0, end2) + time(c.hidden, c.inputs);
    const double update3 = std::max(12.0, end3) + 1;
    const double update2 = std::max(update3, end2) + 1;
    const double update1 = std::max(update2, end1) + 1;
    const double tolerance = 1e-9 * update1;
    EXPECT_NEAR(s.iteration.value / kMicro, update1, tolerance);
    EXPECT_NEAR(s.compute.value / kMicro, 15, tolerance);
    // Communication lasts until the last update, so there is no bubble.
    EXPECT_NEAR(s.exposed_comm.value / kMicro, update1 - 15, tolerance);
    EXPECT_NEAR(s.bubble.value / kMicro, 0, tolerance);
    EXPECT_NEAR(s.serialized.at("all_reduce").value / kMicro,
                time(c.outputs, c.hidden) + time(c.hidden, c.hidden) + time(c.hidden, c.inputs),
                tolerance);
  }
}

// If cores copy data themselves, no communication overlaps compute.
TEST(Simulate, StallsComputeOnDevicesThatMoveDataThemselves) {
  const auto model = mlp("layers=3,inputs=100,hidden=100,outputs=100", 2);
  auto m = counting_machine({2});
  const Digits digits(m);
  const auto run = [&] {
    const auto choices = named_choices(model, digits,
                                       {{"linear1", "d0"},
                                        {"relu1", "d0"},
                                        {"linear2", "d0"},
                                        {"relu2", "d0"},
                                        {"linear3", "d0"},
                                        {"loss", "d0"}});
    return simulate(lower_choices(model, digits, choices), m);
  };
  const auto overlapped = run();
  m.levels[0].by_device = true;
  const auto s = run();
  EXPECT_NEAR(s.compute.value, overlapped.compute.value, 1e-12);
  EXPECT_LT(overlapped.exposed_comm, overlapped.serialized.at("all_reduce"));
  EXPECT_NEAR(s.exposed_comm.value, s.serialized.at("all_reduce").value, 1e-12);
  EXPECT_NEAR(s.iteration.value, (s.compute + s.exposed_comm).value, 1e-12);
}

TEST(Simulate, ExposesTensorParallelAllReduces) {
  const auto model = mlp("layers=2,inputs=4,hidden=6,outputs=250", 8);
  const auto m = counting_machine({2});
  const Digits digits(m);
  const auto program = lower_choices(
      model, digits,
      named_choices(model, digits, {{"linear1", "n"}, {"relu1", "d1"}, {"linear2", "k"}}));
  const auto s = simulate(program, m);
  // The all-reduces of the pair's result forward and its gradient backward: [8, 250] in 8 us.
  EXPECT_NEAR(s.serialized.at("all_reduce").value, 2 * 8 * kMicro, 1e-15);
  EXPECT_NEAR(s.exposed_comm.value, 2 * 8 * kMicro, 1e-15);
  EXPECT_NEAR(s.compute.value, (2 * 4 + 2) * kMicro, 1e-15);
  EXPECT_NEAR(s.iteration.value, 26 * kMicro, 1e-15);
}

// --- Properties of random programs ---------------------------------------------------------------

// Returns a machine whose numbers are all finite and different.
Machine ordinary_machine(const std::vector<std::int64_t>& counts, double link_speed = 1) {
  Machine m = plan::make_machine(counts);
  m.device.peak = {{DType::kFp32, FlopsPerSecond{2e9}}};
  m.device.compute_utilization = 0.7;
  m.device.bandwidth = BytesPerSecond{3e9};
  m.device.launch = Seconds{0.3 * kMicro};
  double speed = 0.5e9 * link_speed;
  for (auto& level : m.levels) {
    level.bandwidth = BytesPerSecond{speed *= 2};
    level.latency = Seconds{0.1 * kMicro / link_speed};
    level.shared = &level == m.levels.data();
  }
  return m;
}

// Calls visit(model, choices, counts).
template <class Visit>
void for_each_random_plan(Visit&& visit) {
  for (const auto& counts :
       std::vector<std::vector<std::int64_t>>{{2}, {2, 2}, {2, 3}, {2, 2, 2}}) {
    const auto digits = plan::make_digits(counts);
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", digits.devices(), seed));
      const auto model = plan::random_model(digits.devices(), seed);
      visit(model, plan::random_choices(model, digits, seed), counts);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(Simulate, SplitsTheIterationIntoComputeExposedAndBubble) {
  for_each_random_plan([](const Graph& model, const auto& choices, const auto& counts) {
    const auto m = ordinary_machine(counts);
    const auto s = simulate(lower_choices(model, Digits(m), choices), m);
    const double whole = s.iteration.value;
    EXPECT_NEAR((s.compute + s.exposed_comm + s.bubble).value, whole, 1e-12 * whole);
    EXPECT_GE(s.exposed_comm.value, 0);
    EXPECT_GE(s.bubble.value, -1e-12 * whole);
    double serialized = 0;
    for (const auto& span : s.timeline) serialized += (span.end - span.start).value;
    EXPECT_LE(whole, serialized * (1 + 1e-12));
    EXPECT_GT(s.mfu, 0);
    EXPECT_LE(s.mfu, 1);
    // A stream runs one task at a time.
    std::map<std::pair<std::uint32_t, std::uint32_t>, Seconds> free;
    for (const auto& span : s.timeline) {
      auto& at = free[{span.device_class, span.stream}];
      EXPECT_GE(span.start, at);
      at = span.end;
    }
  });
}

TEST(Simulate, IsNeverSlowerWithFasterLinks) {
  for_each_random_plan([](const Graph& model, const auto& choices, const auto& counts) {
    const auto m = ordinary_machine(counts);
    const auto program = lower_choices(model, Digits(m), choices);
    double last = simulate(program, m).iteration.value;
    for (const double speed : {1.5, 4.0, 1000.0}) {
      const double now = simulate(program, ordinary_machine(counts, speed)).iteration.value;
      EXPECT_LE(now, last * (1 + 1e-12)) << speed;
      last = now;
    }
  });
}

TEST(Simulate, IgnoresNames) {
  for_each_random_plan([](const Graph& model, const auto& choices, const auto& counts) {
    const auto renamed =
        graph::parse_graph(std::regex_replace(graph::to_text(model), std::regex("%"), "%other_"));
    const auto m = ordinary_machine(counts);
    const auto a = simulate(lower_choices(model, Digits(m), choices), m);
    const auto b = simulate(lower_choices(renamed, Digits(m), choices), m);
    EXPECT_EQ(a.iteration, b.iteration);
    EXPECT_EQ(a.serialized, b.serialized);
    EXPECT_EQ(a.memory, b.memory);
    EXPECT_EQ(a.timeline.size(), b.timeline.size());
  });
}

// Each of 2 devices receives one of 8 rows, with 2 channels and 4 columns, and returns its
// gradient.
TEST(Simulate, ChargesAHaloItsBytesAndOneLatencyPerNeighbour) {
  auto m = counting_machine({2});
  m.levels[0].latency = Seconds{kMicro};
  const Digits digits(m);
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[1, 2, 8, 4]\n%b = weight() shape=[1, 2, 8, 4]\n"
      "%w = weight() shape=[3, 2, 3, 3]\n%t = input() shape=[1, 3, 8, 4]\n%a = add(%x, %b)\n"
      "%y = conv2d(%a, %w) padding=[1, 1]\n%loss = mse(%y, %t)\nreturn %loss\n");
  const auto program = lower_choices(
      model, digits, named_choices(model, digits, {{"a", "d2"}, {"y", "y"}, {"loss", "d2"}}));
  const auto s = simulate(program, m);
  EXPECT_NEAR(s.serialized.at("halo").value, kMicro + 32e-9, 1e-12);
  EXPECT_NEAR(s.serialized.at("halo_reduce").value, kMicro + 32e-9, 1e-12);
}

// --- Buckets -------------------------------------------------------------------------------------

// Returns `layers` weights of [64, 64] on two data-parallel devices. Weights are replicated or
// sharded.
Program layers_in_buckets(int layers, Bytes bucket, bool stored_in_parts) {
  const auto digits = plan::make_digits({2});
  const auto model = mlp(fmt::format("layers={},inputs=64,hidden=64,outputs=64", layers), 2);
  std::map<std::string, std::string> words = {{"loss", "d0"}};
  for (int i = 1; i <= layers; ++i) {
    words[fmt::format("linear{}", i)] = words[fmt::format("relu{}", i)] = "d0";
  }
  auto choices = named_choices(model, digits, words);
  for (auto id : model.ids()) {
    if (!is_weight(model.node(id)) || !stored_in_parts) continue;
    choices[id.index()].source = machine::parse_layout("0").value();
  }
  plan::Schedule schedule;
  schedule.bucket = bucket;
  return lower::lower(plan::parallelize(model, digits, choices, schedule), digits, {},
                      Optimizer::kSgd);
}

// Latency dominates: each all-reduce takes two latencies of 5 us, and 16384 ns for its bytes.
TEST(Buckets, CostOneLatency) {
  constexpr int kLayers = 8;
  auto m = counting_machine({2});
  m.levels[0].latency = Seconds{5 * kMicro};
  const auto time = [&](double bucket) {
    return simulate(layers_in_buckets(kLayers, Bytes{bucket}, false), m);
  };
  constexpr double kBytes = 64 * 64 * 4e-9;  // seconds for one weight
  const auto alone = time(0);
  const auto together = time(1e9);
  EXPECT_NEAR(alone.serialized.at("all_reduce").value, kLayers * (10 * kMicro + kBytes), 1e-12);
  EXPECT_NEAR(together.serialized.at("all_reduce").value, 10 * kMicro + kLayers * kBytes, 1e-12);
  // Forward takes 2 L launches. The first gradient is ready 2 launches later, the last at 4 L, and
  // then the updates follow.
  EXPECT_NEAR(alone.iteration.value,
              (2 * kLayers + 2) * kMicro + kLayers * (10 * kMicro + kBytes) + kMicro, 1e-12);
  EXPECT_NEAR(together.iteration.value,
              4 * kLayers * kMicro + 10 * kMicro + kLayers * kBytes + kLayers * kMicro, 1e-12);
  EXPECT_LT(together.iteration, alone.iteration);
}

// All gradients wait for the last one. If they are reduce-scattered, the bucket holds a copy of
// them.
TEST(Buckets, CountTheirGradients) {
  constexpr double kWeight = 64 * 64 * 4;
  constexpr int kLayers = 6;
  const auto gradients = [&](double bucket, bool stored_in_parts) {
    const auto memory = compute_memory(layers_in_buckets(kLayers, Bytes{bucket}, stored_in_parts));
    return memory.part(lower::BufferKind::kGradient).value;
  };
  constexpr double kNear = 4096;  // activations are [1, 64]
  EXPECT_NEAR(gradients(1e9, false), 2 * kLayers * kWeight, kNear);
  EXPECT_NEAR(gradients(1e9, true), 2.5 * kLayers * kWeight, kNear);
}

// --- Rings ---------------------------------------------------------------------------------------

// Returns the program of scores = q . k on four devices, with q sharded over s and k over t.
Program scores(bool ring) {
  const auto digits = plan::make_digits({4});
  const auto model = graph::parse_graph(
      "graph g\n%q = input() shape=[64, 32]\n%x = input() shape=[128, 32]\n%k = relu(%x)\n"
      "%y = contract(%q, %k) index=\"s d, t d -> s t\"\nreturn %y\n");
  plan::Schedule schedule;
  schedule.ring = ring;
  const auto choices = named_choices(model, digits, {{"k", "d0 d0"}, {"y", "s s"}});
  return lower::lower(plan::parallelize(model, digits, choices, schedule), digits, {},
                      Optimizer::kSgd, Mode::kInference);
}

// A device computes on one block while it receives the next: the first block, and then for each
// further one the longer of the two times.
TEST(Rings, OverlapBlocksWithTransfers) {
  constexpr int kBlocks = 4;
  constexpr double kBlockFlops = 2.0 * 16 * 32 * 32;
  constexpr double kBlockBytes = 32 * 32 * 4;
  for (const double bandwidth : {0.2e9, 1e9, 50e9}) {
    SCOPED_TRACE(bandwidth);
    auto m = plan::make_machine({4});
    m.device.peak = {{DType::kFp32, FlopsPerSecond{10e9}}};
    m.device.bandwidth = BytesPerSecond{kInfinite};
    m.levels[0].bandwidth = BytesPerSecond{bandwidth};
    const double compute = kBlockFlops / 10e9;
    const double way = kBlockBytes / bandwidth;
    const auto gathered = simulate(scores(false), m);
    const auto ring = simulate(scores(true), m);
    const double before = gathered.compute.value - kBlocks * compute;  // the ReLU
    EXPECT_NEAR(gathered.iteration.value, before + (kBlocks - 1) * way + kBlocks * compute, 1e-12);
    EXPECT_NEAR(ring.iteration.value, before + compute + (kBlocks - 1) * std::max(way, compute),
                1e-12);
    EXPECT_NEAR(ring.compute.value, gathered.compute.value, 1e-12);
    EXPECT_EQ(ring.model_flops, gathered.model_flops);
  }
}

// Two blocks are alive at a time instead of all. The result is alive either way.
TEST(Rings, HoldTwoBlocks) {
  constexpr double kBlock = 32 * 32 * 4;
  constexpr double kScores = 16 * 128 * 4;
  constexpr double kQueries = 16 * 32 * 4;
  EXPECT_EQ(compute_memory(scores(false)).peak, Bytes{kQueries + kScores + 4 * kBlock});
  EXPECT_EQ(compute_memory(scores(true)).peak, Bytes{kQueries + kScores + 2 * kBlock});
}

// --- Memory --------------------------------------------------------------------------------------

// x is [64, 64], and each tensor has 16 KiB. `op` is applied twice after a linear; then comes the
// loss.
Memory compute_chain_memory(const std::string& op) {
  const auto text = fmt::format(
      "graph g\n%x = input() shape=[64, 64]\n%w = weight() shape=[64, 64]\n%t = input() shape=[64, "
      "64]\n"
      "%a = linear(%x, %w)\n%b = {}\n%c = {}\n%loss = mse(%c, %t)\nreturn %loss\n",
      fmt::format(fmt::runtime(op), "%a"), fmt::format(fmt::runtime(op), "%b"));
  return compute_memory(alone(graph::parse_graph(text)));
}

TEST(Memory, FreesTensorsNotSavedForBackward) {
  constexpr double kTensor = 64 * 64 * 4;
  constexpr double kScalar = 4;
  // gelu needs its operand: x, t, a, b, c, and the gradient of c while the loss's gradient is
  // alive.
  const auto saved = compute_chain_memory("gelu({})");
  EXPECT_EQ(saved.persistent, Bytes{kTensor});
  EXPECT_EQ(saved.peak, Bytes{kTensor + 6 * kTensor + kScalar});
  // For a ReLU the result is enough: a is freed after b.
  EXPECT_EQ(compute_chain_memory("relu({})").peak, Bytes{kTensor + 5 * kTensor + kScalar});
  // Sums need neither: a is freed after b, b after c. This leaves x, t, c and the gradient of c ...
  const auto freed = compute_chain_memory("add({0}, {0})");
  EXPECT_EQ(freed.peak, Bytes{kTensor + 4 * kTensor + kScalar});
}

TEST(Memory, IncludesPersistentBuffers) {
  for_each_random_plan([](const Graph& model, const auto& choices, const auto& counts) {
    const auto digits = plan::make_digits(counts);
    const auto training = lower_choices(model, digits, choices);
    const auto inference = lower_choices(model, digits, choices, Mode::kInference);
    const auto adam = lower_choices(model, digits, choices, Mode::kTraining, Optimizer::kAdam);
    Bytes most;
    for (std::int64_t d = 0; d < digits.devices(); ++d) {
      const auto memory = compute_memory(training, d);
      most = std::max(most, memory.peak);
      EXPECT_GE(memory.peak, memory.persistent);
      Bytes sum;
      for (auto part : memory.parts) sum += part;
      EXPECT_DOUBLE_EQ(sum.value, memory.peak.value);
      EXPECT_EQ(compute_memory(inference, d).persistent, memory.persistent);
      EXPECT_LE(compute_memory(inference, d).peak, memory.peak);
      // Adam adds two states per weight.
      const auto with_states = compute_memory(adam, d);
      EXPECT_EQ(with_states.persistent, 3 * memory.persistent);
      EXPECT_EQ(with_states.peak - with_states.persistent, memory.peak - memory.persistent);
    }
    EXPECT_EQ(compute_memory(training).peak, most);
  });
}

// A cache has a key and a value for every token in every layer, and lives all the time. The new
// entry takes the place of the input that it is appended to.
TEST(Memory, IncludesTheCacheInInference) {
  const std::string sizes = "layers=3,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11";
  constexpr double kBatch = 2;
  constexpr double kHeads = 2;
  constexpr double kWidth = 4;
  constexpr double kLayers = 3;
  constexpr double kTokens = 7;
  const Bytes cache{4 * 2 * kLayers * kBatch * kHeads * kTokens * kWidth};
  const auto memory_of_model = [&](const std::string& text) {
    const auto model = models::parse_model("llama3_8b:" + sizes + text).build(2, DType::kFp32);
    return std::pair(alone(models::convert_to_inference(model), Mode::kInference),
                     models::count_weight_bytes(model));
  };
  for (const char* text : {",seq=7", ",cache=6"}) {
    SCOPED_TRACE(text);
    const auto [program, weights] = memory_of_model(text);
    const auto memory = compute_memory(program);
    EXPECT_EQ(memory.cache, cache);
    EXPECT_EQ(memory.persistent, weights);
    EXPECT_GE(memory.peak, weights + cache);
    const auto over_time = compute_memory_over_time(program, 0);
    Bytes end;
    for (auto part : over_time.back().parts) end += part;
    // At the end there are the cache, and the operands and result of the last matmul.
    const double tokens = text[1] == 's' ? 7 : 1;
    EXPECT_EQ(end, weights + cache + Bytes{4 * kBatch * tokens * (16 + 11)});
  }
}

TEST(Memory, PeaksOverTimeAtTheReportedPeak) {
  for_each_random_plan([](const Graph& model, const auto& choices, const auto& counts) {
    const auto digits = plan::make_digits(counts);
    const auto program = lower_choices(model, digits, choices);
    for (std::int64_t d = 0; d < digits.devices(); ++d) {
      const auto memory = compute_memory(program, d);
      const auto over_time = compute_memory_over_time(program, d);
      Bytes most;
      for (const auto& moment : over_time) {
        Bytes sum;
        for (auto part : moment.parts) sum += part;
        most = std::max(most, sum);
      }
      EXPECT_DOUBLE_EQ(most.value, memory.peak.value);
      Bytes held = memory.persistent;
      for (const auto& h : list_held_buffers(program, d, memory.moment)) held += h.bytes;
      EXPECT_DOUBLE_EQ(held.value, memory.peak.value);
    }
  });
}

}  // namespace
}  // namespace tandem::predict
