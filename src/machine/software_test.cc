// Tests of software profiles in machine files, and of fields that describe how a device is driven.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "machine/machine.h"
#include "machine/parse.h"
#include "machine/parse_test_support.h"

namespace tandem::machine {
namespace {

const std::string kToy = R"(machine toy
usage toy:NODES
device thing
  memory 40 GB
  reserve 1 GB
  bandwidth 1.5 TB/s
  peak bf16 312 TFLOP/s
  compute_utilization 0.8
  units 108
  matmul_setup 64
  wave_softening 0.25
  attention_utilization 0.5
  attention_backward_utilization 0.4
  random_access 0.3
  collective 20 us
level node ?
  bandwidth 10 GB/s
  latency 2 us
  trees yes
level slot 4
  bandwidth 100 GB/s
  latency 1 us
software eager
  doc kernel by kernel
  compute_utilization 0.6
  memory_utilization 0.5
  dispatch 30 us
  dispatch_backward 5 us
  dispatch_collective 40 us
  micro_batch 2 ms
  step 5 ms
  interference 0.1
  fragmentation 0.2
  update_bytes 34 B
  fuse bias
  fused_qkv yes
  send_parts yes
  overlap no
  kernels softmax 4 3
  kernels rope 2
  kernels gelu 3 unless 4
  join_gradients yes
  unaligned 0.4
  level slot utilization 0.7
  level node utilization all_to_all 0.4
  level node latency 9 us
software compiled
  fuse yes
  peak fp32 1 TFLOP/s
)";

std::string get_error(const std::string& text, const std::string& software = "") {
  return parse_error(text, 2, software);
}

TEST(SoftwareText, AppliesOnlyOnRequest) {
  const auto m = parse_machine(kToy, "toy.machine", 2);
  EXPECT_EQ(m.name, "toy:2");
  EXPECT_EQ(m.software, "");
  EXPECT_EQ(m.device.units, 108);
  EXPECT_EQ(m.device.matmul_setup, 64);
  EXPECT_EQ(m.device.wave_softening, 0.25);
  EXPECT_EQ(m.device.attention_utilization, 0.5);
  EXPECT_EQ(m.device.attention_backward_utilization, 0.4);
  EXPECT_EQ(m.device.random_access, 0.3);
  EXPECT_DOUBLE_EQ(m.device.collective.value, 20e-6);
  EXPECT_EQ(m.device.compute_utilization, 0.8);
  EXPECT_EQ(m.device.software.dispatch, Seconds{});
  EXPECT_EQ(m.device.software.fusion, Fusion::kNone);
  EXPECT_TRUE(m.device.software.overlap);
  EXPECT_FALSE(m.device.software.joined_gradients);
  EXPECT_EQ(m.device.unaligned, 1);
  EXPECT_TRUE(m.levels[0].trees);
  EXPECT_FALSE(m.levels[1].trees);
  EXPECT_EQ(m.levels[1].utilization.at(Bytes{1}), 1);
}

TEST(SoftwareText, ReplacesFieldsOfDevicesAndLevels) {
  const auto m = parse_machine(kToy, "toy.machine", 2, "eager");
  EXPECT_EQ(m.name, "toy:2,software=eager");
  EXPECT_EQ(m.software, "eager");
  EXPECT_EQ(m.device.units, 108);
  EXPECT_EQ(m.device.compute_utilization, 0.6);
  EXPECT_EQ(m.device.memory_utilization, 0.5);
  const auto& s = m.device.software;
  EXPECT_DOUBLE_EQ(s.dispatch.value, 30e-6);
  EXPECT_DOUBLE_EQ(s.dispatch_backward.value, 5e-6);
  EXPECT_DOUBLE_EQ(s.dispatch_collective.value, 40e-6);
  EXPECT_DOUBLE_EQ(s.micro_batch.value, 2e-3);
  EXPECT_DOUBLE_EQ(s.step.value, 5e-3);
  EXPECT_EQ(s.interference, 0.1);
  EXPECT_EQ(s.fragmentation, 0.2);
  EXPECT_EQ(s.update_bytes, Bytes{34});
  EXPECT_EQ(s.fusion, Fusion::kBias);
  EXPECT_TRUE(s.fused_qkv);
  EXPECT_TRUE(s.send_parts);
  EXPECT_FALSE(s.overlap);
  EXPECT_EQ(s.kernels.at("softmax"), (Software::Kernels{4, 3}));
  EXPECT_EQ(s.kernels.at("rope"), (Software::Kernels{2, 2}));
  EXPECT_EQ(s.kernels.at("gelu"), (Software::Kernels{3, 3, 4}));
  EXPECT_TRUE(s.joined_gradients);
  EXPECT_EQ(m.device.unaligned, 0.4);
  EXPECT_EQ(m.levels[1].utilization.at(Bytes{1}), 0.7);
  EXPECT_EQ(m.levels[0].utilization.at(Bytes{1}), 1);
  EXPECT_EQ(m.levels[0].get_utilization(Step::kAllToAll).at(Bytes{1}), 0.4);
  EXPECT_EQ(m.levels[0].latency, Seconds{9e-6});
  EXPECT_EQ(m.levels[0].bandwidth, BytesPerSecond{10e9});

  const auto compiled = parse_machine(kToy, "toy.machine", 2, "compiled");
  EXPECT_EQ(compiled.device.software.fusion, Fusion::kElementwise);
  EXPECT_EQ(compiled.device.software.dispatch, Seconds{});
  EXPECT_EQ(compiled.device.peak.size(), 2);
}

TEST(SoftwareText, DistinguishesMachines) {
  const auto hash = [](const std::string& software) {
    return hash_machine(parse_machine(kToy, "toy.machine", 2, software));
  };
  EXPECT_NE(hash(""), hash("eager"));
  EXPECT_NE(hash("compiled"), hash("eager"));
  EXPECT_EQ(hash("eager"), hash("eager"));
}

TEST(SoftwareText, IsListed) {
  const auto file = read_machine_file(kToy, "toy.machine", 0);
  ASSERT_EQ(file.software.size(), 2);
  EXPECT_EQ(file.software[0].name, "eager");
  EXPECT_EQ(file.software[0].doc, "kernel by kernel");
  EXPECT_EQ(file.software[1].doc, "");
}

TEST(SoftwareText, AppearsInTheMachineName) {
  const auto m = load_machine("dgx_a100:2,software=megatron");
  EXPECT_EQ(m.name, "dgx_a100:2,software=megatron");
  EXPECT_EQ(m.devices(), 16);
  EXPECT_FALSE(m.device.software.overlap);
  EXPECT_EQ(load_machine(m.name).name, m.name);
  const auto error = [](const std::string& name) -> std::string {
    try {
      load_machine(name);
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(
      error("dgx_a100:2,software=megatrn"),
      "machines/dgx_a100.machine: unknown software profile 'megatrn' (did you mean 'megatron'?)");
  EXPECT_EQ(error("dgx_a100:2,software="),
            "dgx_a100:2,software=: names no software profile (`tandem machines dgx_a100:2` lists "
            "the software profiles)");
  EXPECT_EQ(error("h100_superpod:2,software=x"),
            "machines/h100_superpod.machine: unknown software profile 'x' (this machine has no "
            "section 'software NAME')");
}

TEST(SoftwareText, ReportsLineCauseAndRemedy) {
  struct Case {
    std::string lines, error;
  };
  const Case cases[] = {
      {"software",
       "toy.machine:50: software '': expected a name (a name is one word of letters, digits and _ "
       "- . +)"},
      {"software eager", "toy.machine:50: software profile 'eager' is given twice"},
      {"software x\n  compute_utilization 1.2",
       "toy.machine:51: compute_utilization 1.2: must not be greater than 1 (expected the fraction "
       "of the rated value that is reached in practice, like '0.8')"},
      {"software x\n  dispatch -3 us", "toy.machine:51: dispatch -3 us: must be 0 or more"},
      {"software x\n  units 0", "toy.machine:51: units 0: must be greater than 0"},
      {"software x\n  units 8 GB",
       "toy.machine:51: units 8 GB: expected a number like '108' (expected a number without a "
       "unit)"},
      {"software x\n  step 3 ms\n  step 3 ms", "toy.machine:52: software x: 'step' is given twice"},
      {"software x\n  fuse some", "toy.machine:51: fuse some: expected one of: no, bias, yes"},
      {"software x\n  overlap", "toy.machine:51: overlap: expected one of: no, yes"},
      {"software x\n  kernels softmix 3",
       "toy.machine:51: kernels softmix 3: unknown operator 'softmix' (`tandem ops` lists the "
       "operators)"},
      {"software x\n  kernels softmax",
       "toy.machine:51: kernels softmax: expected an operator and the number of kernels that "
       "execute it (write it like 'kernels softmax 4', or 'kernels softmax 4 3' to include the "
       "backward pass)"},
      {"software x\n  level slt utilization 0.3",
       "toy.machine:51: software x: level slt utilization 0.3: the machine has no such level above "
       "this line (did you mean 'slot'?)"},
      {"software x\n  level slot",
       "toy.machine:51: software x: level slot: expected a level, a field and its value (write it "
       "like 'level gpu utilization 0.7')"},
      {"software x\n  level slot utilization 1.5",
       "toy.machine:51: utilization 1.5: must not be greater than 1 (expected the fraction of the "
       "rated value that is reached in practice, like '0.8')"},
      {"software x\n  reserve 50 GB",
       "toy.machine:3: device thing: reserve 50 GB leaves nothing of the memory 40 GB"},
  };
  for (const auto& c : cases) EXPECT_EQ(get_error(kToy + c.lines + "\n", "x"), c.error) << c.lines;
}

TEST(SoftwareText, ParsesComputeThatWaitsForSends) {
  const auto waits = [](const std::string& text) {
    return parse_machine(text, "toy.machine", 2, "compiled").device.software.waits_for_sends;
  };
  EXPECT_FALSE(waits(kToy));
  EXPECT_TRUE(waits(kToy + "  wait_for_sends yes\n"));
}

// A software profile is checked even if it is not requested.
TEST(SoftwareText, ReportsErrorsOfUnusedProfiles) {
  EXPECT_EQ(get_error(kToy + "  interference 2\n"),
            "toy.machine:50: interference 2: must not be greater than 1 (expected the fraction of "
            "the rated value that is reached in practice, like '0.8')");
}

}  // namespace
}  // namespace tandem::machine
