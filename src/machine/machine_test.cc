#include "machine/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/text.h"
#include "machine/embedded.h"
#include "machine/parse_test_support.h"

namespace tandem::machine {
namespace {

constexpr std::string_view kGood = R"(# a comment
machine toy
usage toy:NODES
doc two things, in boxes  # not this
device thing
  memory 16 GiB
  bandwidth 900 GB/s
  peak fp32 15.7 TFLOP/s
  peak fp16 0.125 PFLOP/s
level box ?
  bandwidth 24 GB/s shared
  latency 2 us
  utilization 0.5
level slot 3
  bandwidth 100 GB/s
  latency 0 s
)";

// Returns kGood with the first `from` replaced.
std::string replace_text(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string get_error(const std::string& text, std::int64_t size = 4) {
  return parse_error(text, size);
}

std::string load_error(const std::string& name) {
  try {
    load_machine(name);
  } catch (const UserError& e) {
    EXPECT_EQ(e.kind, "machine");
    return e.what();
  }
  return "no error";
}

TEST(ParseMachine, ReadsEveryField) {
  const auto m = parse_machine(kGood, "toy.machine", 4);
  EXPECT_EQ(m.name, "toy:4");
  EXPECT_EQ(m.device.name, "thing");
  EXPECT_EQ(m.device.memory, Bytes{16 * 1073741824.0});
  EXPECT_EQ(m.device.reserve, Bytes{0});
  EXPECT_EQ(m.device.bandwidth, BytesPerSecond{900e9});
  EXPECT_EQ(m.device.compute_utilization, 1);
  EXPECT_EQ(m.device.peak.at(DType::kFp32), FlopsPerSecond{15.7e12});
  EXPECT_EQ(m.device.peak.at(DType::kFp16), FlopsPerSecond{125e12});
  ASSERT_EQ(m.levels.size(), 2U);
  EXPECT_EQ(m.levels[0].count, 4);
  EXPECT_TRUE(m.levels[0].shared);
  EXPECT_EQ(m.levels[0].latency, Seconds{2e-6});
  EXPECT_EQ(m.levels[0].utilization, 0.5);
  EXPECT_FALSE(m.levels[1].shared);
}

TEST(ParseMachine, DividesSharedBandwidthByTheDevicesInside) {
  const auto m = parse_machine(kGood, "toy.machine", 4);
  EXPECT_EQ(m.devices(), 12);
  EXPECT_EQ(m.devices_below(0), 3);
  EXPECT_EQ(m.devices_below(1), 1);
  EXPECT_EQ(m.bandwidth_per_device(0), BytesPerSecond{8e9});
  EXPECT_EQ(m.bandwidth_per_device(1), BytesPerSecond{100e9});
}

TEST(ParseMachine, ReportsLineCauseAndRemedy) {
  struct Case {
    std::string_view from, to, error;
  };
  const Case cases[] = {
      {"  memory", "  memroy",
       "toy.machine:6: device thing: unknown field 'memroy' (did you mean 'memory'?)"},
      {"  latency 2 us", "  colour red",
       "toy.machine:12: level box: unknown field 'colour' "
       "(expected one of: bandwidth, latency, trees, utilization, topology, group)"},
      {"  memory 16 GiB\n", "",
       "toy.machine:5: device thing: field 'memory' is missing (expected an amount like '16 GB')"},
      {"  latency 2 us\n", "",
       "toy.machine:10: level box: field 'latency' is missing (expected a time like '5 us')"},
      {"24 GB/s shared", "24 GB shared",
       "toy.machine:11: bandwidth 24 GB: expected a rate like '25 GB/s' "
       "(units: MB/s, GB/s, TB/s, MiB/s, GiB/s)"},
      {"16 GiB", "16 GB/s",
       "toy.machine:6: memory 16 GB/s: expected an amount like '16 GB' "
       "(units: B, KB, MB, GB, TB, KiB, MiB, GiB)"},
      {"latency 2 us", "latency 2",
       "toy.machine:12: latency 2: expected a time like '5 us' (units: ns, us, ms, s)"},
      {"latency 2 us", "latency",
       "toy.machine:12: latency: expected a time like '5 us' (units: ns, us, ms, s)"},
      {"latency 2 us", "latency -2 us", "toy.machine:12: latency -2 us: must be 0 or more"},
      {"100 GB/s", "0 GB/s", "toy.machine:15: bandwidth 0 GB/s: must be greater than 0"},
      {"100 GB/s", "-1 GB/s", "toy.machine:15: bandwidth -1 GB/s: must be greater than 0"},
      {"100 GB/s", "1e300 GB/s", "toy.machine:15: bandwidth 1e300 GB/s: out of range"},
      {"900 GB/s", "900 GB/s shared",
       "toy.machine:7: bandwidth 900 GB/s shared: expected a rate like '25 GB/s' "
       "(units: MB/s, GB/s, TB/s, MiB/s, GiB/s)"},
      {"utilization 0.5", "utilization 1.5",
       "toy.machine:13: utilization 1.5: must not be greater than 1 (expected the fraction of the "
       "rated value that is reached in practice, like '0.8')"},
      {"utilization 0.5", "utilization 80 %",
       "toy.machine:13: utilization 80 %: expected a fraction like '0.8' (expected a number "
       "without a unit)"},
      {"utilization 0.5", "utilization nan",
       "toy.machine:13: utilization nan: expected a fraction like '0.8' (expected a number without "
       "a unit)"},
      {"  memory 16 GiB", "  memory 16 GB\n  memory 16 GB",
       "toy.machine:7: device thing: 'memory' is given twice"},
      {"peak fp16", "peak fp32", "toy.machine:9: device thing: 'peak fp32' is given twice"},
      {"peak fp16", "peak fp17",
       "toy.machine:9: peak fp17 0.125 PFLOP/s: expected an element type and a rate like "
       "'fp32 15.7 TFLOP/s' (element types: fp64, fp32, fp16, bf16, int32, int64)"},
      {"  memory 16 GiB", "  memory 1 GB\n  reserve 2 GB",
       "toy.machine:5: device thing: reserve 2 GB leaves nothing of the memory 1 GB"},
      {"slot 3", "slot 0", "toy.machine:14: level 'slot': count 0 is less than 1"},
      {"slot 3", "slot three",
       "toy.machine:14: level 'slot': count 'three' is not an integer (use '?' if the size is "
       "given with the name)"},
      {"slot 3", "slot ?",
       "toy.machine:14: level 'slot': a second count is '?' (only one count can be given with the "
       "name)"},
      {"slot 3", "slot 2000000",
       "toy.machine:14: level 'slot': count 2000000 is more than 1048576"},
      {"slot 3", "slot 524288",
       "toy.machine:10: machine 'toy' has 2097152 devices, more than 1048576"},
      {"slot 3", "box 3", "toy.machine:14: level 'box' is given twice"},
      {"slot 3", "slot",
       "toy.machine:14: level 'slot': expected a name and a count (write it like 'level gpu 4', or "
       "'level node ?' if the size is given with the name)"},
      {"machine toy\n", "", "toy.machine: 'machine' is missing (add a line 'machine NAME')"},
      {"machine toy", "machine to y",
       "toy.machine:2: machine 'to y': expected a name (a name is one word of letters, digits and "
       "_ - . +)"},
      {"usage toy:NODES", "usage a\nusage b", "toy.machine:4: 'usage' is given twice"},
      {"usage toy:NODES", "wat",
       "toy.machine:3: 'wat' is outside of a device or level (expected one of: machine, usage, "
       "doc, device, level, mapping, software)"},
  };
  for (const auto& c : cases) EXPECT_EQ(get_error(replace_text(c.from, c.to)), c.error);
}

TEST(ParseMachine, NeedsADeviceALevelAndAPeak) {
  const std::string text(kGood);
  EXPECT_EQ(get_error(text.substr(0, text.find("level"))),
            "toy.machine: machine 'toy' has no level (add at least one line 'level NAME COUNT')");
  EXPECT_EQ(get_error(""), "toy.machine: 'machine' is missing (add a line 'machine NAME')");
  auto no_peak = replace_text("  peak fp32 15.7 TFLOP/s\n", "");
  no_peak.erase(no_peak.find("  peak"), no_peak.find("level") - no_peak.find("  peak"));
  EXPECT_EQ(get_error(no_peak),
            "toy.machine:5: device thing: field 'peak' is missing "
            "(expected an element type and a rate like 'fp32 15.7 TFLOP/s')");
}

TEST(ParseMachine, RequiresASizeForAnOpenCount) {
  EXPECT_EQ(get_error(std::string(kGood), 0),
            "toy.machine:10: toy needs a size: toy:NODES (the count of level 'box' is '?')");
  EXPECT_EQ(get_error(replace_text("box ?", "box 2"), 4),
            "toy.machine: machine 'toy' takes no size, but was given 4 (only a machine with a "
            "level of count '?' takes a size)");
  EXPECT_EQ(parse_machine(replace_text("box ?", "box 2"), "toy.machine").name, "toy");
}

// The RNG seed is fixed, so a failure can be reproduced from the test's name and the round.
TEST(ParseMachine, ReportsGarbageInPrintableText) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text(kGood);
    for (std::size_t edits = random() % 8 + 1; edits > 0; --edits) {
      const auto at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
      if (text.empty()) text = " ";
    }
    const auto error = get_error(text);
    for (const char c : error) ASSERT_TRUE(c >= ' ' && c <= '~') << round;
  }
}

