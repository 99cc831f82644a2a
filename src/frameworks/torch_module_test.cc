#include "frameworks/torch_module.h"

#include <gtest/gtest.h>

#include "base/error_test_support.h"
#include "frameworks/module_form.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::frameworks {
namespace {

plan::Plan make_plan(const std::string& model_text, const std::string& machine_text,
                     const std::string& strategy) {
  const auto machine = machine::load_machine(machine_text);
  const auto model = models::parse_model(model_text).build(16, DType::kFp32);
  const auto made =
      strategies::make_named_strategies(strategy, model, machine::Digits(machine)).front();
  plan::Plan plan;
  plan.model = model_text;
  plan.machine = machine_text;
  plan.strategy = made.name;
  plan.batch = 16;
  plan.mapped = plan::parallelize(model, machine::Digits(machine, made.schedule.micro_batches),
                                  made.choices, made.schedule);
  return plan;
}

TorchModule make_module(const std::string& model, const std::string& machine,
                        const std::string& strategy) {
  return make_torch_module(make_plan(model, machine, strategy), machine::load_machine(machine));
}

const TorchWeight& weight(const TorchModule& module, const std::string& name) {
  const auto at = std::ranges::find(module.weights, name, &TorchWeight::name);
  CHECK(at != module.weights.end(), name);
  return *at;
}

const char* const kMlp = "mlp:layers=2,hidden=64,inputs=64,outputs=64";
const char* const kBert = "bert_large:layers=1,hidden=64,heads=8,ffn=64,vocab=64,seq=16";

TEST(TorchModule, SeparatesDataParallelism) {
  const auto module = make_module(kMlp, "dgx_a100:2", "megatron:tp=8");
  EXPECT_EQ(module.mesh.replicate.size, 2);
  EXPECT_EQ(module.mesh.shard.size, 1);
  ASSERT_EQ(module.mesh.planned.size(), 1U);
  EXPECT_EQ(module.mesh.planned[0].size, 8);
  EXPECT_EQ(module.numbering.sizes, (std::vector<std::int64_t>{2, 8}));
  EXPECT_EQ(module.numbering.order, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(weight(module, "w1").stored, Placements{"Shard(0)"});
  EXPECT_EQ(weight(module, "w2").stored, Placements{"Shard(1)"});
  ASSERT_EQ(module.layers.size(), 2U);
  EXPECT_EQ(module.layers[0].reads, Placements{"Replicate()"});
  EXPECT_EQ(module.layers[0].gives, Placements{"Shard(-1)"});
  EXPECT_EQ(module.layers[1].reads, Placements{"Shard(-1)"});
}

TEST(TorchModule, NumbersDevicesLikeTheMachine) {
  // Tensor parallelism between nodes, data parallelism inside them
  const auto module = make_module(kMlp, "dgx_a100:2", "megatron:tp=1/2");
  EXPECT_EQ(module.numbering.sizes, (std::vector<std::int64_t>{2, 8}));
  EXPECT_EQ(module.numbering.order, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(module.mesh.dims().size(), 3U);
}

TEST(TorchModule, ShardsWeightsWithFsdp) {
  const auto module = make_module(kMlp, "dgx_a100:1", "fsdp");
  EXPECT_EQ(module.mesh.shard.size, 8);
  EXPECT_TRUE(module.mesh.planned.empty());
  EXPECT_TRUE(module.layers.empty());
  EXPECT_TRUE(module.regather);
  EXPECT_FALSE(make_module(kMlp, "dgx_a100:1", "deepspeed:zero=2").regather);
}

TEST(TorchModule, FlattensHeadsAndTheirFeatures) {
  const auto module = make_module(kBert, "dgx_a100:1", "megatron:tp=8");
  const auto& q = weight(module, "l0.w_q");
  EXPECT_EQ(q.shape, (Shape{64, 64}));
  EXPECT_EQ(q.stored, Placements{"Shard(0)"});
  EXPECT_EQ(weight(module, "l0.b_q").shape, Shape{64});
  EXPECT_EQ(weight(module, "l0.b_q").stored, Placements{"Shard(0)"});
  EXPECT_EQ(weight(module, "l0.w_o").stored, Placements{"Shard(1)"});
  // The embedding table's first reader is the module. The scores are another reader.
  const auto scores = std::ranges::find(module.layers, "logits", &TorchLayer::name);
  ASSERT_NE(scores, module.layers.end());
  EXPECT_EQ(scores->weight, "");
}

TEST(ModuleForm, RefusesPlacementsInsideHeads) {
  const auto model = models::parse_model(kBert).build(16, DType::kFp32);
  const auto make_form = [&](const std::string& name, std::size_t operand) {
    for (auto id : model.ids()) {
      if (model.node(id).name == name) return make_module_form(model, id, operand);
    }
    CHECK(false, name);
  };
  const std::optional<int> none;
  // "b s i, h d i -> b h s d"
  const auto q = make_form("l0.q", 1);
  EXPECT_EQ(q.weight_dims, (DimMap{0, none, 1}));
  EXPECT_EQ(q.input_dims, (DimMap{0, 1, -1}));
  EXPECT_EQ(q.output_dims, (DimMap{0, -1, 1, none}));
  // "b h s d, o h d -> b s o"
  const auto out = make_form("l0.attention_out", 1);
  EXPECT_EQ(out.weight_dims, (DimMap{0, 1, none}));
  EXPECT_EQ(out.input_dims, (DimMap{0, -1, 1, none}));
  EXPECT_EQ(out.output_dims, (DimMap{0, 1, -1}));
  EXPECT_EQ(make_form("l0.ffn1", 1).weight_dims, (DimMap{0, 1}));
}

TEST(TorchModule, RefusesPipelines) {
  EXPECT_EQ(
      get_error([] { make_module(kMlp, "dgx_a100:1", "megatron:tp=4,pp=2"); }),
      "megatron:tp=4,dp=1,pp=2,micro=16: has 2 pipeline stages, which `--to torch` does not "
      "support (use `--to megatron` or `--to torchtitan`, or plan without a pipeline: `tandem "
      "plan ... --no-pipeline`)");
}

}  // namespace
}  // namespace tandem::frameworks
