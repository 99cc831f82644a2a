// Parsing of inputs. Errors name the file, the field and the value.
#include "madmax/inputs.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error_test_support.h"

namespace tandem::madmax {
namespace {

using Json = nlohmann::json;

const Json kDlrm = Json::parse(R"({"name": "m", "type": "DLRM_MoE", "bytes_per_nonemb_param": 4,
  "bytes_per_emb_param": 2, "num_bot_mlp_layers": 2, "num_top_mlp_layers": 3, "mlp_dim": 64,
  "num_tables": 8, "entries_per_table": 1000, "emb_dim": 16, "pooling_size": 4, "num_experts": 4,
  "num_active_experts": 2})");
const Json kVision = Json::parse(R"({"name": "v", "type": "ViT", "bytes_per_nonemb_param": 2,
  "bytes_per_emb_param": 2, "num_transformer_layers": 6, "num_transformer_heads": 4,
  "attention_dim": 64, "transformer_fc_dim": 256, "image_size": 224, "patch_dim": 16})");
const Json kSystem = Json::parse(R"({"name": "s", "type": "GPU", "num_devices": 8, "num_nodes": 2,
  "f64_flops": 1e13, "f32_flops": 2e13, "f16_flops": 4e13, "i8_ops": 8e13, "flops_util": 0.5,
  "mem_cap": 1e10, "mem_bw": 1e12, "mem_bw_util": 0.5, "num_nvlinks": 4, "bw_per_nvlink": 5e10,
  "nvlink_util": 0.5, "num_ibroce_ports": 4, "ibroce_bw": 2e10, "ibroce_util": 0.5,
  "ar_perc_intra": 0.5})");
const Json kDlrmTask =
    Json::parse(R"({"name": "t", "type": "pretrain", "mlp_parallel": ["fsdp", "tp"],
  "mlp_parallel_degree": [4, 2], "emb_parallel": ["mp"], "emb_parallel_degree": [8],
  "local_mlp_bs": 16.0, "local_emb_bs": 64})");
const Json kVisionTask = Json::parse(R"({"name": "t", "type": "finetune", "emb_parallel": ["ddp"],
  "emb_parallel_degree": [8], "transformer_parallel": ["tp"], "transformer_parallel_degree": [8],
  "local_emb_bs": 2, "local_transformer_bs": 16, "freeze_emb": true, "freeze_transformer": false,
  "min_frozen_layer": 2})");

Model model(const Json& json) { return parse_model(json.dump(), "m.json"); }
System system(const Json& json = kSystem) { return parse_system(json.dump(), "s.json"); }
TaskDescription dlrm_task(const Json& json = kDlrmTask) {
  return parse_task(json.dump(), "t.json", model(kDlrm), system());
}
TaskDescription vision_task(const Json& json = kVisionTask) {
  return parse_task(json.dump(), "t.json", model(kVision), system());
}

// Returns `json` with one field changed; null removes it.
Json set_field(Json json, const std::string& key, const Json& value) {
  if (value.is_null()) {
    json.erase(key);
  } else {
    json[key] = value;
  }
  return json;
}

TEST(Inputs, ReadAllFields) {
  const auto dlrm = model(kDlrm);
  EXPECT_EQ(dlrm.family, ModelFamily::kDlrmExperts);
  EXPECT_EQ(dlrm.recommendation.top_layers, 3);
  EXPECT_EQ(dlrm.active_experts, 2);
  const auto vision = model(kVision);
  EXPECT_EQ(vision.transformer.tokens, 196);
  EXPECT_EQ(vision.transformer.rows, 3 * 16 * 16);
  EXPECT_EQ(system().devices_per_node(), 4);
  EXPECT_EQ(system().speed(2).value, 4e13 / 2);
  const auto task = dlrm_task();
  EXPECT_EQ(task.mlp.levels, 2);
  EXPECT_EQ(task.mlp.level[1].method, Method::kTensor);
  EXPECT_EQ(task.mlp_batch, 16);
  EXPECT_TRUE(vision_task().frozen.embedding);
  EXPECT_EQ(vision_task().trained_blocks, 2);
  EXPECT_EQ(vision_task(set_field(kVisionTask, "type", "pretrain")).trained_blocks, 6);
  // A file may describe layers that the model does not have.
  EXPECT_EQ(model(set_field(kVision, "num_tables", "none")).recommendation.tables, 0);
  EXPECT_EQ(vision_task(set_field(kVisionTask, "mlp_parallel", Json{"ddp"})).mlp.levels, 0);
}

