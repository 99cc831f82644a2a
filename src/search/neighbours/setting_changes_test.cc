#include "search/neighbours/setting_changes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model.h"

namespace tandem::search {
namespace {

using strategies::parse_setting;

struct Network {
  machine::Machine machine;
  machine::Digits digits;
  graph::Graph graph;
  strategies::Problem problem{graph, digits};

  explicit Network(std::string_view text, std::int64_t batch, std::vector<std::int64_t> counts)
      : machine(of(counts)),
        digits(machine),
        graph(models::parse_model(text).build(batch, DType::kFp32)) {}

  static machine::Machine of(const std::vector<std::int64_t>& counts) {
    machine::Machine out;
    for (const auto count : counts) out.levels.emplace_back().count = count;
    return out;
  }

  [[nodiscard]] std::vector<std::string> changes(const char* text, std::int64_t batch) const {
    std::vector<std::string> out;
    const auto setting = complete(parse_setting(text), problem).front();
    for (const auto& one : list_single_changes(setting, problem, batch))
      out.push_back(to_text(one));
    return out;
  }
};

constexpr std::string_view kGpt = "gpt2:layers=4,hidden=64,heads=4,ffn=128,vocab=128,seq=16";

TEST(SettingChanges, CoverDataParallelism) {
  const Network on(kGpt, 16, {2});
  EXPECT_EQ(on.changes("dp", 16),
            (std::vector<std::string>{
                "megatron:tp=2,dp=1", "megatron:tp=1,dp=1,pp=2,micro=16", "megatron:tp=1,dp=1,cp=2",
                "deepspeed:zero=1", "deepspeed:zero=2", "fsdp", "dp:micro=2",
                "dp:recompute=selective", "dp:recompute=save_matmuls", "dp:recompute=full"}));
}

TEST(SettingChanges, CoverAPipeline) {
  const Network on(kGpt, 32, {4});
  const auto found = on.changes("megatron:tp=2,dp=1,sp,pp=2,micro=8", 32);
  EXPECT_EQ(
      found,
      (std::vector<std::string>{
          "megatron:tp=1,dp=2,pp=2,micro=4", "megatron:tp=1,dp=1,pp=4,micro=8",
          "megatron:tp=1,dp=1,cp=2,pp=2,micro=8", "megatron:tp=4,dp=1,sp,micro=8",
          "megatron:tp=2,dp=2,sp,micro=4", "megatron:tp=2,dp=1,cp=2,sp,micro=8",
          "megatron:tp=2,dp=1,sp,zero=1,pp=2,micro=8", "megatron:tp=2,dp=1,sp,zero=2,pp=2,micro=8",
          "megatron:tp=2,dp=1,sp,zero=3,pp=2,micro=8", "megatron:tp=2,dp=1,sp,pp=2,micro=16",
          "megatron:tp=2,dp=1,sp,pp=2,micro=4",
          "megatron:tp=2,dp=1,sp,pp=2,micro=8,recompute=selective",
          "megatron:tp=2,dp=1,sp,pp=2,micro=8,recompute=save_matmuls",
          "megatron:tp=2,dp=1,sp,pp=2,micro=8,recompute=full", "megatron:tp=2,dp=1,pp=2,micro=8",
          "megatron:tp=2,dp=1,sp,pp=2,interleave=2,micro=8"}));
}

// Every change is undone by one other change.
TEST(SettingChanges, AreSymmetricWithoutPipelines) {
  const Network on(kGpt, 48, {2, 3});
  for (const char* text : {"megatron:tp=2,dp=3", "megatron:tp=2,dp=3,zero=1,micro=4",
                           "megatron:tp=2,dp=3,sp,recompute=full"}) {
    const auto setting = complete(parse_setting(text), on.problem).front();
    for (const auto& one : list_single_changes(setting, on.problem, 48)) {
      if (one.pp > 1 || one.sp != setting.sp) continue;
      const auto back = list_single_changes(one, on.problem, 48);
      EXPECT_NE(std::ranges::find(back, setting), back.end()) << text << " " << to_text(one);
    }
  }
}

TEST(SettingChanges, ArePrintedInWords) {
  const auto text = [](const char* from, const char* to) {
    return describe_change(parse_setting(from), parse_setting(to));
  };
  EXPECT_EQ(text("megatron:tp=2,dp=4", "megatron:tp=4,dp=2"), "tp=4,dp=2 instead of tp=2,dp=4");
  EXPECT_EQ(text("megatron:tp=2,dp=4", "megatron:tp=2,dp=4,sp"), "sp");
  EXPECT_EQ(text("dp:micro=2,recompute=full", "dp:micro=2"), "without recompute=full");
  EXPECT_EQ(text("dp", "fsdp"), "fsdp");
}

}  // namespace
}  // namespace tandem::search
