// Tests of machine files beyond equal devices on switches: topologies, half duplex, groups of
// devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "machine/device_fields.h"
#include "machine/machine.h"
#include "machine/parse.h"
#include "machine/parse_test_support.h"

namespace tandem::machine {
namespace {

const std::string kDevice = R"(machine toy
device A100
  memory 40 GB
  reserve 1 GB
  bandwidth 1.5 TB/s
  memory_utilization 0.7
  peak fp32 156 TFLOP/s
  peak bf16 312 TFLOP/s
  launch 4 us
)";

// Returns a machine of 8 units with these lines in its level; they start at line 13.
std::string add_lines(std::string_view lines) {
  return kDevice + "level node 8\n  bandwidth 10 GB/s\n  latency 2 us\n" + std::string(lines) +
         "\n";
}

std::string get_error(const std::string& text, std::int64_t size = 0) {
  return parse_error(text, size);
}

double load(const Machine& m, Pattern pattern) {
  const std::array<std::int64_t, 3> digits = {2, 2, 2};
  return m.levels[0].network->compute_cost(pattern, digits, 0b111).load;
}

TEST(TopologyText, ReadsEveryKind) {
  const auto parse_lines = [](std::string_view lines) {
    return parse_machine(add_lines(lines), "toy.machine");
  };
  EXPECT_EQ(parse_lines("").levels[0].network, nullptr);
  EXPECT_EQ(parse_lines("topology switch").levels[0].network, nullptr);
  EXPECT_DOUBLE_EQ(load(parse_lines("topology ring"), Pattern::kAllToAll), 64.0 / 8 / 7);
  EXPECT_DOUBLE_EQ(load(parse_lines("topology torus 2x4"), Pattern::kRing), 0.5);
  EXPECT_DOUBLE_EQ(load(parse_lines("topology fat_tree 2 4:1"), Pattern::kAllToAll), 4 * 6.0 / 7);
  EXPECT_EQ(parse_lines("topology torus 2x4").levels[0].topology, "torus 2x4");
  const auto star = parse_lines(
      "topology links\nlink 0 s\nlink 1 s\nlink 2 s\nlink 3 s\nlink 4 s\nlink 5 s\nlink 6 s\n"
      "link 7 s 5 GB/s 3 us");
  EXPECT_DOUBLE_EQ(load(star, Pattern::kAllToAll), 2);
  EXPECT_DOUBLE_EQ(star.levels[0]
                       .network->compute_cost(Pattern::kChain, std::array<std::int64_t, 1>{8}, 1)
                       .latency.value,
                   5e-6);
}

TEST(TopologyText, HalfDuplexSharesTheBandwidth) {
  auto text = add_lines("");
  text.replace(text.find("10 GB/s"), 7, "10 GB/s shared half by_device");
  const auto m = parse_machine(text, "toy.machine");
  EXPECT_TRUE(m.levels[0].shared);
  EXPECT_TRUE(m.levels[0].half_duplex);
  EXPECT_TRUE(m.levels[0].by_device);
  EXPECT_DOUBLE_EQ(load(m, Pattern::kRing), 2);
}

TEST(TopologyText, ReportsLineCauseAndRemedy) {
  struct Case {
    std::string_view lines, error;
  };
  const Case cases[] = {
      {"topology mesh",
       "toy.machine:13: topology mesh: unknown topology (expected one of: switch, 'fat_tree 16 "
       "2:1' (16 units per leaf, uplinks with half of the bandwidth), ring, 'torus 4x4', links, "
       "'links packed')"},
      {"topology ring\ntopology ring", "toy.machine:14: 'topology' is given twice"},
      {"topology torus 3x3",
       "toy.machine:13: topology torus 3x3: has 9 units, but level 'node' has 8 (the product of "
       "the extents must be the count of the level)"},
      {"topology torus 999999x999999x999999x999999",
       "toy.machine:13: topology torus 999999x999999x999999x999999: has 9.99996000006e+23 units, "
       "but level 'node' has 8 (the product of the extents must be the count of the level)"},
      {"topology ring\nlink 0 1",
       "toy.machine:14: level 'node': its topology is ring, not links (links and routes require a "
       "line 'topology links' in the level)"},
      {"link 0 1",
       "toy.machine:13: level 'node': its topology is switch, not links (links and routes require "
       "a line 'topology links' in the level)"},
      {"topology links\nlink 0 1",
       "toy.machine:10: level 'node': no links lead from unit 0 to unit 2 (add the missing link)"},
      {"topology links",
       "toy.machine:10: level 'node': no links lead from unit 0 to unit 1 (add the missing link)"},
      {"topology links\nlink 0 8",
       "toy.machine:14: link 0 8: there is no unit 8 (level 'node' has units 0 to 7)"},
      {"topology links\nlink 0 -1",
       "toy.machine:14: link 0 -1: there is no unit -1 (level 'node' has units 0 to 7)"},
      {"topology links\nlink 0 0", "toy.machine:14: link 0 0: connects 0 with itself"},
      {"topology links\nlink 0 1\nlink 1 0",
       "toy.machine:15: link 1 0: 1 and 0 are already connected (for a double link, write one link "
       "with twice the bandwidth)"},
      {"topology links\nlink 0",
       "toy.machine:14: link 0: expected two units or switches "
       "(write it like 'link 0 1', 'link 0 leaf' or 'link 0 1 50 GB/s 2 us half')"},
      {"topology links\nlink 0 1 50 Gb/s",
       "toy.machine:14: link 0 1 50 Gb/s: expected a rate like '25 GB/s' "
       "(units: MB/s, GB/s, TB/s, MiB/s, GiB/s)"},
      {"topology links\nlink 0 1 nan GB/s",
       "toy.machine:14: link 0 1 nan GB/s: expected a rate like '25 GB/s' "
       "(units: MB/s, GB/s, TB/s, MiB/s, GiB/s)"},
      {"topology links\nlink 0 1 0 GB/s",
       "toy.machine:14: link 0 1 0 GB/s: must be greater than 0"},
      {"topology links\nlink 0 1 1e200 GB/s", "toy.machine:14: link 0 1 1e200 GB/s: out of range"},
      {"topology links\nlink 0 1 1 GB/s 2 GB/s",
       "toy.machine:14: link 0 1 1 GB/s 2 GB/s: has two bandwidths"},
      {"topology links\nroute 0 1",
       "toy.machine:14: route 0 1: expected two units and the points between them (write it like "
       "'route 0 3 via 1 2')"},
      {"topology links\nlink 0 s\nlink 1 s\nlink 2 s\nlink 3 s\nlink 4 s\nlink 5 s\nlink 6 s\n"
       "link 7 s\nroute 0 2 via 1",
       "toy.machine:22: route 0 2 via 1: there is no link between 0 and 1"},
      {"topology links\nlink 0 s\nlink 1 s\nlink 2 s\nlink 3 s\nlink 4 s\nlink 5 s\nlink 6 s\n"
       "link 7 s\nroute 0 2 via s\nroute 0 2 via s",
       "toy.machine:23: route 0 2 via s: a second route from 0 to 2"},
  };
  for (const auto& c : cases) EXPECT_EQ(get_error(add_lines(c.lines)), c.error);
}

TEST(UtilizationText, AcceptsOneNumberOrOnePerSize) {
  EXPECT_EQ(
      parse_machine(add_lines("utilization 0.9"), "toy.machine").levels[0].utilization.at(Bytes{}),
      0.9);
  const auto m = parse_machine(
      add_lines("utilization 0.5 at 64 KiB\nutilization 1 at 1 MB\nutilization 0.2 at 64 MB"),
      "toy.machine");
  const auto& points = m.levels[0].utilization.points();
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].size, Bytes{65536});
  EXPECT_EQ(points[2].part, 0.2);
  EXPECT_EQ(m.levels[0].utilization.at(Bytes{64e6}), 0.2);
  EXPECT_NE(hash_machine(m),
            hash_machine(parse_machine(add_lines("utilization 0.5"), "toy.machine")));
}

