#include "predict/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "machine/embedded.h"

namespace tandem::predict {
namespace {

using machine::Digits;
using machine::Machine;
using machine::Step;

constexpr Step kCollectives[] = {Step::kAllReduce, Step::kReduceScatter, Step::kAllGather,
                                 Step::kAllToAll,  Step::kReduce,        Step::kGather,
                                 Step::kBroadcast, Step::kScatter};

// Returns one level of 4 devices: 10 GB/s each, of which half is usable, 1 us.
Machine flat() {
  Machine m;
  m.levels = {{.name = "gpu",
               .count = 4,
               .bandwidth = BytesPerSecond{10e9},
               .latency = Seconds{1e-6},
               .shared = false,
               .utilization = 0.5}};
  return m;
}

// Returns 2 nodes of 4 devices: 8 GB/s per node, shared, and 100 us; inside 40 GB/s per device, 1
// us.
Machine make_nested_machine() {
  Machine m;
  m.levels = {
      {.name = "node",
       .count = 2,
       .bandwidth = BytesPerSecond{8e9},
       .latency = Seconds{1e-4},
       .shared = true},
      {.name = "gpu", .count = 4, .bandwidth = BytesPerSecond{40e9}, .latency = Seconds{1e-6}}};
  return m;
}

double seconds(const Machine& m, Step kind, machine::DigitMask group, double bytes) {
  return collective_time(m, Digits(m), kind, group, Bytes{bytes}).value;
}

// Digits of make_nested_machine(): node, then two of gpu. Bit 0 is the node's digit.
constexpr machine::DigitMask kNodes = 0b001, kInside = 0b110, kAll = 0b111;

TEST(CollectiveTime, EqualsTheRingFormulaOnOneLevel) {
  // 4 devices, 4 MB at 5 GB/s: three quarters take 0.6 ms, and 3 steps.
  struct Case {
    Step kind;
    double seconds;
  };
  const Case cases[] = {
      {Step::kReduceScatter, 0.6e-3 + 3e-6}, {Step::kAllGather, 0.6e-3 + 3e-6},
      {Step::kAllReduce, 1.2e-3 + 6e-6},     {Step::kAllToAll, 0.6e-3 + 3e-6},
      {Step::kBroadcast, 0.8e-3 + 3e-6},     {Step::kReduce, 0.8e-3 + 3e-6},
      {Step::kScatter, 0.6e-3 + 1e-6},       {Step::kGather, 0.6e-3 + 1e-6},
  };
  for (const auto& c : cases) {
    EXPECT_NEAR(seconds(flat(), c.kind, 0b11, 4e6), c.seconds, 1e-12) << name(c.kind);
  }
}

TEST(CollectiveTime, EqualsATwoLevelAllReduceComputedByHand) {
  // Inside: 3/4 of 8 MB at 40 GB/s take 0.15 ms, plus 3 us. Each device then reduces 2 MB with its
  // partner: half of it at 8/4 = 2 GB/s takes 0.5 ms, plus 100 us, and overlaps the transfers
  // inside. Each takes twice as long for the all-gather.
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kAllReduce, kAll, 8e6), 2 * (0.5e-3 + 0.103e-3),
              1e-12);
  // With a network ten times as fast, the links inside are the bottleneck.
  auto fast = make_nested_machine();
  fast.levels[0].bandwidth = BytesPerSecond{80e9};
  EXPECT_NEAR(seconds(fast, Step::kAllReduce, kAll, 8e6), 2 * (0.15e-3 + 0.103e-3), 1e-12);
  // Between the nodes, all four pairs communicate at the same time.
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kAllReduce, kNodes, 8e6), 2 * (2e-3 + 0.1e-3),
              1e-12);
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kAllReduce, kInside, 8e6), 2 * 0.153e-3, 1e-12);
}

TEST(CollectiveTime, EqualsATwoLevelAllToAllComputedByHand) {
  // 4 of 8 parts leave the node at 2 GB/s; meanwhile 3 go to neighbours at 40 GB/s.
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kAllToAll, kAll, 8e6), 2e-3 + 0.1e-3 + 0.003e-3,
              1e-12);
}

