// Compares the estimate with the simulation of the whole program for random networks, machines and
// strategies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/fewer_test_support.h"
#include "base/hash.h"
#include "lower/lower.h"
#include "plan/parallelize.h"
#include "predict/estimator.h"
#include "strategies/grid.h"

namespace tandem::predict {
namespace {

struct Drawn {
  std::int64_t layers = 3;
  std::string family = "gpt2";
  std::string sizes;
  std::string machine;
  std::int64_t batch = 0;
  std::string strategy;

  [[nodiscard]] std::string model() const {
    return fmt::format("{}:layers={}{}", family, layers, sizes);
  }
};

std::string to_text(const Drawn& c) {
  return fmt::format("{} {} --batch {} {}", c.model(), c.machine, c.batch, c.strategy);
}

// Returns a machine on which half of the nodes have slower devices with less memory.
machine::Machine mixed_machine(std::int64_t nodes) {
  return machine::parse_machine(fmt::format(R"(machine mixed
usage mixed
doc two generations of nodes
device fast
  memory 40 GB
  reserve 1 GB
  bandwidth 1500 GB/s
  peak bf16 300 TFLOP/s
  launch 5 us
device slow
  memory 32 GB
  reserve 1 GB
  bandwidth 900 GB/s
  peak bf16 120 TFLOP/s
  launch 5 us
level node {}
  bandwidth 12.5 GB/s
  latency 4 us
  group fast fast {}
  group slow slow {}
level gpu 8
  bandwidth 150 GB/s
  latency 2 us
)",
                                            nodes, nodes - nodes / 2, nodes / 2),
                                "mixed.machine");
}

// Returns a machine on which the devices of a node share its link.
machine::Machine shared_machine(std::int64_t nodes) {
  return machine::parse_machine(fmt::format(R"(machine shared
usage shared
doc one network card a node
device gpu
  memory 80 GB
  reserve 1 GB
  bandwidth 1500 GB/s
  peak bf16 300 TFLOP/s
  launch 5 us
level node {}
  bandwidth 25 GB/s shared
  latency 4 us
level gpu 8
  bandwidth 32 GB/s
  latency 2 us
)",
                                            nodes),
                                "shared.machine");
}

machine::Machine make_machine(const std::string& name) {
  constexpr std::string_view kMixed = "mixed:";
  constexpr std::string_view kShared = "shared:";
  if (name.starts_with(kShared)) return shared_machine(std::stoll(name.substr(kShared.size())));
  if (!name.starts_with(kMixed)) return machine::load_machine(name);
  return mixed_machine(std::stoll(name.substr(kMixed.size())));
}

class Draw {
 public:
  // `machine`: name of a machine with several nodes to use instead of the known ones.
  Draw(Hash seed, std::vector<std::int64_t> layers, std::string machine = {})
      : state_(seed), layers_(std::move(layers)), machine_(std::move(machine)) {}

  Drawn operator()() {
    Drawn out;
    const bool llama = chance(3);
    out.family = llama ? "llama3_8b" : "gpt2";
    const auto hidden = one_of({512, 1024, 2048});
    out.layers = one_of(layers_);
    out.sizes = fmt::format(",hidden={},heads=16,ffn={},seq={},vocab={}{}", hidden, 4 * hidden,
                            one_of({512, 1024, 2048}), one_of({8192, 32000, 50257}),
                            llama ? ",kv_heads=8" : "");
    const auto nodes = one_of({1, 2, 4});
    const auto devices = 8 * nodes;
    out.machine = draw_text({"dgx_a100", "dgx_h100", "dgx_a100"});
    const auto software = out.machine == "dgx_h100"
                              ? draw_text({"", "", "torchtitan"})
                              : draw_text({"", "", "megatron", "megatron-deepspeed", "llm-foundry",
                                           "torchtitan", "aleph-alpha"});
    out.machine += fmt::format(":{}{}", nodes, software.empty() ? "" : ",software=" + software);
    out.batch = devices * one_of({4, 8, 16});
    out.strategy = strategy(devices, out.batch);
    if (!machine_.empty() && nodes > 1) out.machine = fmt::format("{}:{}", machine_, nodes);
    return out;
  }