TEST(UtilizationText, AcceptsOneCollective) {
  const auto m = parse_machine(add_lines("utilization all_reduce 0.5 at 64 KiB\nutilization 0.8\n"
                                         "utilization all_reduce 0.25 at 1 MB\nutilization send 1"),
                               "toy.machine");
  const auto& level = m.levels[0];
  EXPECT_EQ(level.get_utilization(Step::kAllReduce).at(Bytes{1e6}), 0.25);
  EXPECT_EQ(level.get_utilization(Step::kSend).at(Bytes{1e6}), 1);
  EXPECT_EQ(level.get_utilization(Step::kAllGather).at(Bytes{1e6}), 0.8);
  EXPECT_NE(hash_machine(m),
            hash_machine(parse_machine(add_lines("utilization 0.8"), "toy.machine")));
}

TEST(UtilizationText, ReportsLineCauseAndRemedy) {
  struct Case {
    std::string_view lines, error;
  };
  const Case cases[] = {
      {"utilization 0.5\nutilization 0.5 at 1 MB",
       "toy.machine:14: level node: utilization 0.5 at 1 MB: 'utilization' is given twice (write "
       "one line for all sizes, or lines that all end like 'at 64 KiB')"},
      {"utilization send 0.5 at 1 MB\nutilization send 0.5",
       "toy.machine:14: level node: utilization send 0.5: 'utilization' is given twice (write one "
       "line for all sizes, or lines that all end like 'at 64 KiB')"},
      {"utilization 0.5 at 1 MB\nutilization 0.5 at 1 MB",
       "toy.machine:14: utilization 0.5 at 1 MB: sizes must increase from line to line"},
      {"utilization 0.5 at 1 MB\nutilization 0.9 at 1.5 MB",
       "toy.machine:14: utilization 0.9 at 1.5 MB: 1.5 MB would take less time than 1 MB (the "
       "smaller size reaches 0.5)"},
      {"utilization 0.5 at big",
       "toy.machine:13: utilization at big: expected an amount like '16 GB' "
       "(units: B, KB, MB, GB, TB, KiB, MiB, GiB)"},
      {"utilization 0.5 at",
       "toy.machine:13: utilization at: expected an amount like '16 GB' "
       "(units: B, KB, MB, GB, TB, KiB, MiB, GiB)"},
      {"utilization slice 0.5",
       "toy.machine:13: utilization slice 0.5: unknown collective 'slice' (expected all_reduce, "
       "all_gather, reduce_scatter, all_to_all, send, ...)"},
      {"utilization",
       "toy.machine:13: utilization: expected a fraction like '0.8' (expected a number without a "
       "unit)"},
      {"utilization 2 at 1 MB",
       "toy.machine:13: utilization 2: must not be greater than 1 (expected the fraction of the "
       "rated value that is reached in practice, like '0.8')"},
  };
  for (const auto& c : cases) EXPECT_EQ(get_error(add_lines(c.lines)), c.error);
}