TEST(CollectiveTime, GivesASingleSenderTheFullLink) {
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kBroadcast, kAll, 8e6), 1e-3 + 0.1e-3 + 0.003e-3,
              1e-12);
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kScatter, kAll, 8e6), 7e6 / 8e9 + 0.1e-3, 1e-12);
  // With one group per GPU of a node, four roots share its bandwidth.
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kBroadcast, kNodes, 8e6), 4e-3 + 0.1e-3, 1e-12);
  EXPECT_NEAR(seconds(make_nested_machine(), Step::kScatter, kNodes, 8e6), 2e-3 + 0.1e-3, 1e-12);
}

TEST(CollectiveTime, SplitsAllReduceIntoReduceScatterAndAllGather) {
  for (machine::DigitMask group = 0; group <= kAll; ++group) {
    EXPECT_DOUBLE_EQ(seconds(make_nested_machine(), Step::kAllReduce, group, 1e6),
                     seconds(make_nested_machine(), Step::kReduceScatter, group, 1e6) +
                         seconds(make_nested_machine(), Step::kAllGather, group, 1e6));
  }
}

TEST(CollectiveTime, IsZeroForSingleDevicesAndLocalSteps) {
  for (const auto kind : kCollectives) EXPECT_EQ(seconds(make_nested_machine(), kind, 0, 1e9), 0);
  for (const auto kind : {Step::kSlice, Step::kDrop, Step::kMask, Step::kPad, Step::kZero}) {
    EXPECT_EQ(seconds(make_nested_machine(), kind, kAll, 1e9), 0);
    EXPECT_EQ(compute_bytes_sent(Digits(make_nested_machine()), kind, kAll, Bytes{1e9}), Bytes{0});
  }
}

TEST(CollectiveTime, GrowsWithBytes) {
  for (const auto kind : kCollectives) {
    for (machine::DigitMask group = 1; group <= kAll; ++group) {
      double last = 0;
      for (double bytes = 0; bytes < 1e9; bytes = 3 * bytes + 1000) {
        const double now = seconds(make_nested_machine(), kind, group, bytes);
        EXPECT_GT(now, last) << name(kind) << ' ' << group << ' ' << bytes;
        last = now;
      }
    }
  }
}

// A level's time is that of a switch, times the load of its fullest link.
TEST(CollectiveTime, FollowsTheTopology) {
  auto ring = flat();
  ring.levels[0].network = machine::make_torus(std::vector<std::int64_t>{4}, Seconds{1e-6}, false);
  // 4 MB at 5 GB/s per link: all-reduce in both directions; all-to-all with 4^2/8 of 3 parts.
  EXPECT_NEAR(seconds(ring, Step::kAllReduce, 0b11, 4e6), 2 * (0.3e-3 + 3e-6), 1e-12);
  EXPECT_NEAR(seconds(ring, Step::kAllToAll, 0b11, 4e6), 0.6e-3 * 2 / 3 + 3 * 4e-6 / 3, 1e-12);
  EXPECT_NEAR(seconds(ring, Step::kBroadcast, 0b11, 4e6), 0.8e-3 + 3e-6, 1e-12);
  // Pairs at distance two share the links between them, with half of the bytes in each direction.
  EXPECT_NEAR(seconds(ring, Step::kAllGather, 0b01, 4e6), 0.4e-3 + 2e-6, 1e-12);

  // Half duplex: a link either sends or receives.
  auto half = flat();
  half.levels[0].network = machine::make_fat_tree(4, 4, 1, Seconds{1e-6}, true);
  EXPECT_NEAR(seconds(half, Step::kAllReduce, 0b11, 4e6), 2 * (1.2e-3 + 3e-6), 1e-12);

  // Only the level between the nodes is oversubscribed.
  auto tree = make_nested_machine();
  tree.levels[0].count = 4;
  tree.levels[0].network = machine::make_fat_tree(4, 2, 2, Seconds{1e-4}, false);
  auto flat_nodes = tree;
  flat_nodes.levels[0].network = nullptr;
  const auto inside = 3e-6;  // latency of the steps inside; their bytes overlap
  const auto through_core = seconds(tree, Step::kAllToAll, 0b1111, 8e6) - inside;
  const auto on_a_switch = seconds(flat_nodes, Step::kAllToAll, 0b1111, 8e6) - inside;
  // 2 of 3 parts leave the leaf over a link of half the bandwidth: load 4/3; steps take 5/3 of the
  // latency.
  EXPECT_NEAR(through_core, (on_a_switch - 3e-4) * 4 / 3 + 5e-4, 1e-12);
}

