// The grid of strategies: names parse back, refusals have the right messages, and every strategy
// trains every built-in network like one device.
#include "strategies/grid.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error_test_support.h"
#include "base/fewer_test_support.h"
#include "lower/lower.h"
#include "lower/task_interpreter.h"
#include "models/model.h"
#include "models/small_models_test_support.h"
#include "strategies/setting_key.h"

namespace tandem::strategies {
namespace {

using graph::Graph;
using machine::Digits;
using term::Field;

Digits make_digits(const std::vector<std::int64_t>& counts) {
  machine::Machine m;
  for (auto count : counts) m.levels.emplace_back().count = count;
  return Digits(m);
}

Graph build(std::string_view model, std::int64_t batch) {
  return models::parse_model(model).build(batch, DType::kFp32);
}

std::vector<std::string> list_names(const std::vector<Setting>& settings) {
  std::vector<std::string> out;
  for (const auto& s : settings) out.push_back(to_text(s));
  return out;
}

// --- Text ----------------------------------------------------------------------------------------

TEST(Setting, RoundTripsText) {
  for (const std::string text :
       {"dp", "fsdp", "megatron", "megatron:tp=8", "megatron:tp=8,dp=16,sp", "megatron:tp=1/2,dp=4",
        "dp:bucket=25MB", "fsdp:recompute=full,bucket=1001B", "megatron:sp",
        "megatron:tp=2,pp=2,stale,micro=4", "deepspeed", "deepspeed:zero=2", "expert",
        "dlrm_hybrid", "ep", "ep:ep=4", "madmax", "madmax:dense=tp/ddp,transformer=tp",
        "madmax:embedding=tp/mp,experts=mp"}) {
    EXPECT_EQ(to_text(parse_setting(text)), text);
    EXPECT_EQ(parse_setting(to_text(parse_setting(text))), parse_setting(text)) << text;
  }
  // A strategy has one text.
  EXPECT_EQ(to_text(parse_setting(" madmax: transformer=tp/tp, dense=fsdp,embedding=mp ")),
            "madmax:transformer=tp");
  EXPECT_EQ(to_text(parse_setting("megatron:sp,pp=1,dp=2,micro=1,recompute=none")),
            "megatron:dp=2,sp");
}

TEST(Setting, AcceptsTheOlderSpellingOfRecomputation) {
  EXPECT_EQ(parse_setting("dp:recompute=products"), parse_setting("dp:recompute=save_matmuls"));
  EXPECT_EQ(to_text(parse_setting("dp:recompute=products")), "dp:recompute=save_matmuls");
  EXPECT_EQ(parse_setting("dp", {.recompute = "products", .schedule = {}}).recompute,
            Recompute::kSaveMatmuls);
}

TEST(Setting, ReportsErrors) {
  const std::map<std::string, std::string> cases = {
      {"zero",
       "zero: unknown strategy (expected one of: dp, fsdp, megatron, deepspeed, expert, "
       "dlrm_hybrid, ep, madmax, taso+flexflow, best_baseline)"},
      {"taso+flexflow",
       "taso+flexflow: is found by a search of its own and has no settings (use the name alone "
       "with `tandem simulate` or `tandem train`)"},
      {"dp:tp=2",
       "dp:tp=2: 'tp=2' is not a setting of dp (settings: micro=N, recompute=R, ring, "
       "bucket=BYTES)"},
      {"megatron:tp=x",
       "megatron:tp=x: tp cannot be 'x' (expected an integer from 1 to 1073741824)"},
      {"megatron:tp=", "megatron:tp=: tp cannot be '' (expected an integer from 1 to 1073741824)"},
      {"megatron:tp=2,tp=4", "megatron:tp=2,tp=4: 'tp' is given twice (keep one of the two)"},
      {"megatron:ep=1",
       "megatron:ep=1: 'ep=1' is not a setting of megatron (settings: tp=N, dp=N, cp=N, sp, "
       "zero=0|1|2|3, whole_loss, pp=N, interleave=N, ends=N-N, schedule=gpipe|1f1b, stale, "
       "micro=N, recompute=R, ring, bucket=BYTES)"},
      {"megatron:pp=2,schedule=interleaved",
       "megatron:pp=2,schedule=interleaved: schedule cannot be 'interleaved' (expected gpipe or "
       "1f1b; interleave=N selects the interleaved schedule)"},
      {"dp:bucket=much", "dp:bucket=much: bucket cannot be 'much' (expected an amount like 25MB)"},
      {"fsdp:recompute=some",
       "fsdp:recompute=some: recompute cannot be 'some' (expected none, selective, save_matmuls or "
       "full)"},
      {"deepspeed:zero=4",
       "deepspeed:zero=4: zero cannot be '4' (expected an integer from 0 to 3)"},
      {"madmax:dense=pp", "madmax:dense=pp: dense cannot be 'pp' (expected ddp, fsdp, tp or mp)"},
      {"madmax:dense=tp/tp/tp",
       "madmax:dense=tp/tp/tp: dense cannot be 'tp/tp/tp' (expected S, or S/S (inside a node / "
       "across nodes))"},
      {"madmax:conv=tp",
       "madmax:conv=tp: 'conv=tp' is not a setting of madmax (settings: embedding, dense, "
       "transformer, experts, word_embedding =S or =S/S (inside a node / across nodes), where S is "
       "ddp, fsdp, tp or mp; micro=N, recompute=R, ring, bucket=BYTES)"}};
  for (const auto& c : cases) {
    EXPECT_EQ(get_error([&] { (void)parse_setting(c.first); }), c.second);
  }
}

TEST(Setting, AppliesFlags) {
  const auto text = [](const char* setting, const FlagSettings& flags) {
    return to_text(parse_setting(setting, flags));
  };
  EXPECT_EQ(text("dp", {.recompute = "full", .schedule = {}}), "dp:recompute=full");
  EXPECT_EQ(text("megatron:pp=4", {.recompute = {}, .schedule = "gpipe"}),
            "megatron:pp=4,schedule=gpipe");
  EXPECT_EQ(text("megatron:pp=4", {.recompute = "none", .schedule = "1f1b"}), "megatron:pp=4");
  EXPECT_EQ(text("megatron:pp=4", {.recompute = {}, .schedule = "interleaved"}),
            "megatron:pp=4,interleave=2");
  EXPECT_EQ(text("megatron:pp=4,interleave=3", {.recompute = {}, .schedule = "interleaved"}),
            "megatron:pp=4,interleave=3");
  EXPECT_EQ(
      get_error([&] { text("dp:recompute=none", {.recompute = "full", .schedule = {}}); }),
      "--recompute: the strategy dp:recompute=none already sets 'recompute' (keep one of the two)");
  EXPECT_EQ(
      get_error([&] { text("fsdp", {.recompute = {}, .schedule = "1f1b"}); }),
      "--schedule: sets the order of a pipeline, but fsdp has none (use --strategy megatron:pp=N)");
}

TEST(Setting, ChangesOneKey) {
  EXPECT_EQ(set_key("megatron:tp=2,sp", "tp", "4"), "megatron:tp=4,sp");
  EXPECT_EQ(set_key(" megatron : tp = 2 ", "tp", "4"), "megatron:tp=4");
  EXPECT_EQ(set_key("dp", "micro", "4"), "dp:micro=4");
  EXPECT_EQ(set_key("megatron:tp=2", "sp", "yes"), "megatron:tp=2,sp");
  EXPECT_EQ(set_key("megatron:tp=2,sp", "sp", "yes"), "megatron:tp=2,sp");
  EXPECT_EQ(set_key("megatron:sp", "sp", "no"), "megatron");
  EXPECT_EQ(set_key("madmax:dense=tp", "dense", "tp/ddp"), "madmax:dense=tp/ddp");
  EXPECT_EQ(get_error([] { (void)set_key("megatron", "sp", "4"); }),
            "sp: cannot be '4' (expected yes or no)");
}

TEST(Setting, TreatsTheScheduleAsOneChoice) {
  EXPECT_EQ(set_key("megatron:pp=4", "schedule", "gpipe"), "megatron:pp=4,schedule=gpipe");
  EXPECT_EQ(set_key("megatron:pp=4,schedule=gpipe", "schedule", "interleaved"),
            "megatron:pp=4,interleave=2");
  EXPECT_EQ(set_key("megatron:interleave=3,pp=4", "schedule", "interleaved"),
            "megatron:interleave=3,pp=4");
  EXPECT_EQ(set_key("megatron:interleave=3,pp=4", "schedule", "1f1b"),
            "megatron:pp=4,schedule=1f1b");
}

// Every key can be read by the families that have it, and by no other.
TEST(Setting, RestrictsKeysToFamilies) {
  const std::map<std::string_view, const char*> values = {{"schedule", "gpipe"},
                                                          {"recompute", "full"},
                                                          {"bucket", "1MB"},
                                                          {"zero", "1"},
                                                          {"ends", "1-2"}};
  for (const auto& key : get_setting_keys()) {
    const auto at = values.find(key.name);
    const auto* value = key.form.empty() ? "yes" : at == values.end() ? "2" : at->second;
    for (const auto& family : family_names()) {
      const auto text = set_key(family, key.name, value);
      const auto parsed = get_error([&] { (void)parse_setting(text); });
      const bool has = has_key(parse_setting(family).family, key.name);
      EXPECT_EQ(parsed.find("is not a setting of") == std::string::npos, has) << text;
      if (!has) continue;
      EXPECT_EQ(to_text(parse_setting(text)), text);
    }
  }
}

// --- What makes sense ----------------------------------------------------------------------------

TEST(Grid, ListsTheInnermostDigitsOfEveryLevel) {
  const auto model = build("mlp:layers=2,hidden=48,inputs=48,outputs=48", 48);
  const auto digits = make_digits({4, 3});
  EXPECT_EQ(list_names(list_baseline_settings(Problem(model, digits))),
            (std::vector<std::string>{"dp", "fsdp", "megatron:tp=2,dp=6", "megatron:tp=3,dp=4",
                                      "megatron:tp=4,dp=3", "megatron:tp=6,dp=2",
                                      "megatron:tp=12,dp=1", "deepspeed:zero=1", "deepspeed:zero=2",
                                      "deepspeed:zero=3", "expert", "madmax"}));
  // A degree at another place has another name.
  const auto square = make_digits({2, 2});
  EXPECT_EQ(list_names(complete(parse_setting("megatron"), Problem(model, square))),
            (std::vector<std::string>{"megatron:tp=1/2,dp=2", "megatron:tp=2,dp=2",
                                      "megatron:tp=4,dp=1"}));
}

TEST(Grid, NamesEachStrategyDifferently) {
  const auto digits = make_digits({2, 2});
  for (const auto& [name, small] : models::small_models()) {
    const auto model = build(fmt::format("{}:{}", name, small.settings), 4);
    const Problem problem(model, digits);
    for (const auto& setting : list_baseline_settings(problem)) {
      EXPECT_EQ(parse_setting(to_text(setting)), setting) << name << " " << to_text(setting);
      EXPECT_EQ(complete(setting, problem), std::vector{setting}) << name;
    }
  }
}

TEST(Grid, VariesEveryKindOfLayerExceptTablesForMadmax) {
  const auto model = build("dlrm_a_moe:" + models::small_models().at("dlrm_a_moe").settings, 4);
  const auto digits = make_digits({2, 2});
  const auto settings = list_madmax_settings(Problem(model, digits));
  EXPECT_EQ(settings.size(), 16U * 16U);  // dense, experts
  const auto names = list_names(settings);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names.front(), "madmax:dense=ddp,experts=ddp");
}

TEST(Grid, ReportsWhyAStrategyDoesNotApply) {
  struct Case {
    std::string strategy, model, error;
    std::int64_t batch = 4;
  };
  const std::string mlp = "mlp:layers=2,hidden=8,inputs=8,outputs=8";
  const std::string small_resnet = "resnet50:" + models::small_models().at("resnet50").settings;
  const std::string moe = "mixtral_8x7b:" + models::small_models().at("mixtral_8x7b").settings;
  const std::vector<Case> cases = {
      {"megatron:tp=2,dp=2", mlp, "no error"},
      {"dp", mlp, "dp: the batch size 6 is not divisible by 4 devices (use --batch 8)", 6},
      {"megatron:tp=2", mlp,
       "megatron:tp=2: the batch size 3 is not divisible by 2 devices (use --batch 4)", 3},
      {"megatron:tp=3", mlp,
       "megatron:tp=3: 4 devices cannot be divided into such groups (the nearest possible value is "
       "tp=4)"},
      {"megatron:dp=3", mlp,
       "megatron:dp=3: 4 devices cannot be divided into such groups (the nearest possible value is "
       "dp=4)"},
      {"megatron:tp=2/2/2", mlp,
       "megatron:tp=2/2/2: tp gives 3 levels, but the machine has 2 (use tp=N, or tp=N/M/... from "
       "the innermost level outwards)"},
      {"megatron:tp=4,cp=2", mlp,
       "megatron:tp=4,cp=2: 4 devices cannot be divided into such groups with cp=2 (the nearest "
       "possible value is tp=2)"},
      {"megatron:tp=2,dp=4", mlp,
       "megatron:tp=2,dp=4: tp x dp is 8, but the machine has 4 devices (use dp=2)"},
      {"megatron:tp=2,sp", mlp, "megatron:tp=2,sp: sp requires a sequence, but mlp has none"},
      {"ep", small_resnet, "ep: requires experts, but resnet50 has none"},
      {"ep:ep=2", small_resnet, "ep:ep=2: requires experts, but resnet50 has none"},
      {"ep", moe, "ep: no level of the machine (4 devices) divides the number of experts"},
      {"ep:ep=2", moe,
       "ep:ep=2: the experts or the devices cannot be divided into such groups (the nearest "
       "possible value is ep=1)"},
      {"dlrm_hybrid", small_resnet,
       "dlrm_hybrid: requires embedding tables, but resnet50 has none"},
      {"madmax:experts=mp", "xdl:" + models::small_models().at("xdl").settings,
       "madmax:experts=mp: xdl has no layers of kind experts (its kinds: embedding, dense)"},
      {"dp", "resnet50:image=32,classes=5,width=2,blocks=1-2,bn_group=4",
       "dp: batch_norm %stem_norm processes the batch in 2 groups, which are not divisible by 4 "
       "devices (use --batch 16, or smaller groups: bn_group=2)",
       8},
      {"dp", "resnet50:image=32,classes=5,width=2,blocks=1-2,bn_group=0",
       "dp: batch_norm %stem_norm requires the whole batch (bn_group=2)", 8},
      {"megatron:tp=1,pp=4,micro=2", "resnet50:image=32,classes=5,width=2,blocks=1-2,bn_group=0",
       "megatron:tp=1,pp=4,micro=2: batch_norm %stem_norm requires the whole batch, not 2 "
       "micro-batches (use micro=1, or smaller groups: bn_group=4)",
       8}};
  const auto digits = make_digits({2, 2});
  for (const auto& c : cases) {
    EXPECT_EQ(get_error([&] {
                (void)make_named_strategies(c.strategy, build(c.model, c.batch), digits);
              }),
              c.error);
  }
}

// --- They train like one device ------------------------------------------------------------------

struct Expected {
  graph::Values<Field> values, gradients;
};

Expected run_alone(const Graph& model) {
  Expected out;
  out.values = graph::run_forward(model, graph::make_feed_values<Field>(model));
  out.gradients = graph::run_backward(model, out.values, graph::make_loss_gradient<Field>(model));
  return out;
}

void expect_same_step(const Graph& model, const Expected& expected, const lower::Program& program) {
  const auto step = lower::assemble_step_result(
      program, lower::run_program(program, graph::make_feed_values<Field>(program.pcg), Field(3)));
  EXPECT_TRUE(step.replicas_agree);
  EXPECT_EQ(step.loss, expected.values[model.outputs()[0].index()]);
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node)) continue;
    ASSERT_TRUE(step.gradients.contains(node.name)) << node.name;
    EXPECT_EQ(step.gradients.at(node.name), expected.gradients[id.index()]) << node.name;
  }
}