TEST(TopologyText, LimitsTheUnitsOfOtherTopologies) {
  const auto text = [](std::string_view topology) {
    return kDevice + "level node ?\n  bandwidth 10 GB/s\n  latency 2 us\ntopology " +
           std::string(topology) + "\n";
  };
  EXPECT_EQ(get_error(text("ring"), 1025),
            "toy.machine:13: level 'node': 1025 units, more than 1024 for this topology (switch "
            "and fat_tree allow any number of units)");
  EXPECT_EQ(get_error(text("ring"), 1024), "no error");
  EXPECT_EQ(get_error(text("fat_tree 32 2:1"), 100000), "no error");
  EXPECT_EQ(get_error(text("torus 4x4"), 0).substr(0, 40),
            "toy.machine:10: toy needs a size: toy:SI");
}

const std::string kV100 = R"(device V100
  memory 32 GB
  reserve 3 GB
  bandwidth 0.9 TB/s
  memory_utilization 0.8
  peak fp32 15.7 TFLOP/s
  peak fp16 125 TFLOP/s
  launch 5 us
)";

TEST(DeviceGroups, MapIndicesToDevices) {
  const auto m = parse_machine(kV100 + add_lines("group new A100 3\ngroup old V100 5") +
                                   "level gpu 4\n bandwidth 100 GB/s\n latency 1 us\n",
                               "toy.machine");
  EXPECT_EQ(m.devices(), 32);
  EXPECT_EQ(m.get_device(0).name, "A100");
  EXPECT_EQ(m.get_device(11).name, "A100");
  EXPECT_EQ(m.get_device(12).name, "V100");
  EXPECT_EQ(m.get_device(31).name, "V100");
  // A plan for all devices assumes the weakest device in every respect.
  EXPECT_EQ(m.device.name, "A100+V100");
  EXPECT_EQ(m.device.peak.size(), 1U);
  EXPECT_EQ(m.device.peak.at(DType::kFp32), FlopsPerSecond{15.7e12});
  EXPECT_EQ(m.device.memory, Bytes{32e9});
  EXPECT_EQ(m.device.reserve, Bytes{3e9});
  EXPECT_EQ(m.device.bandwidth, BytesPerSecond{0.9e12});
  EXPECT_EQ(m.device.memory_utilization, 0.7);
  EXPECT_DOUBLE_EQ(m.device.launch.value, 5e-6);
}

