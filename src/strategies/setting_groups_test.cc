#include "strategies/setting_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "models/model.h"

namespace tandem::strategies {
namespace {

struct Situation {
  graph::Graph model;
  machine::Machine machine;
  machine::Digits digits;
  Problem problem;

  Situation(std::string_view text, const std::string& name, std::int64_t batch)
      : model(models::parse_model(text).build(batch, DType::kFp32)),
        machine(machine::load_machine(name)),
        digits(machine),
        problem(model, digits) {}
};

constexpr std::string_view kLanguage = "gpt2:layers=4,hidden=64,heads=8,ffn=128,vocab=128,seq=16";

std::set<std::string> texts(const std::vector<Setting>& settings) {
  std::set<std::string> out;
  for (const auto& setting : settings) {
    const auto text = to_text(setting);
    EXPECT_TRUE(out.insert(text).second) << text << " is given twice";
    EXPECT_EQ(parse_setting(text), setting) << text;
  }
  return out;
}

TEST(WideGrid, ListsEverySettingOnceAndRoundTripsText) {
  const Situation on(kLanguage, "dgx_a100:2", 64);
  const auto all = texts(list_named_settings("all", on.problem));
  for (const auto* group : {"baselines", "memory_saving", "pipelines", "madmax_grid"}) {
    const auto some = texts(list_named_settings(group, on.problem));
    EXPECT_TRUE(std::ranges::includes(all, some)) << group;
  }
  for (const auto* text :
       {"dp", "fsdp:recompute=full", "deepspeed:zero=2,micro=16,recompute=selective",
        "megatron:tp=8,dp=2,sp,recompute=full", "megatron:tp=2,dp=2,sp,pp=4,micro=32",
        "megatron:tp=1,dp=1,pp=16,micro=64,recompute=full",
        "madmax:transformer=tp/ddp,word_embedding=tp/ddp"}) {
    EXPECT_TRUE(all.contains(text)) << text;
  }
  // Tensor parallelism of a pipeline stays inside a node; vocabulary embeddings are sharded like
  // the transformer.
  for (const auto& text : texts(list_named_settings("pipelines", on.problem))) {
    EXPECT_EQ(text.find("tp=16"), std::string::npos) << text;
  }
  EXPECT_FALSE(all.contains("madmax:transformer=tp/ddp,word_embedding=ddp"));
  EXPECT_EQ(list_named_settings("madmax_grid", on.problem).size(), 16U + 15U);
}

TEST(WideGrid, HasOneStrategyOnOneDevice) {
  const Situation on("mlp:layers=2,hidden=64,inputs=64,outputs=64", "local:1", 8);
  EXPECT_EQ(texts(list_named_settings("all", on.problem)), std::set<std::string>{"dp"});
}

TEST(WideGrid, TreatsOtherNamesAsStrategies) {
  const Situation on(kLanguage, "dgx_a100:1", 64);
  EXPECT_EQ(texts(list_named_settings("megatron:tp=4", on.problem)),
            std::set<std::string>{"megatron:tp=4,dp=2"});
  EXPECT_THROW((void)list_named_settings("pipeline", on.problem), UserError);
}

}  // namespace
}  // namespace tandem::strategies