// A switch given as links equals a switch.
TEST(CollectiveTime, TreatsLinksToOneSwitchAsASwitch) {
  auto links = make_nested_machine();
  std::vector<machine::Network::Link> star;
  for (std::int32_t unit = 0; unit < 4; ++unit) star.push_back({unit, 4, 1, Seconds{0.5e-6}});
  links.levels[1].network = machine::make_linked_network(4, 1, star, {});
  for (const auto kind : kCollectives) {
    for (machine::DigitMask group = 1; group <= kAll; ++group) {
      EXPECT_NEAR(seconds(links, kind, group, 8e6),
                  seconds(make_nested_machine(), kind, group, 8e6), 1e-12)
          << name(kind) << ' ' << group;
    }
  }
}

// Checks the rates in the comments of machines/local.machine. With two processes, each step of an
// all-reduce sends half of the bytes, and there are two steps; a send sends all bytes.
TEST(CollectiveTime, MatchesMeasurementsOfTheLocalMachine) {
  const auto local = machine::load_machine("local:2");
  const auto all = Digits(local).all();
  const auto latency = local.levels[0].latency.value;
  const std::map<std::string, std::pair<Step, double>> kinds = {
      {"all_reduce", {Step::kAllReduce, 2}}, {"send", {Step::kSend, 1}}};
  const std::regex line(R"(at (\d+) KiB +# \[PROFILE\] (all_reduce|send), ([0-9.]+) GB/s)");
  const auto files = machine::embedded_machines();
  const std::string text(std::ranges::find(files, "local", &EmbeddedFile::name)->text);
  int found = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), line); at != std::sregex_iterator();
       ++at) {
    const auto& [kind, steps] = kinds.at((*at)[2].str());
    const double bytes = 1024 * std::stod((*at)[1].str());
    const double measured = bytes / (1e9 * std::stod((*at)[3].str())) + steps * latency;
    EXPECT_NEAR(seconds(local, kind, all, bytes) / measured, 1, 0.01) << (*at)[0].str();
    ++found;
  }
  EXPECT_EQ(found, 16);
}

// Utilization depends on one device's bytes on the level: those that the levels inside have left.
TEST(CollectiveTime, FollowsAUtilizationCurve) {
  using Points = std::vector<machine::Utilization::Point>;
  auto curved = flat();
  curved.levels[0].utilization =
      machine::Utilization(Points{{Bytes{1e4}, 0.25}, {Bytes{4e6}, 0.5}, {Bytes{1e8}, 0.05}});
  for (const auto kind : kCollectives) {
    EXPECT_DOUBLE_EQ(seconds(curved, kind, 0b11, 4e6), seconds(flat(), kind, 0b11, 4e6));
    auto slow = flat();
    slow.levels[0].utilization = 0.05;
    EXPECT_DOUBLE_EQ(seconds(curved, kind, 0b11, 1e9), seconds(slow, kind, 0b11, 1e9));
    double last = 0;
    for (double bytes = 1; bytes < 1e9; bytes *= 2) {
      EXPECT_GT(seconds(curved, kind, 0b11, bytes), last) << name(kind) << bytes;
      last = seconds(curved, kind, 0b11, bytes);
    }
  }
  // Four devices inside a node leave a quarter each.
  auto outer = make_nested_machine();
  outer.levels[0].utilization = machine::Utilization(Points{{Bytes{2e6}, 0.5}, {Bytes{8e6}, 0.1}});
  EXPECT_NEAR(seconds(outer, Step::kAllReduce, kAll, 8e6), 2 * (2 * 0.5e-3 + 0.103e-3), 1e-12);
  EXPECT_FALSE(is_affine(outer, Digits(outer), Step::kAllReduce, kAll));
  EXPECT_TRUE(is_affine(outer, Digits(outer), Step::kAllReduce, kInside));
  EXPECT_TRUE(
      is_affine(make_nested_machine(), Digits(make_nested_machine()), Step::kAllReduce, kAll));
}

