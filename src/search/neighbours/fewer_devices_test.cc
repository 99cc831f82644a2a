#include "search/neighbours/fewer_devices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace tandem::search {
namespace {

struct OnParts {
  const char* model;
  const char* machine;
  std::int64_t batch;
};

// Networks that are slower on all nodes. The batches do not divide over three nodes; layers are
// equal or not, at once or in micro-batches. One network trains faster on two nodes than on three.
TEST(FewerDevices, AreUsedIfFaster) {
  for (const auto& [text, name, batch] :
       {OnParts{"gpt2:layers=6", "dgx_a100:3", 64}, OnParts{"candle_uno", "summit:3", 4096},
        OnParts{"resnet50", "summit:3", 8192}, OnParts{"dlrm", "zionex:3", 2048}}) {
    const auto known = models::parse_model(text);
    const auto model = known.build(batch, DType::kFp32);
    const auto machine = machine::load_machine(name);
    Options options;
    options.algebra = RewriteSearch::kJoint;
    options.network = KnownNetwork{&known, batch, DType::kFp32};
    const auto all = search(model, machine, options);
    const auto fewer = search_fewer_devices(model, machine, options, all);
    ASSERT_TRUE(fewer.has_value()) << text;
    EXPECT_LT(fewer->machine.devices(), machine.devices()) << text;
    EXPECT_LT(fewer->result.best->simulation.iteration, all.best->simulation.iteration) << text;
  }
}

Seconds fastest(const OnParts& question) {
  const auto known = models::parse_model(question.model);
  const auto model = known.build(question.batch, DType::kFp32);
  const auto machine = machine::load_machine(question.machine);
  Options options;
  options.algebra = RewriteSearch::kJoint;
  options.network = KnownNetwork{&known, question.batch, DType::kFp32};
  const auto all = search(model, machine, options);
  const auto fewer = search_fewer_devices(model, machine, options, all);
  return fewer ? std::min(all.fastest, fewer->result.fastest) : all.fastest;
}

// The best layouts on all of 8 nodes leave 7 idle. One node alone is faster: its layouts are
// rewritten.
TEST(FewerDevices, AreThoseThatThePlanUses) {
  const std::string five = TANDEM_SOURCE_DIR "/tests/search/machines/five.machine";
  auto before = Seconds{std::numeric_limits<double>::infinity()};
  for (const int nodes : {1, 7, 8}) {
    const auto machine = five + ":" + std::to_string(nodes);
    const auto time = fastest({"mlp:layers=4,hidden=1024", machine.c_str(), 1024});
    EXPECT_LE(time, 1.002 * before) << nodes << " nodes";
    before = std::min(before, time);
  }
}

// Pipelines use parts whose nodes do not divide the batch: three stages on 6 of 8 nodes.
TEST(FewerDevices, NeedNotDivideTheBatch) {
  auto before = Seconds{std::numeric_limits<double>::infinity()};
  for (const int nodes : {2, 3, 5, 6, 7, 8}) {
    const auto machine = "dgx_a100_40gb:" + std::to_string(nodes);
    const auto time = fastest({"mlp:layers=16,hidden=1024", machine.c_str(), 2048});
    EXPECT_LE(time, 1.002 * before) << nodes << " nodes";
    before = std::min(before, time);
  }
}

// On a mixed machine, the nodes of the faster kind alone are considered however many others there
// are.
TEST(FewerDevices, AreThoseOfTheFasterKind) {
  auto before = Seconds{std::numeric_limits<double>::infinity()};
  for (const int slow : {4, 5, 6, 7}) {
    auto machine = machine::load_machine("dgx_a100_40gb:" + std::to_string(8 + slow));
    auto half = machine.device;
    for (auto& [dtype, rate] : half.peak) rate = 0.5 * rate;
    machine.groups = {{"fast", machine.device, 8}, {"slow", half, slow}};
    machine.device = half;
    const auto known = models::parse_model("mlp:layers=2,hidden=8192");
    const auto model = known.build(6144, DType::kFp32);
    Options options;
    options.algebra = RewriteSearch::kJoint;
    options.network = KnownNetwork{&known, 6144, DType::kFp32};
    const auto all = search(model, machine, options);
    const auto fewer = search_fewer_devices(model, machine, options, all);
    const auto time = fewer ? std::min(all.fastest, fewer->result.fastest) : all.fastest;
    EXPECT_LE(time, 1.002 * before) << slow << " slow nodes";
    before = std::min(before, time);
  }
}

// Small networks whose best part of a machine is hard to find. Some parts win by their layouts,
// others only after rewrites and placement of embedding tables.
TEST(FewerDevices, MakeMoreNodesNeverSlower) {
  for (const auto& [text, machine, batch] :
       {OnParts{"mlp:layers=4,hidden=1024", "summit", 1152},
        OnParts{"dlrm:tables=20,dim=32", "summit", 1152},
        OnParts{"dlrm:tables=13,dim=64", "summit", 4608}, OnParts{"xdl", "summit", 2304},
        OnParts{"dlrm", "zionex", 2048}}) {
    auto before = Seconds{std::numeric_limits<double>::infinity()};
    for (const int nodes : {1, 2, 3, 4, 6}) {
      const auto sized = fmt::format("{}:{}", machine, nodes);
      const auto now = fastest({text, sized.c_str(), batch});
      EXPECT_LE(now, 1.002 * before) << text << " on " << sized;
      before = now;
    }
  }
}

// Three nodes do not divide the batch, and the fourth has no memory for a stage.
TEST(FewerDevices, DropANodeWithLittleMemory) {
  constexpr std::int64_t kBatch = 64;
  const auto known = models::parse_model("llama3_8b:layers=6,vocab=8192");
  const auto model = known.build(kBatch, DType::kBf16);
  auto machine = machine::load_machine("dgx_h100:4");
  auto small = machine.device;
  small.memory = Bytes{1e8};
  machine.groups = {{"large", machine.device, 3}, {"small", small, 1}};
  machine.device = small;
  Options options;
  options.network = KnownNetwork{&known, kBatch, DType::kBf16};
  const auto all = search(model, machine, options);
  const auto fewer = search_fewer_devices(model, machine, options, all);
  EXPECT_FALSE(all.best.has_value());
  ASSERT_TRUE(fewer.has_value());
  EXPECT_EQ(fewer->machine.devices(), 24);
  EXPECT_TRUE(fewer->machine.groups.empty());
}

// Two of three fast nodes divide the batch, and are as fast as a machine with only two.
TEST(FewerDevices, DivideTheBatchIfTheFastestNodesDoNot) {
  constexpr std::int64_t kBatch = 512;
  const auto known = models::parse_model("resnet50");
  const auto model = known.build(kBatch, DType::kFp32);
  const auto takes = [&](std::int64_t fast) {
    auto machine = machine::load_machine(fmt::format("dgx_a100_40gb:{}", fast + 1));
    auto slow = machine.device;
    for (auto& [dtype, peak] : slow.peak) peak = 0.1 * peak;
    machine.groups = {{"fast", machine.device, fast}, {"slow", slow, 1}};
    machine.device = slow;
    Options options;
    options.algebra = RewriteSearch::kJoint;
    options.network = KnownNetwork{&known, kBatch, DType::kFp32};
    const auto all = search(model, machine, options);
    const auto fewer = search_fewer_devices(model, machine, options, all);
    return fewer ? std::min(all.fastest, fewer->result.fastest) : all.fastest;
  };
  const auto with_two = takes(2);
  const auto with_three = takes(3);
  EXPECT_LE(with_three, 1.002 * with_two);
}

}  // namespace
}  // namespace tandem::search