TEST(LoadMachine, Summit) {
  const auto m = load_machine("summit:8");
  EXPECT_EQ(m.name, "summit:8");
  EXPECT_EQ(m.devices(), 48);
  ASSERT_EQ(m.levels.size(), 3U);
  EXPECT_EQ(m.levels[0].name, "node");
  EXPECT_EQ(m.bandwidth_per_device(0), BytesPerSecond{25e9 / 6});
  EXPECT_EQ(m.levels[2].count, 3);
  EXPECT_EQ(m.device.memory, Bytes{16e9});
  EXPECT_EQ(m.device.peak.at(DType::kFp16), FlopsPerSecond{125e12});
}

TEST(LoadMachine, Local) {
  const auto m = load_machine("local:2");
  EXPECT_EQ(m.devices(), 2);
  EXPECT_EQ(m.levels.size(), 1U);
}

TEST(LoadMachine, LoadsAFileWithAndWithoutSize) {
  const auto path = testing::TempDir() + "toy.machine";
  std::ofstream(path) << kGood;
  EXPECT_EQ(load_machine(path + ":5").devices(), 15);
  EXPECT_EQ(load_error(path), path +
                                  ":10: toy needs a size: toy:NODES "
                                  "(the count of level 'box' is '?')");
}

TEST(LoadMachine, Errors) {
  EXPECT_EQ(load_error("sumit:8"), "sumit:8: unknown machine 'sumit' (did you mean summit:NODES?)");
  EXPECT_TRUE(load_error("xyzzyxyzzy")
                  .starts_with("xyzzyxyzzy: unknown machine 'xyzzyxyzzy' (built-in machines: "));
  EXPECT_TRUE(load_error("summit").find(": summit needs a size: summit:NODES (") !=
              std::string::npos);
  EXPECT_EQ(load_error("summit:x"),
            "summit:x: size 'x' is not a positive integer (write it like summit:8)");
  EXPECT_EQ(load_error("summit:0"),
            "summit:0: size '0' is not a positive integer (write it like summit:8)");
  EXPECT_EQ(load_error("no/such.machine"),
            "no/such.machine: cannot read this file (expected NAME:SIZE of a built-in machine, or "
            "the path of a machine file)");
  EXPECT_EQ(load_error("/tmp/"),
            "/tmp/: is a directory (expected NAME:SIZE of a built-in machine, or the path of a "
            "machine file)");
  EXPECT_NE(load_error("summit:1000000").find("6000000 devices, more than 1048576"),
            std::string::npos);
}

TEST(BuiltinMachines, AreSortedAndNamedLikeTheirFiles) {
  const auto all = list_builtin_machines();
  ASSERT_EQ(all.size(), embedded_machines().size());
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &BuiltinMachine::name));
  for (const auto& m : all) {
    EXPECT_TRUE(m.usage == m.name || m.usage.starts_with(m.name + ":")) << m.usage;
    EXPECT_FALSE(m.doc.empty()) << m.name;
    const auto loaded = load_machine(m.usage == m.name ? m.name : m.name + ":2");
    EXPECT_TRUE(loaded.name.starts_with(m.name)) << loaded.name;
  }
}

TEST(BuiltinMachines, CiteASourceForEveryNumber) {
  for (const auto& file : embedded_machines()) {
    for (const auto line : split(file.text, '\n')) {
      const auto digit = line.find_first_of("0123456789");
      const bool field = !line.empty() && !line.starts_with('#') && !line.starts_with("machine") &&
                         !line.starts_with("usage") && !line.starts_with("doc") &&
                         !line.starts_with("device") && !line.starts_with("level") &&
                         !line.starts_with("software");
      if (field && digit != std::string_view::npos) {
        EXPECT_NE(line.find('#'), std::string_view::npos) << file.name << ": " << line;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::machine
