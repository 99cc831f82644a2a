#include "validate/parameters.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::validate {
namespace {

// Every parameter is a number of a machine, and its line parses back to the value that was set.
TEST(Parameters, AreNumbersOfMachineFiles) {
  const auto machine = machine::load_machine("dgx_a100:2");
  std::string text =
      "machine m\nusage m\ndoc m\ndevice d\n  memory 1 GB\n  bandwidth 1 GB/s\n"
      "  peak fp32 1 TFLOP/s\nlevel node 2\n  bandwidth 1 GB/s\n  latency 1 us\n"
      "level gpu 8\n  bandwidth 1 GB/s\n  latency 1 us\nsoftware s\n";
  for (const auto& p : all_parameters()) {
    EXPECT_TRUE(get_value(p, machine).has_value()) << p.name;
    auto changed = machine;
    set_value(p, p.high / 2, changed);
    EXPECT_EQ(get_value(p, changed), p.high / 2) << p.name;
    text += "  " + format_line(p, p.high / 2) + "\n";
  }
  const auto read = machine::parse_machine(text, "m.machine", 0, "s");
  for (const auto& p : all_parameters()) {
    EXPECT_NEAR(get_value(p, read).value(), p.high / 2, 1e-9 * p.high) << p.name;
  }
}

TEST(Parameters, AreEmptyForMissingLevels) {
  const auto* node = parse_parameters("level node utilization")[0];
  EXPECT_FALSE(get_value(*node, machine::load_machine("dgx_a100:1")));
  EXPECT_FALSE(get_value(*node, machine::load_machine("local:2")));
}

TEST(Parameters, AreFoundByName) {
  EXPECT_EQ(parse_parameters("").size(), all_parameters().size());
  const auto two = parse_parameters("launch, level gpu latency");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[1]->name, "level gpu latency");
  EXPECT_EQ(format_line(*two[0], 3.25e-6), "launch 3.25 us");
  EXPECT_THROW(parse_parameters("lunch"), UserError);
}

}  // namespace
}  // namespace tandem::validate
