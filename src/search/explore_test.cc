#include "search/explore.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/text.h"
#include "machine/scale.h"
#include "models/model.h"
#include "strategies/setting_groups.h"

namespace tandem::search {
namespace {

// A model, a machine, and the case for them.
struct Situation {
  machine::Machine machine;
  machine::Digits digits;
  std::int64_t batch;
  graph::Graph model;
  strategies::Problem problem;

  Situation(std::string_view text, machine::Machine m, std::int64_t b)
      : machine(std::move(m)),
        digits(machine),
        batch(b),
        model(models::parse_model(text).build(batch, DType::kFp32)),
        problem(model, digits) {}

  [[nodiscard]] Case as_case(lower::Mode mode = lower::Mode::kTraining) const {
    return {.values = {},
            .problem = &problem,
            .machine = &machine,
            .batch = batch,
            .mode = mode,
            .limits = compute_memory_limits(machine, {})};
  }
};

constexpr std::string_view kSmall = "gpt2:layers=2,hidden=64,heads=4,ffn=128,vocab=128,seq=16";

Exploration explore_strategies(const Situation& on, const std::string& strategies,
                               std::size_t threads, lower::Mode mode = lower::Mode::kTraining) {
  return explore({on.as_case(mode)}, {strategies::list_named_settings(strategies, on.problem)},
                 {.threads = threads});
}

// ---- Points -------------------------------------------------------------------------------------

// A point has the text that `simulate --strategy` prints.
TEST(Explore, EvaluatesTheNamedStrategies) {
  const Situation on(kSmall, machine::load_machine("dgx_a100:2"), 64);
  const auto found = explore_strategies(on, "all", 1);
  EXPECT_GT(found.points.size(), 100U);
  EXPECT_EQ(found.points.size() + found.refused.size(), found.asked);
  for (const auto& point : found.points) {
    SCOPED_TRACE(point.name);
    const auto named = strategies::make_named_strategies(point.name, on.model, on.digits);
    ASSERT_EQ(named.size(), 1U);
    const auto costed =
        cost_choices(on.model, on.machine, named[0].name, named[0].choices, named[0].schedule,
                     plan::Optimizer::kSgd, compute_memory_limits(on.machine, {}));
    EXPECT_EQ(point.simulation.iteration, costed.simulation.iteration);
    EXPECT_EQ(point.simulation.memory, costed.simulation.memory);
    EXPECT_EQ(point.feasible, costed.feasible);
  }
}

// Points are estimates, within the tolerance of estimate_test.cc, if there are some. The others are
// simulated as before.
TEST(Explore, EstimatesNetworksOfEqualLayers) {
  const auto network =
      models::parse_model("gpt2:layers=8,hidden=256,heads=8,ffn=1024,vocab=1024,seq=256");
  const Situation on(network.text, machine::load_machine("dgx_a100:2"), 64);
  auto with_network = on.as_case();
  with_network.network = &network;
  const auto settings = strategies::list_named_settings("all", on.problem);
  const auto estimated = explore({with_network}, {settings}, {.threads = 2});
  const auto simulated = explore({on.as_case()}, {settings}, {.threads = 2});
  ASSERT_EQ(estimated.points.size(), simulated.points.size());
  ASSERT_EQ(estimated.refused.size(), simulated.refused.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < estimated.points.size(); ++i) {
    const auto& a = estimated.points[i];
    const auto& b = simulated.points[i];
    SCOPED_TRACE(b.name);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.feasible, b.feasible);
    EXPECT_NEAR(a.throughput, b.throughput, 0.01 * b.throughput);
    EXPECT_NEAR(a.simulation.memory.value, b.simulation.memory.value,
                0.05 * b.simulation.memory.value);
    if (a.throughput != b.throughput) ++different;
  }
  EXPECT_GT(different, estimated.points.size() / 2);  // most points are estimates
  const auto again = explore({with_network}, {settings}, {.threads = 1});
  for (std::size_t i = 0; i < again.points.size(); ++i) {
    EXPECT_EQ(again.points[i].throughput, estimated.points[i].throughput);
  }
}

// Pipelines of few layers have rough estimates. The fastest that fits and the Pareto front must
// still equal those of simulations. The other points differ by no more than their error bound.
TEST(Explore, IgnoresRoughEstimatesInDecisions) {
  const auto network = models::parse_model(
      "llama3_8b:layers=13,hidden=512,heads=8,kv_heads=8,ffn=2048,vocab=2048,seq=1024");
  const Situation on(network.text, machine::load_machine("dgx_a100:2"), 64);
  auto with_network = on.as_case();
  with_network.network = &network;
  const auto settings = strategies::list_named_settings("all", on.problem);
  const auto estimated = explore({with_network}, {settings}, {.threads = 1});
  const auto simulated = explore({on.as_case()}, {settings}, {.threads = 1});
  ASSERT_EQ(estimated.points.size(), simulated.points.size());
  std::size_t rough = 0;
  for (std::size_t i = 0; i < estimated.points.size(); ++i) {
    const auto& point = estimated.points[i];
    EXPECT_NEAR(point.throughput, simulated.points[i].throughput,
                (point.error_bound + 0.01) * point.throughput)
        << point.name;
    rough += point.is_rough() ? 1 : 0;
  }
  EXPECT_GT(rough, 0U);
  for (const auto i : find_pareto_front(estimated.points, list_points(estimated))) {
    EXPECT_FALSE(estimated.points[i].is_rough()) << estimated.points[i].name;
  }
  const auto best =
      find_fastest(simulated.points, list_points(simulated), MemoryConstraint::kLimited);
  const auto found =
      find_fastest(estimated.points, list_points(estimated), MemoryConstraint::kLimited);
  ASSERT_TRUE(best && found);
  EXPECT_GE(simulated.points[*found].throughput, 0.99 * simulated.points[*best].throughput);
}

TEST(Explore, IsTheSameForAnyNumberOfThreads) {
  const Situation on(kSmall, machine::load_machine("dgx_a100:1"), 32);
  const auto one = explore_strategies(on, "all", 1);
  const auto four = explore_strategies(on, "all", 4);
  ASSERT_EQ(one.points.size(), four.points.size());
  for (std::size_t i = 0; i < one.points.size(); ++i) {
    EXPECT_EQ(one.points[i].name, four.points[i].name);
    EXPECT_EQ(one.points[i].simulation.iteration, four.points[i].simulation.iteration);
    EXPECT_EQ(one.points[i].simulation.memory, four.points[i].simulation.memory);
  }
}

TEST(Explore, EvaluatesTheForwardPassForInference) {
  const Situation on(kSmall, machine::load_machine("dgx_a100:1"), 32);
  const auto training = explore_strategies(on, "dp", 1).points[0];
  const auto inference = explore_strategies(on, "dp", 1, lower::Mode::kInference).points[0];
  EXPECT_EQ(inference.simulation.serialized.count("all_reduce"), 0U);
  EXPECT_LT(inference.simulation.iteration.value, 0.5 * training.simulation.iteration.value);
  EXPECT_LT(inference.simulation.memory, training.simulation.memory);
}

TEST(Explore, ReportsWhyAStrategyIsRefused) {
  const Situation on(kSmall, machine::load_machine("dgx_a100:1"), 12);
  const auto found = explore_strategies(on, "baselines", 1);
  const auto dp = std::ranges::find(found.refused, "dp", &Refused::strategy);
  ASSERT_NE(dp, found.refused.end());
  EXPECT_NE(dp->why.find("12"), std::string::npos) << dp->why;
}

TEST(Explore, StopsEarlyWithPartialResults) {
  const Situation on(kSmall, machine::load_machine("dgx_a100:1"), 32);
  std::size_t asked = 0;
  const auto found = explore({on.as_case()}, {strategies::list_named_settings("all", on.problem)},
                             {.threads = 1, .stop = [&] { return asked++ == 5; }});
  EXPECT_EQ(found.points.size() + found.refused.size(), 5U);
  EXPECT_GT(found.asked, 5U);
}

// Multiplies rates by k and divides latencies and launches by k: everything takes 1/k of the time.
TEST(Explore, ScalesWithTheSpeedOfTheMachine) {
  const std::string models[] = {std::string(kSmall),
                                "dlrm_a:tables=16,rows=1000,bottom=64-64,top=64"};
  for (const auto& text : models) {
    for (const char* name : {"dgx_a100:2", "dgx_v100:2", "summit:2"}) {
      SCOPED_TRACE(text + " on " + name);
      const auto machine = machine::load_machine(name);
      const Situation before(text, machine, 96);
      const Situation after(text,
                            scale_machine(machine, {.compute = 8,
                                                    .bandwidth = 8,
                                                    .intra = 8,
                                                    .inter = 8,
                                                    .latency = 0.125,
                                                    .launch = 0.125}),
                            96);
      const auto slow = explore_strategies(before, "baselines", 1);
      const auto fast = explore_strategies(after, "baselines", 1);
      ASSERT_EQ(slow.points.size(), fast.points.size());
      for (std::size_t i = 0; i < slow.points.size(); ++i) {
        EXPECT_NEAR(slow.points[i].simulation.iteration / fast.points[i].simulation.iteration, 8,
                    1e-9)
            << slow.points[i].name;
        EXPECT_EQ(slow.points[i].simulation.memory, fast.points[i].simulation.memory);
      }
    }
  }
}

TEST(Explore, IsNeverSlowerOnFasterHardware) {
  const auto machine = machine::load_machine("dgx_a100:2");
  const auto before = explore_strategies(Situation(kSmall, machine, 64), "baselines", 1);
  for (const char* scale :
       {"compute=10", "memory=10", "intra=10", "inter=10", "latency=0.1", "launch=0.1"}) {
    const Situation on(kSmall, scale_machine(machine, machine::parse_scale(scale)), 64);
    const auto after = explore_strategies(on, "baselines", 1);
    for (std::size_t i = 0; i < before.points.size(); ++i) {
      EXPECT_LE(after.points[i].simulation.iteration.value,
                before.points[i].simulation.iteration.value * (1 + 1e-12))
          << scale << " " << before.points[i].name;
    }
  }
}

// ---- The Pareto front ---------------------------------------------------------------------------

std::vector<std::size_t> front_by_force(const std::vector<Evaluated>& points) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool beaten = std::ranges::any_of(points, [&](const Evaluated& p) {
      const bool no_worse = p.simulation.memory <= points[i].simulation.memory &&
                            p.throughput >= points[i].throughput;
      const bool better =
          p.simulation.memory < points[i].simulation.memory || p.throughput > points[i].throughput;
      return no_worse && better;
    });
    if (!beaten) out.push_back(i);
  }
  return out;
}