TEST(CollectiveTime, AppliesTheUtilizationOfOneCollective) {
  auto m = make_nested_machine();
  m.levels[1].utilization_of_step[Step::kAllReduce] = 0.5;
  for (const auto kind : kCollectives) {
    const double slower = kind == Step::kAllReduce ? 2 * 0.15e-3 : 0;
    EXPECT_NEAR(seconds(m, kind, kInside, 8e6),
                seconds(make_nested_machine(), kind, kInside, 8e6) + slower, 1e-12);
  }
}

TEST(CarryingTime, ExcludesStartAndLatency) {
  auto m = make_nested_machine();
  m.device.collective = Seconds{3e-5};
  const Digits d(m);
  for (const auto kind : kCollectives) {
    const auto carrying = bandwidth_time(m, d, kind, d.all(), Bytes{8e9});
    EXPECT_NEAR(carrying.value + seconds(m, kind, d.all(), 0), seconds(m, kind, d.all(), 8e9),
                1e-9);
    m.levels[0].latency = m.levels[1].latency = m.device.collective = Seconds{};
    EXPECT_NEAR(carrying.value, seconds(m, kind, d.all(), 8e9), 1e-9);
    m = make_nested_machine();
    m.device.collective = Seconds{3e-5};
  }
}

TEST(OutermostLevel, IsTheLevelOfTheFirstDigit) {
  const Digits digits(make_nested_machine());
  EXPECT_EQ(find_outermost_level(digits, kAll), 0U);
  EXPECT_EQ(find_outermost_level(digits, kNodes), 0U);
  EXPECT_EQ(find_outermost_level(digits, kInside), 1U);
  EXPECT_EQ(find_outermost_level(digits, 0b100), 1U);
}

TEST(BytesSent, EqualsRingFormulas) {
  const Digits digits(make_nested_machine());
  struct Case {
    Step kind;
    double bytes;
  };
  const Case cases[] = {
      {Step::kAllReduce, 14e6},  {Step::kReduceScatter, 7e6}, {Step::kAllGather, 7e6},
      {Step::kAllToAll, 7e6},    {Step::kBroadcast, 7e6},     {Step::kReduce, 7e6},
      {Step::kScatter, 7e6 / 8}, {Step::kGather, 7e6 / 8},
  };
  for (const auto& c : cases) {
    EXPECT_DOUBLE_EQ(compute_bytes_sent(digits, c.kind, kAll, Bytes{8e6}).value, c.bytes)
        << name(c.kind);
    EXPECT_EQ(compute_bytes_sent(digits, c.kind, 0, Bytes{8e6}), Bytes{0});
  }
}

// --- Starts and trees ----------------------------------------------------------------------------

TEST(CollectiveTime, IncludesAStart) {
  for (const auto kind : kCollectives) {
    auto m = make_nested_machine();
    const double before = seconds(m, kind, kAll, 1e6);
    m.device.collective = Seconds{3e-5};
    EXPECT_NEAR(seconds(m, kind, kAll, 1e6), before + 3e-5, 1e-15) << name(kind);
  }
  auto m = make_nested_machine();
  m.device.collective = Seconds{3e-5};
  EXPECT_EQ(seconds(m, Step::kSlice, kAll, 1e6), 0);
  EXPECT_EQ(halo_time(m, Digits(m), kNodes, Bytes{0}, 0), Seconds{0});
  EXPECT_NEAR(halo_time(m, Digits(m), kNodes, Bytes{0}, 2).value, 2e-4 + 3e-5, 1e-15);
}