TEST(DeviceGroups, AreOmittedForEqualDevices) {
  const auto m = parse_machine(add_lines(""), "toy.machine");
  EXPECT_TRUE(m.groups.empty());
  EXPECT_EQ(m.get_device(7).name, "A100");
}

TEST(DeviceGroups, ReportLineCauseAndRemedy) {
  struct Case {
    std::string text, error;
  };
  const auto both = [](std::string_view lines) { return kV100 + add_lines(lines); };
  const Case cases[] = {
      {both(""),
       "toy.machine:18: level 'node': the file has 2 devices, but no groups that assign them to "
       "units (add a line like 'group first V100 2' for each device)"},
      {both("group new A100 3\ngroup old V100 4"),
       "toy.machine:18: level 'node': its groups have 7 units in total, not 8 (put every unit into "
       "one group)"},
      {both("group new A100 8"), "toy.machine: device 'V100' is in no group"},
      {both("group new A1000 8"),
       "toy.machine:21: group 'new': unknown device 'A1000' (did you mean 'A100'?)"},
      {both("group new A100 4\ngroup new V100 4"), "toy.machine:22: group 'new' is given twice"},
      {both("group new A100"),
       "toy.machine:21: group new A100: expected a name, a device and a number of units (write it "
       "like 'group old V100 4')"},
      {both("group new A100 0"),
       "toy.machine:21: group new A100 0: expected a name, a device and a number of units (write "
       "it like 'group old V100 4')"},
      {both("level gpu 2\nbandwidth 1 GB/s\nlatency 1 us\ngroup new A100 2"),
       "toy.machine:24: group new A100 2: not allowed in level 'gpu' (only units of the outermost "
       "level have groups)"},
      {kDevice + kDevice.substr(kDevice.find("device")),
       "toy.machine:10: device 'A100' is given twice"},
  };
  for (const auto& c : cases) EXPECT_EQ(get_error(c.text), c.error);
  auto other = both("group new A100 3\ngroup old V100 5");
  other.replace(other.find("peak fp32 15.7"), 9, "peak fp64");
  EXPECT_EQ(get_error(other),
            "toy.machine: the devices A100+V100 have no element type in common (add a 'peak' of "
            "the same type to each device)");
}

TEST(MachineHash, DistinguishesTopologiesAndGroups) {
  const auto hash = [](const std::string& text) {
    return hash_machine(parse_machine(text, "toy.machine"));
  };
  EXPECT_EQ(hash(add_lines("")), hash(add_lines("topology switch")));
  EXPECT_NE(hash(add_lines("")), hash(add_lines("topology ring")));
  EXPECT_NE(hash(add_lines("topology torus 2x4")), hash(add_lines("topology ring")));
  const auto groups = [&](std::string_view lines) { return hash(kV100 + add_lines(lines)); };
  EXPECT_NE(groups("group new A100 3\ngroup old V100 5"),
            groups("group new A100 4\ngroup old V100 4"));
}