  // Returns a pipeline of any ZeRO stage and recomputation. Its stages are smaller than a layer,
  // have several layers, or end inside layers.
  Drawn pipeline() {
    Drawn out;
    const bool llama = chance(2);
    out.family = llama ? "llama3_8b" : "gpt2";
    const auto hidden = one_of({1024, 2048, 4096});
    out.sizes = fmt::format(",hidden={},heads=16,ffn={},seq={},vocab={}{}", hidden, 4 * hidden,
                            one_of({1024, 2048, 4096}), one_of({8192, 32000, 50257}),
                            llama ? ",kv_heads=8" : "");
    const auto nodes = one_of({2, 4});
    const auto devices = 8 * nodes;
    out.machine = machine_.empty()
                      ? fmt::format("dgx_a100:{}{}", nodes, draw_text({"", ",software=megatron"}))
                      : fmt::format("{}:{}", machine_, nodes);
    const auto pp = one_of({2, 4, 8});
    const auto tp = one_of({1, 2});
    const auto cp = one_of({1, 1, 1, 2 * tp * pp <= devices ? 2 : 1});
    const auto dp = devices / tp / pp / cp;
    const auto interleave = one_of({1, 1, 1, 2});
    const auto stages = pp * interleave;
    const auto layers = chance(3)   ? stages - 1 - next(stages)
                        : chance(2) ? stages * one_of({1, 2, 3, 5, 8})
                                    : stages * one_of({1, 2, 3, 5}) + 1 + next(stages - 1);
    out.layers = std::max<std::int64_t>(3, layers);
    const auto micro = pp * one_of({1, 2, 4});
    out.batch = dp * micro * one_of({1, 2});
    out.strategy = fmt::format("megatron:tp={},pp={},dp={},micro={}", tp, pp, dp, micro);
    if (cp > 1) out.strategy += ",cp=2";
    if (tp > 1 && chance(2)) out.strategy += ",sp";
    if (interleave > 1) out.strategy += ",interleave=2";
    out.strategy += draw_text({"", ",zero=1", ",zero=2", ",zero=3"});
    out.strategy +=
        draw_text({"", "", ",recompute=full", ",recompute=selective", ",recompute=save_matmuls"});
    return out;
  }

 private:
  std::string strategy(std::int64_t devices, std::int64_t batch) {
    const auto recompute = draw_text({"", "", ",recompute=full", ",recompute=selective"});
    if (chance(3)) {
      const auto micro = one_of({1, 1, 2, 4});
      const auto kind = draw_text(
          {"dp:", "fsdp:", "deepspeed:zero=1,", "deepspeed:zero=2,", "deepspeed:zero=3,"});
      return fmt::format("{}micro={}{}", kind, micro, recompute);
    }
    std::int64_t tp = one_of({1, 2, 4, 8});
    std::int64_t pp = one_of({1, 2, 4, 8});
    while (tp * pp > devices) pp /= 2;
    const auto dp = devices / tp / pp;
    std::int64_t micro = one_of({1, 2, 4, 8, 16});
    micro = std::min(micro * pp, batch / dp);
    std::string out = fmt::format("megatron:tp={},pp={},dp={},micro={}", tp, pp, dp, micro);
    if (tp > 1 && chance(2)) out += ",sp";
    if (pp > 1 && chance(3)) out += fmt::format(",interleave={}", one_of({2, 3}));
    if (pp > 1 && chance(3)) out += draw_text({",ends=1-1", ",ends=1-2", ",ends=0-1"});
    if (chance(3)) out += fmt::format(",zero={}", one_of({1, 1, 2}));
    return out + recompute;
  }

  std::int64_t next(std::int64_t below) {
    state_ = mix(state_ + 0x9e3779b97f4a7c15ULL);
    return static_cast<std::int64_t>(state_ % static_cast<Hash>(below));
  }
  bool chance(std::int64_t of) { return next(of) == 0; }
  std::int64_t one_of(std::vector<std::int64_t> all) {
    return all[static_cast<std::size_t>(next(static_cast<std::int64_t>(all.size())))];
  }
  std::string draw_text(std::vector<std::string> all) {
    return all[static_cast<std::size_t>(next(static_cast<std::int64_t>(all.size())))];
  }
  Hash state_;
  std::vector<std::int64_t> layers_;
  std::string machine_;
};

struct Off {
  double time = 0;
  double memory = 0;
  double bound = 0;  // Estimate::choose_error_bound
  [[nodiscard]] double most() const { return std::max(std::abs(time), std::abs(memory)); }
};

// Returns nullopt if the strategy is refused or if there is no estimate.
std::optional<Off> off(const Drawn& c) {
  try {
    const auto model = models::parse_model(c.model());
    const auto machine = make_machine(c.machine);
    const machine::Digits digits(machine);
    const auto graph = model.build(c.batch, DType::kBf16);
    const auto strategy = strategies::make_named_strategies(c.strategy, graph, digits)[0];
    Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, {}});
    const auto fast = estimator.estimate(strategy.setting, c.batch);
    if (!fast) return std::nullopt;
    const machine::Digits with_time(machine, strategy.schedule.micro_batches);
    const auto mapped = plan::parallelize(graph, with_time, strategy.choices, strategy.schedule);
    const auto whole = simulate(
        lower::lower(mapped, with_time, machine.device.software, plan::Optimizer::kAdam), machine);
    return Off{fast->step.iteration / whole.iteration - 1, fast->step.memory / whole.memory - 1,
               fast->error_bound};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