// A tensor that all 4 devices of a node hold is sent to the next node in quarters and gathered
// there.
TEST(SendTime, SplitsReplicasIfTheSoftwareDoes) {
  auto m = make_nested_machine();
  const auto time = [&](machine::DigitMask group, machine::DigitMask copies) {
    return send_time(m, Digits(m), group, copies, Bytes{8e6}).value;
  };
  const auto whole = seconds(m, Step::kSend, kNodes, 8e6);
  EXPECT_NEAR(whole, 8e6 / 2e9 + 1e-4, 1e-12);
  EXPECT_EQ(time(kNodes, kInside), whole);
  m.device.software.send_parts = true;
  EXPECT_EQ(time(kNodes, 0), whole);
  EXPECT_NEAR(time(kNodes, kInside), 2e6 / 2e9 + 1e-4 + 0.75 * 8e6 / 40e9 + 3e-6, 1e-12);
  // Replicas outside of the sending unit do not help.
  EXPECT_EQ(time(0b010, 0b101), seconds(m, Step::kSend, 0b010, 8e6));
}

// Returns 64 nodes of 4 devices: 10 GB/s per device between nodes, 5 us; inside 100 GB/s, 1 us.
Machine many_nodes(bool trees) {
  Machine m;
  m.levels = {
      {.name = "node",
       .count = 64,
       .bandwidth = BytesPerSecond{10e9},
       .latency = Seconds{5e-6},
       .trees = trees},
      {.name = "gpu", .count = 4, .bandwidth = BytesPerSecond{100e9}, .latency = Seconds{1e-6}}};
  return m;
}

TEST(AllReduce, UsesTreesIfFaster) {
  const auto rings = many_nodes(false);
  const auto trees = many_nodes(true);
  const auto all = Digits(rings).all();
  const auto ring = [](double bytes) {
    return 2 * (3e-6 + 63.0 / 64 * bytes / 4 / 10e9 + 63 * 5e-6);
  };
  const auto tree = [](double bytes) { return 2 * (3e-6 + bytes / 4 / (0.92 * 10e9) + 6 * 5e-6); };
  for (const double bytes : {0.0, 1e3, 1e6, 1e8, 1e10}) {
    SCOPED_TRACE(bytes);
    EXPECT_NEAR(seconds(rings, Step::kAllReduce, all, bytes), ring(bytes),
                1e-12 + 1e-9 * ring(bytes));
    EXPECT_NEAR(seconds(trees, Step::kAllReduce, all, bytes), std::min(ring(bytes), tree(bytes)),
                1e-12 + 1e-9 * ring(bytes));
    EXPECT_EQ(seconds(trees, Step::kAllGather, all, bytes),
              seconds(rings, Step::kAllGather, all, bytes));
  }
  EXPECT_LT(tree(1e6), ring(1e6));
  EXPECT_GT(tree(1e10), ring(1e10));
  EXPECT_TRUE(is_affine(rings, Digits(rings), Step::kAllReduce, all));
  EXPECT_FALSE(is_affine(trees, Digits(trees), Step::kAllReduce, all));
  EXPECT_TRUE(is_affine(trees, Digits(trees), Step::kAllGather, all));
}

// Trees save nothing inside the innermost units or between two units.
TEST(AllReduce, UsesNoTreesInsideANode) {
  auto m = many_nodes(true);
  m.levels[1].trees = true;
  const auto inside = Digits(m).all() & ~((machine::DigitMask{1} << 6U) - 1);
  EXPECT_NEAR(seconds(m, Step::kAllReduce, inside, 1e3), 2 * (0.75 * 1e3 / 100e9 + 3e-6), 1e-12);
  m.levels[0].count = 2;
  EXPECT_TRUE(is_affine(m, Digits(m), Step::kAllReduce, Digits(m).all()));
}

}  // namespace
}  // namespace tandem::predict