TEST(MachineFile, ListsItsSources) {
  const auto file = load_machine_file("summit");
  ASSERT_EQ(file.sources.size(), 5U);
  EXPECT_TRUE(file.sources[0].starts_with("[OLCF]  Summit User Guide")) << file.sources[0];
  EXPECT_EQ(file.open_level, "node");
  EXPECT_EQ(file.source, "machines/summit.machine");
}

TEST(BuiltinMachines, GiveSixDgxLinksPerGpu) {
  const auto m = load_machine("dgx_v100:1");
  const std::array<std::int64_t, 3> digits = {2, 2, 2};
  const auto& network = *m.levels[1].network;
  // There are three rings, each in both directions: 150 GB/s, six times a single link.
  EXPECT_DOUBLE_EQ(network.compute_cost(Pattern::kRing, digits, 0b111).load, 1.0 / 6);
  // In a group of four neighbours, each has four links or more to the others.
  EXPECT_DOUBLE_EQ(network.compute_cost(Pattern::kRing, digits, 0b110).load, 1.0 / 4);
  // Neighbours in it have a double link.
  EXPECT_DOUBLE_EQ(network.compute_cost(Pattern::kChain, digits, 0b100).load, 0.5);
  // Tests two GPUs with a single link, and one GPU that a double link joins to the other four.
  const auto part = [&](const std::vector<std::int32_t>& units) {
    const std::array<std::int64_t, 1> all = {static_cast<std::int64_t>(units.size())};
    return network.make_subnetwork(units)->compute_cost(Pattern::kRing, all, 1).load;
  };
  EXPECT_DOUBLE_EQ(part({0, 3}), 1);
  EXPECT_DOUBLE_EQ(part({0, 1, 2, 3, 4, 5, 7}), 1.0 / 4);
  EXPECT_DOUBLE_EQ(part({0, 1, 2, 3, 7}), 0.5);
}

// Tests `local` as measured on this computer, if a measured file exists.
TEST(LocalMachine, ReadsTheCacheDirectoryByDefault) {
  const auto directory = testing::TempDir() + "tandem_cache";
  std::filesystem::create_directories(directory + "/tandem");
  auto text = add_lines("");
  text.replace(text.find("node 8"), 6, "node ?");
  std::ofstream(directory + "/tandem/local.machine") << text;
  const auto* before = std::getenv("TANDEM_NO_CACHE");
  const std::string previous = before == nullptr ? "" : before;
  setenv("XDG_CACHE_HOME", directory.c_str(), 1);
  unsetenv("TANDEM_NO_CACHE");
  EXPECT_EQ(load_machine("local:3").name, "toy:3");
  EXPECT_EQ(load_machine_file("local:3").source, directory + "/tandem/local.machine");
  setenv("TANDEM_NO_CACHE", "1", 1);
  EXPECT_EQ(load_machine("local:3").name, "local:3");
  unsetenv("XDG_CACHE_HOME");
  if (before == nullptr)
    unsetenv("TANDEM_NO_CACHE");
  else
    setenv("TANDEM_NO_CACHE", previous.c_str(), 1);
}

// The reference has a row for each field that the parser reads.
TEST(MachineFile, DocumentsEveryField) {
  std::ifstream file(TANDEM_SOURCE_DIR "/docs/reference/machine-format.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const auto expect_row = [&](std::string_view name) {
    EXPECT_NE(page.find(fmt::format("| `{}", name)), std::string::npos) << name;
  };
  for (const auto& field : device_numbers()) expect_row(field.name);
  for (const auto& field : device_words()) expect_row(field.name);
  for (const auto* field : {"bandwidth", "latency", "trees", "utilization", "topology", "group"}) {
    expect_row(field);
  }
}

}  // namespace
}  // namespace tandem::machine