TEST(ParetoFront, EqualsBruteForce) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<Evaluated> points(random() % 20);
    for (auto& point : points) {  // few values, so that some are equal
      point.simulation.memory = Bytes{static_cast<double>(random() % 8)};
      point.throughput = static_cast<double>(random() % 8);
    }
    const Exploration all{.points = points, .refused = {}};
    EXPECT_EQ(find_pareto_front(points, list_points(all)), front_by_force(points));
  }
}

TEST(ParetoFront, ConsidersOnlyTheGivenPoints) {
  std::vector<Evaluated> points(3);
  for (std::size_t i = 0; i < 3; ++i) {
    points[i].simulation.memory = Bytes{static_cast<double>(i)};
    points[i].throughput = 1;
  }
  EXPECT_EQ(find_pareto_front(points, std::vector<std::size_t>{2, 1}), std::vector<std::size_t>{1});
}

TEST(Fastest, IsFoundWithAndWithoutTheLimit) {
  std::vector<Evaluated> points(3);
  for (std::size_t i = 0; i < 3; ++i) points[i].throughput = static_cast<double>(i);
  points[0].feasible = points[1].feasible = true;
  const std::vector<std::size_t> all = {0, 1, 2};
  EXPECT_EQ(find_fastest(points, all, MemoryConstraint::kLimited), 1U);
  EXPECT_EQ(find_fastest(points, all, MemoryConstraint::kUnlimited), 2U);
  points[0].feasible = points[1].feasible = false;
  EXPECT_EQ(find_fastest(points, all, MemoryConstraint::kLimited), std::nullopt);
}

