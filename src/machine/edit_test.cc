#include "machine/edit.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::machine {
namespace {

constexpr std::string_view kFile = R"(machine toy
device A.1
  memory 16 GB      # a comment
  bandwidth 900 GB/s
  peak fp32 10 TFLOP/s
  peak bf16 20 TFLOP/s
device B
  memory 32 GB
  bandwidth 800 GB/s
  peak fp32 15 TFLOP/s
level node 4
  bandwidth 24 GB/s shared half
  utilization 0.3 at 64 KiB
  utilization 0.9 at 4 MiB
  latency 2 us
  group first A.1 2
  group second B 2
level slot 2
  bandwidth 100 GB/s
  latency 1 us
)";

Machine parse_edited(const std::string& path, const std::string& value) {
  return parse_machine(with_field(kFile, {path, value}), "toy.machine");
}

std::string get_error(const std::string& path, const std::string& value = "1") {
  try {
    parse_edited(path, value);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Edit, ReplacesDeviceFields) {
  const auto all = parse_edited("device.bandwidth", "1 TB/s");
  EXPECT_EQ(all.groups[0].device.bandwidth.value, 1e12);
  EXPECT_EQ(all.groups[1].device.bandwidth.value, 1e12);
  const auto one = parse_edited("device.A.1.bandwidth", "1 TB/s");
  EXPECT_EQ(one.groups[0].device.bandwidth.value, 1e12);
  EXPECT_EQ(one.groups[1].device.bandwidth.value, 800e9);
  const auto peak = parse_edited("device.A.1.peak.bf16", "40 TFLOP/s");
  EXPECT_EQ(peak.groups[0].device.peak.at(DType::kBf16).value, 40e12);
  EXPECT_EQ(peak.groups[0].device.peak.at(DType::kFp32).value, 10e12);
}

// A field that is missing in the file gets a line of its own.
TEST(Edit, AddsMissingFields) {
  EXPECT_DOUBLE_EQ(parse_edited("device.launch", "5 us").groups[1].device.launch.value, 5e-6);
  EXPECT_EQ(parse_edited("level.slot.utilization", "0.5").levels[1].utilization.at(Bytes{}), 0.5);
  EXPECT_EQ(parse_edited("level.slot.topology", "ring").levels[1].topology, "ring");
}

TEST(Edit, ReplacesLevelFields) {
  const auto m = parse_edited("level.node.bandwidth", "48 GB/s");
  EXPECT_EQ(m.levels[0].bandwidth.value, 48e9);
  EXPECT_TRUE(m.levels[0].shared && m.levels[0].half_duplex);
  EXPECT_EQ(m.levels[1].bandwidth.value, 100e9);
  EXPECT_EQ(parse_edited("level.slot.count", "4").devices(), 16);
  // One number replaces the lines of all sizes.
  EXPECT_EQ(parse_edited("level.node.utilization", "0.5").levels[0].utilization, Utilization(0.5));
}

TEST(Edit, AcceptsUnitsWithoutABlank) {
  EXPECT_EQ(parse_edited("device.B.bandwidth", "1.5TB/s").groups[1].device.bandwidth.value, 1.5e12);
  EXPECT_EQ(parse_edited("device.B.memory", "1e2GB").groups[1].device.memory.value, 100e9);
  EXPECT_DOUBLE_EQ(parse_edited("level.slot.latency", "3us").levels[1].latency.value, 3e-6);
}

TEST(Edit, ReportsErrors) {
  EXPECT_EQ(get_error("level.rack.latency"),
            "level.rack.latency: the machine has no level 'rack' (write level.NAME.FIELD, where "
            "NAME is node or slot)");
  EXPECT_EQ(get_error("device."),
            "device.: is not a field of machine files (write device.FIELD, device.peak.TYPE or "
            "level.NAME.FIELD, see docs/reference/machine-format.md)");
  EXPECT_EQ(get_error("device.C.memory"),
            "device.C.memory: is not a field of machine files (write device.FIELD, "
            "device.peak.TYPE or level.NAME.FIELD, see docs/reference/machine-format.md)");
  EXPECT_TRUE(get_error("device.speed")
                  .starts_with("toy.machine:7: device A.1: unknown field 'speed' (expected one of: "
                               "memory, reserve, bandwidth, memory_utilization, "));
  EXPECT_EQ(get_error("device.memory", "16"),
            "toy.machine:3: memory 16: expected an amount like '16 GB' (units: B, KB, MB, GB, TB, "
            "KiB, MiB, GiB)");
  EXPECT_EQ(get_error("device.memory", "-1GB"),
            "toy.machine:3: memory -1 GB: must be greater than 0");
  EXPECT_EQ(get_error("device.memory", "1 GB\nreserve 0 B"),
            "device.memory: cannot be '1 GB?reserve 0 B' (the value must fit on one line)");
}

// Lines of software profiles are no sections of their own. They come after the device's lines.
TEST(Edit, LeavesSoftwareProfilesAlone) {
  std::string text(kFile);
  text += "software eager\n  level node bandwidth 12 GB/s\n  launch 3 us\n";
  const auto with = [&](const std::string& path, const std::string& value) {
    return parse_machine(with_field(text, {path, value}), "toy.machine", 0, "eager");
  };
  EXPECT_EQ(with("level.slot.bandwidth", "50 GB/s").levels[1].bandwidth.value, 50e9);
  EXPECT_EQ(with("level.slot.bandwidth", "50 GB/s").levels[0].bandwidth.value, 12e9);
  EXPECT_DOUBLE_EQ(with("device.memory", "9 GB").groups[0].device.launch.value, 3e-6);
  // The edit takes effect whatever the software profile has.
  EXPECT_DOUBLE_EQ(with("device.launch", "9 us").groups[0].device.launch.value, 9e-6);
  EXPECT_EQ(with("level.node.bandwidth", "50 GB/s").levels[0].bandwidth.value, 50e9);
  EXPECT_EQ(with("level.node.latency", "5 us").levels[0].bandwidth.value, 12e9);
}

TEST(Edit, NamesChangesInLoadedMachines) {
  const auto m = load_machine("dgx_a100:2", {{"device.memory", "40GB"}, {"level.gpu.count", "4"}});
  EXPECT_EQ(m.device.memory.value, 40e9);
  EXPECT_EQ(m.devices(), 8);
  EXPECT_EQ(hash_machine(load_machine("dgx_a100:2", {})), hash_machine(load_machine("dgx_a100:2")));
  // The path of the only device means all devices, with a software profile, too.
  const auto named = load_machine("dgx_a100:2,software=megatron-deepspeed",
                                  {{"device.A100-SXM4-80GB.launch", "9us"}});
  EXPECT_DOUBLE_EQ(named.device.launch.value, 9e-6);
  try {
    load_machine("dgx_a100:2", {{"device.launch", "5"}});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_TRUE(e.where.starts_with("machines/dgx_a100.machine, device.launch=5:")) << e.where;
  }
}

}  // namespace
}  // namespace tandem::machine
