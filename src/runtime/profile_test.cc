// tandem_worker --profile under mpirun: everything is measured once and gives a machine. The tests
// do not judge times, because the computer may be busy.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "predict/fit.h"

namespace tandem::runtime {
namespace {

std::string run_and_read(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string out;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  return pclose(pipe) == 0 ? out : "";
}

predict::Profile quick_profile(int processes) {
  const auto worker =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tandem_worker";
  return predict::parse_profile(run_and_read(
      fmt::format("mpirun --allow-run-as-root --oversubscribe --bind-to none -np {} '{}' --profile "
                  "quick",
                  processes, worker.string())));
}

// The machine has one mesh axis factor for 3 processes, and two for 4.
TEST(ProfileNightly, MeasuresEveryCollectiveOfEverySize) {
  for (const int processes : {2, 3, 4}) {
    const auto profile = quick_profile(processes);
    EXPECT_EQ(profile.devices, processes);
    EXPECT_GT(profile.resident, Bytes{1e6});
    std::map<machine::Step, std::set<double>> sizes;
    for (const auto& c : profile.collectives) {
      EXPECT_GT(c.time, Seconds{});
      sizes[c.kind].insert(c.bytes.value);
    }
    EXPECT_EQ(sizes.size(), 9U);
    for (const auto& [kind, bytes] : sizes) {
      ASSERT_EQ(bytes.size(), 5U) << name(kind);
      EXPECT_NEAR(*bytes.begin() / 4096, 1, 0.5) << name(kind);
      EXPECT_NEAR(*bytes.rbegin() / (64 << 20), 1, 0.1) << name(kind);
    }
    std::map<std::string, int> operators;
    for (const auto& o : profile.operators) {
      EXPECT_GT(o.time, Seconds{});
      ++operators[fmt::format("{} {} {}", o.name, name(o.dtype), o.devices)];
    }
    const std::map<std::string, int> expected = {{fmt::format("linear fp32 {}", processes), 4},
                                                 {fmt::format("linear fp64 {}", processes), 4},
                                                 {fmt::format("linear bf16 {}", processes), 3},
                                                 {"add fp32 1", 1},
                                                 {fmt::format("add fp32 {}", processes), 1}};
    EXPECT_EQ(operators, expected);
    const auto text = predict::format_machine(profile, "a day, a processor");
    EXPECT_EQ(machine::parse_machine(text, "measured.machine", processes).devices(), processes);
  }
}

}  // namespace
}  // namespace tandem::runtime