// ---- Sweeps -------------------------------------------------------------------------------------

std::string axis_error(const std::string& text) {
  try {
    parse_axis(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Sweep, ListsCombinations) {
  std::string out;
  for (const auto& values :
       list_combinations({parse_axis("seq=1,2"), parse_axis(" batch = 3, 4")})) {
    out += to_text(values) + "; ";
  }
  EXPECT_EQ(out, "seq=1, batch=3; seq=1, batch=4; seq=2, batch=3; seq=2, batch=4; ");
  EXPECT_EQ(list_combinations({}).size(), 1U);
}

TEST(Sweep, AllowsCommasInValues) {
  const auto values = [](const char* text) { return join(parse_axis(text).values, " | "); };
  EXPECT_EQ(values("freeze=dense,experts"), "dense | experts");
  EXPECT_EQ(values("freeze=dense; dense,experts"), "dense | dense,experts");
  EXPECT_EQ(values("freeze=dense,experts;"), "dense,experts");
}

TEST(Sweep, ReportsErrors) {
  for (const std::string text : {"", "seq", "seq=", "=2", "seq=1,,2", "seq=;", "seq=1;;2"}) {
    EXPECT_EQ(axis_error(text),
              "--vary: '" + text +
                  "' does not have the form KEY=VALUE,... (write it like seq=2048,4096)");
  }
  EXPECT_THROW(list_combinations({parse_axis("seq=1"), parse_axis("seq=2")}), UserError);
  std::string many = "a=0";
  for (int i = 1; i < 101; ++i) many += "," + std::to_string(i);
  auto other = parse_axis(many);
  other.key = "b";
  EXPECT_THROW(list_combinations({parse_axis(many), other}), UserError);
}

// ---- Listing ------------------------------------------------------------------------------------

Evaluated make_point(std::size_t case_number, std::string strategy, double seconds, double bytes) {
  Evaluated out{.name = std::move(strategy), .case_number = case_number};
  out.simulation.iteration = Seconds{seconds};
  out.simulation.memory = Bytes{bytes};
  out.throughput = 1 / seconds;
  return out;
}

TEST(Explore, MergesEqualPointsUnderTheSimplestName) {
  std::vector<Evaluated> points = {make_point(0, "deepspeed:zero=3", 1, 5),
                                   make_point(0, "dp:micro=2,recompute=selective", 2, 5),
                                   make_point(0, "fsdp:recompute=selective", 1, 5),
                                   make_point(1, "fsdp", 1, 5),
                                   make_point(0, "dp:micro=2", 2, 5),
                                   make_point(0, "fsdp", 1, 5),
                                   make_point(0, "dp", 1, 6)};
  EXPECT_EQ(merge_equal(points, std::vector<std::size_t>{0, 1}),
            (std::vector<std::size_t>{0, 1, 0, 2, 1, 0, 3}));
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points[0].name, "fsdp");
  EXPECT_EQ(points[0].same_as,
            (std::vector<std::string>{"fsdp:recompute=selective", "deepspeed:zero=3"}));
  EXPECT_EQ(points[1].name, "dp:micro=2");
  EXPECT_EQ(points[1].same_as, std::vector<std::string>{"dp:micro=2,recompute=selective"});
  EXPECT_EQ(points[2].case_number, 1U);
  EXPECT_EQ(points[3].name, "dp");
  EXPECT_TRUE(points[3].same_as.empty());
}

TEST(Explore, MergesEqualPointsAcrossCases) {
  std::vector<Evaluated> points = {make_point(0, "dp:recompute=selective", 2, 5),
                                   make_point(1, "dp", 2, 5), make_point(2, "dp", 2, 5)};
  EXPECT_EQ(merge_equal(points, std::vector<std::size_t>{0, 0, 1}),
            (std::vector<std::size_t>{0, 0, 1}));
  EXPECT_EQ(points[0].name, "dp");
  EXPECT_EQ(points[0].case_number, 1U);
  EXPECT_EQ(points[0].same_as, std::vector<std::string>{"dp:recompute=selective"});
  EXPECT_EQ(points[1].case_number, 2U);
}

TEST(Explore, RanksTheHighestThroughputFirst) {
  const std::vector<Evaluated> points = {make_point(0, "a", 2, 1), make_point(1, "b", 1, 1),
                                         make_point(0, "c", 3, 1), make_point(1, "d", 1, 1)};
  EXPECT_EQ(rank_by_throughput(points), (std::vector<std::size_t>{1, 3, 0, 2}));
}

}  // namespace
}  // namespace tandem::search