// Returns the grid and strategies that users name: MAD-Max with mixed levels and kinds, and
// Megatron with sharded weights.
std::vector<Setting> settings_and_mixes(const Problem& problem) {
  auto out = list_baseline_settings(problem);
  using enum Sharding;
  const std::vector<LevelSharding> mixes = {{kTp, kDdp}, {kFsdp, kTp}, {kMp, kMp}, {kTp, kTp}};
  for (std::size_t i = 0; i < mixes.size(); ++i) {
    Setting mix{.family = Family::kMadmax};
    for (auto kind : kLayerKinds) {
      if (problem.has(kind)) mix.layers[kind] = mixes[(i + static_cast<std::size_t>(kind)) % 4];
    }
    out.push_back(mix);
  }
  for (const std::int64_t zero : {1, 2, 3}) {
    std::ranges::copy(complete({.family = Family::kMegatron, .zero = zero}, problem),
                      std::back_inserter(out));
  }
  return out;
}

TEST(Grid, TrainsEveryNetworkLikeOneDevice) {
  // Convolutions are slow to interpret, and so is attention on six devices.
  const std::set<std::string> slow = {"inception_v3", "nasnet_a", "resnet50", "resnext50"};
  std::map<std::string, int> made;
  std::set<Hash> run;  // small networks of one kind are often the same
  int refused = 0;
  unsigned distinct = 0;
  for (const auto& [name, small] : models::small_models()) {
    const bool is_slow = slow.contains(name);
    for (const auto& counts : std::vector<std::vector<std::int64_t>>{{2}, {2, 2}, {3, 2}}) {
      if (is_slow && counts.size() > 1) continue;
      const auto digits = make_digits(counts);
      const auto model = build(fmt::format("{}:{}", name, small.settings), digits.devices());
      const bool is_new = run.insert(model.shape_hash()).second;
      std::optional<Expected> expected;
      const Problem problem(model, digits);
      std::vector<Choices> tried;
      for (const auto& setting : settings_and_mixes(problem)) {
        SCOPED_TRACE(fmt::format("{} on {} devices, {}", name, digits.devices(), to_text(setting)));
        auto strategy = make_strategy(setting, problem);
        if (const auto* refusal = std::get_if<Refusal>(&strategy)) {
          EXPECT_NE(refusal->message, "");
          ++refused;
          continue;
        }
        auto& choices = std::get<Strategy>(strategy).choices;
        const auto mapped = plan::parallelize(model, digits, choices);
        EXPECT_NO_THROW(plan::check_mapped(mapped, digits));
        ++made[std::string(strategies::name(setting.family))];
        if (!is_new || (counts[0] == 3 && problem.has(LayerKind::kTransformer)) ||
            std::ranges::find(tried, choices) != tried.end())
          continue;
        tried.push_back(std::move(choices));
        if (distinct++ % kFewer != 0) continue;
        if (!expected) expected = run_alone(model);
        expect_same_step(model, *expected, lower::lower(mapped, digits, {}, plan::Optimizer::kSgd));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_EQ(made.size(), family_names().size());
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tandem::strategies