bool is_beyond_bound(const Drawn& c) {
  const auto found = off(c);
  return found && found->most() > found->bound;
}

// Returns the simplest change of `c`, one setting at a time, that also exceeds its bound.
Drawn shrunk(Drawn c) {
  const auto without = [](std::string text, const std::string& what) {
    const auto at = text.find(what);
    if (at == std::string::npos) return text;
    const auto end = text.find(',', at + 1);
    return text.erase(at, end == std::string::npos ? end : end - at);
  };
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<Drawn> simpler;
    const auto with = [&](auto&& change) {
      auto other = c;
      change(other);
      if (to_text(other) != to_text(c)) simpler.push_back(std::move(other));
    };
    with([&](Drawn& d) { d.machine = without(d.machine, ",software"); });
    for (const char* what : {",recompute", ",sp", ",interleave", ",zero"}) {
      with([&](Drawn& d) { d.strategy = without(d.strategy, what); });
    }
    if (c.layers > 7) with([](Drawn& d) { --d.layers; });
    for (const auto& other : simpler) {
      if (!is_beyond_bound(other)) continue;
      c = other;
      changed = true;
      break;
    }
  }
  return c;
}

const std::vector<std::int64_t> kFewLayers = {3, 4, 5, 6, 8, 9, 12, 16, 17};
const std::vector<std::int64_t> kManyLayers = {18, 20, 24, 25, 30, 32, 36, 40, 48, 60, 64, 96};

struct Compared {
  unsigned near = 0;  // estimates that are not rough
  unsigned rough = 0;
};

// Expects every estimate, including rough ones, to be within its own bound of the simulation. One
// in thousands may be off by `more`.
template <class Make>
Compared compare(Hash first, Hash end, Make&& make, double more = 0) {
  Compared out;
  for (Hash seed = first; seed < end; ++seed) {
    const Drawn c = make(seed);
    const auto found = off(c);
    if (!found) continue;
    ++(found->bound > Estimate::kNear ? out.rough : out.near);
    EXPECT_LE(found->most(), found->bound + more) << "seed " << seed << ": " << to_text(shrunk(c));
    // Memory is far off only if stages share a weight.
    constexpr double kMemory = 0.035;
    if (c.family != "gpt2") {
      EXPECT_LE(std::abs(found->memory), kMemory) << "seed " << seed << ": " << to_text(c);
    }
  }
  return out;
}

auto draw_layers(const std::vector<std::int64_t>& layers, const std::string& machine = {}) {
  return [=](Hash seed) { return Draw(seed, layers, machine)(); };
}
auto draw_pipelines(const std::string& machine = {}) {
  return [=](Hash seed) { return Draw(seed, {}, machine).pipeline(); };
}

TEST(RandomSettings, HaveEstimatesThatEqualSimulations) {
  EXPECT_GE(compare(0, 360 / kFewer, draw_layers(kFewLayers)).near, 121 / kFewer);
  EXPECT_GT(compare(0, 240 / kFewer, draw_layers(kManyLayers)).near, 100 / kFewer);
}

TEST(RandomSettings, AreEstimatedOnMixedMachines) {
  EXPECT_GT(compare(0, 240 / kFewer, draw_layers(kManyLayers, "mixed")).near, 20 / kFewer);
}

TEST(RandomSettings, AreEstimatedOnSharedLinks) {
  EXPECT_GT(compare(0, 240 / kFewer, draw_layers(kManyLayers, "shared")).near, 50 / kFewer);
}

TEST(RandomSettings, BoundPipelinesOfAnyZeroAndStage) {
  EXPECT_GT(compare(0, 160 / kFewer, draw_pipelines()).rough, 120 / kFewer);
  EXPECT_GT(compare(0, 80 / kFewer, draw_pipelines("mixed")).rough, 60 / kFewer);
  EXPECT_GT(compare(0, 80 / kFewer, draw_pipelines("shared")).rough, 60 / kFewer);
}

TEST(RandomSettings, HaveEstimatesThatEqualSimulationsNightly) {
  EXPECT_GT(compare(360, 6000, draw_layers(kFewLayers)).near, 2000U);
  EXPECT_GT(compare(240, 6000, draw_layers(kManyLayers)).near, 2500U);
}

TEST(RandomSettings, BoundPipelinesOfAnyZeroAndStageNightly) {
  constexpr double kMore = 0.005;
  EXPECT_GT(compare(160, 3000, draw_pipelines(), kMore).rough, 2000U);
  EXPECT_GT(compare(80, 1500, draw_pipelines("mixed"), kMore).rough, 1000U);
  EXPECT_GT(compare(80, 1500, draw_pipelines("shared"), kMore).rough, 1000U);
}

}  // namespace
}  // namespace tandem::predict