TEST(Inputs, ModelErrors) {
  const auto say = [](const Json& json) { return get_error([&] { model(json); }); };
  EXPECT_EQ(get_error([] { parse_model("{", "m.json"); }),
            "m.json: is not JSON (line 1, column 2)");
  EXPECT_EQ(get_error([] { parse_model("[]", "m.json"); }), "m.json: is not a JSON object");
  EXPECT_EQ(get_error([] { parse_model(R"({"type": "LLM", "dim": 1, "type": "ViT"})", "m.json"); }),
            "m.json: 'type' is given twice (remove one of the two)");
  EXPECT_EQ(say(set_field(kDlrm, "type", "RNN")),
            "m.json: 'type' cannot be 'RNN' "
            "(supported: DLRM, DLRM_MoE, DLRM_Transformer, LLM, LLM_MoE, ViT)");
  EXPECT_EQ(say(set_field(kDlrm, "type", 3)), "m.json: 'type' is 3 and must be a string");
  EXPECT_EQ(say(set_field(kDlrm, "mlp_dim", {})), "m.json: 'mlp_dim' is missing");
  EXPECT_EQ(say(set_field(set_field(kDlrm, "mlp_dim", {}), "mlp_dims", 8)),
            "m.json: 'mlp_dim' is missing (is 'mlp_dims' a misspelling of it?)");
  EXPECT_EQ(say(set_field(kDlrm, "mlp_dim", -64)),
            "m.json: 'mlp_dim' is -64 and must be a number above 0");
  EXPECT_EQ(say(set_field(kDlrm, "num_top_mlp_layers", 2.5)),
            "m.json: 'num_top_mlp_layers' is 2.5 and must be an integer from 1 to 1048576");
  EXPECT_EQ(say(set_field(kDlrm, "bytes_per_nonemb_param", 3)),
            "m.json: 'bytes_per_nonemb_param' is 3 and must be 1, 2, 4 or 8");
  EXPECT_EQ(say(set_field(kDlrm, "num_active_experts", 5)),
            "m.json: 'num_active_experts' 5 is more than 'num_experts' 4");
  const std::string deep(100000, '[');
  EXPECT_EQ(get_error([&] {
              parse_model(R"({"type": )" + deep + std::string(100000, ']') + "}", "m.json");
            }),
            "m.json: is nested too deeply");
  EXPECT_EQ(say(set_field(kDlrm, "num_tabels", 5)),
            "m.json: the field 'num_tabels' is unknown (did you mean 'num_tables'?)");
  EXPECT_EQ(say(set_field(kVision, "image_size", 225)),
            "m.json: 'image_size' 225 is not a multiple of 'patch_dim' 16");
}

TEST(Inputs, SystemErrors) {
  const auto say = [](const Json& json) { return get_error([&] { system(json); }); };
  EXPECT_EQ(say(set_field(kSystem, "bw_per_nvlink", -5e10)),
            "s.json: 'bw_per_nvlink' is -50000000000.0 and must be a number above 0");
  EXPECT_EQ(say(set_field(kSystem, "flops_util", 1.5)),
            "s.json: 'flops_util' is 1.5 and must be a number above 0 and at most 1");
  EXPECT_EQ(say(set_field(kSystem, "num_nodes", 3)),
            "s.json: 'num_devices' 8 is not a multiple of 'num_nodes' 3");
  EXPECT_EQ(say(set_field(kSystem, "ar_perc_intra", -0.1)),
            "s.json: 'ar_perc_intra' is -0.1 and must be a number from 0 to 1");
  EXPECT_EQ(system(set_field(kSystem, "ar_perc_intra", 0)).intra_share, 0);
  EXPECT_EQ(say(set_field(kSystem, "num_nodes", 1)),
            "s.json: 'ar_perc_intra' is 0.5 and must be 1 on one node");
}

TEST(Inputs, StrategyErrors) {
  const auto say = [](const Json& methods, const Json& degrees) {
    const auto json =
        set_field(set_field(kDlrmTask, "mlp_parallel", methods), "mlp_parallel_degree", degrees);
    return get_error([&] { dlrm_task(json); });
  };
  EXPECT_EQ(say({"pp"}, {8}), "t.json: 'mlp_parallel' cannot be 'pp' (supported: ddp, fsdp, tp)");
  EXPECT_EQ(say("tp", {8}), "t.json: 'mlp_parallel' is \"tp\" and must be a list of strings");
  EXPECT_EQ(say({"tp", "ddp", "fsdp"}, {2, 2, 2}),
            "t.json: 'mlp_parallel' has 3 levels and must have 1 or 2");
  EXPECT_EQ(say({"tp", "ddp"}, Json::array({8})),
            "t.json: 'mlp_parallel_degree' has length 1, but the strategy has 2 levels");
  EXPECT_EQ(say({"tp", "fsdp"}, {4, 2}), "t.json: 'mlp_parallel': 'fsdp' must be the first level");
  EXPECT_EQ(say({"tp", "tp"}, {4, 2}), "t.json: 'mlp_parallel': both levels have the same method");
  EXPECT_EQ(
      say({"tp", "ddp"}, {4, 4}),
      "t.json: the degrees in 'mlp_parallel_degree' multiply to 16 (the system has 8 devices)");
  EXPECT_EQ(say({"tp", "ddp"}, {2, 4}),
            "t.json: the degrees in 'mlp_parallel_degree' begin with 2 "
            "(the first must be 4 (devices of a node) or 8 (all devices))");
  EXPECT_EQ(say(Json::array({"tp"}), Json::array({"x"})),
            "t.json: 'mlp_parallel_degree' is \"x\" and must be an integer from 1 to 1048576");
}

TEST(Inputs, TaskErrors) {
  const auto say = [](const Json& json) { return get_error([&] { dlrm_task(json); }); };
  EXPECT_EQ(say(set_field(kDlrmTask, "type", "train")),
            "t.json: 'type' cannot be 'train' (supported: pretrain, finetune, inference)");
  EXPECT_EQ(
      say(set_field(kDlrmTask, "emb_parallel", Json::array({"ddp"}))),
      "t.json: 'emb_parallel' must be [\"mp\"]: a DLRM distributes its tables over the devices");
  EXPECT_EQ(say(set_field(kDlrmTask, "local_batch", 5)),
            "t.json: the field 'local_batch' is unknown");
  EXPECT_EQ(get_error([] { vision_task(set_field(kVisionTask, "min_frozen_layer", 7)); }),
            "t.json: 'min_frozen_layer' 7 is more than the model's 6 layers");
  EXPECT_EQ(get_error([] { vision_task(set_field(kVisionTask, "freeze_emb", 1)); }),
            "t.json: 'freeze_emb' is 1 and must be true or false");
}

}  // namespace
}  // namespace tandem::madmax
