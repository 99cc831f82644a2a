// Every built-in network, small enough for slow oracles, with another value for each of its
// hyperparameters.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tandem::models {

struct SmallModel {
  std::string settings;
  std::map<std::string, std::string> others;  // by hyperparameter
};

inline const std::map<std::string, SmallModel>& small_models() {
  using Others = std::map<std::string, std::string>;
  const auto with = [](Others a, const Others& b) {
    a.insert(b.begin(), b.end());
    return a;
  };
  const std::string sizes = "layers=2,hidden=8,heads=2,ffn=12,vocab=11,seq=6";
  const Others plain = {{"layers", "3"},   {"hidden", "16"},       {"heads", "4"},
                        {"kv_heads", "1"}, {"ffn", "20"},          {"vocab", "13"},
                        {"seq", "5"},      {"attention", "fused"}, {"vocab_pad", "4"},
                        {"cache", "3"}};
  const std::string grouped = "layers=2,hidden=16,heads=4,kv_heads=2,ffn=12,vocab=11,seq=6";
  const Others fused = {{"layers", "3"},   {"hidden", "24"},       {"heads", "2"},
                        {"kv_heads", "1"}, {"ffn", "20"},          {"vocab", "13"},
                        {"seq", "5"},      {"attention", "plain"}, {"vocab_pad", "4"},
                        {"cache", "3"}};
  const Others decoder = with(plain, {{"loss", "plain"}, {"dropout", "true"}});
  const Others llama = with(fused, {{"loss", "plain"}, {"norm", "plain"}});
  const Others experts = {{"experts", "4"}, {"active_experts", "1"}, {"imbalance", "1.2"}};
  const Others image = {{"image", "40"}, {"classes", "6"}, {"bn_group", "2"}};
  const Others tables = {{"tables", "4"}, {"rows", "9"}, {"dim", "6"}, {"bag", "3"}};
  const Others dlrm = with(tables, {{"dense", "4"}, {"bottom", "6-4"}, {"top", "6-1"}});
  const std::string production = "tables=3,rows=7,dim=4,dense=3,bag=2,bottom=5-4,top=5-4";
  const std::string production_experts = production + ",experts=3,active_experts=2";
  const std::string production_transformer = production + ",layers=2,hidden=8,heads=2,ffn=12,seq=3";
  const auto production_layers = with(dlrm, {{"layers", "3"},
                                             {"hidden", "16"},
                                             {"heads", "4"},
                                             {"ffn", "20"},
                                             {"seq", "2"},
                                             {"attention", "fused"}});
  static const std::map<std::string, SmallModel> kModels = {
      {"bert_large", {sizes + ",types=2", with(plain, {{"types", "3"}, {"variant", "artifact"}})}},
      {"candle_uno",
       {"towers=2,layers=2,hidden=6,features=3-4,doses=1,top_layers=2",
        {{"towers", "3"},
         {"layers", "3"},
         {"hidden", "7"},
         {"features", "3-5"},
         {"doses", "2"},
         {"top_layers", "1"}}}},
      {"dlrm",
       {"tables=2,rows=7,dim=4,dense=3,bag=2,bottom=5-4,top=5-2",
        with(dlrm, {{"variant", "artifact"}})}},
      {"dlrm_a", {production, dlrm}},
      {"dlrm_a_moe", {production_experts, with(dlrm, experts)}},
      {"dlrm_a_transformer", {production_transformer, production_layers}},
      {"dlrm_b", {production, dlrm}},
      {"dlrm_b_moe", {production_experts, with(dlrm, experts)}},
      {"dlrm_b_transformer", {production_transformer, production_layers}},
      {"gpt2", {sizes, decoder}},
      {"gpt3_175b", {sizes, decoder}},
      {"inception_v3",
       {"image=75,width=2,classes=5",
        {{"image", "76"},
         {"classes", "6"},
         {"bn_group", "2"},
         {"width", "4"},
         {"variant", "artifact"}}}},
      {"llama2_70b", {grouped, llama}},
      {"llama2_7b", {grouped, llama}},
      {"llama3_405b", {grouped, llama}},
      {"llama3_70b", {grouped, llama}},
      {"llama3_8b", {grouped, llama}},
      {"llama_65b", {grouped, llama}},
      {"llm_moe_1.8t",
       {grouped + ",experts=3,active_experts=2", with(with(fused, {{"loss", "plain"}}), experts)}},
      {"mixtral_8x7b", {grouped + ",experts=3,active_experts=2", with(llama, experts)}},
      {"mlp",
       {"layers=3,hidden=6,inputs=5,outputs=3",
        {{"layers", "2"},
         {"hidden", "7"},
         {"inputs", "6"},
         {"outputs", "4"},
         {"variant", "artifact"}}}},
      {"nasnet_a",
       {"image=32,width=8,cells=1,stem=2,classes=5",
        with(image, {{"width", "4"}, {"cells", "2"}, {"stem", "3"}})}},
      {"resnet50",
       {"image=32,classes=5,width=2,blocks=1-2", with(image, {{"width", "3"}, {"blocks", "2-2"}})}},
      {"resnext50",
       {"image=32,classes=5,width=4,blocks=1-2,groups=2,group_width=1",
        with(image, {{"width", "3"},
                     {"blocks", "2-2"},
                     {"groups", "4"},
                     {"group_width", "2"},
                     {"variant", "artifact"}})}},
      {"xdl", {"tables=2,rows=7,dim=4,bag=2,top=5-2", with(tables, {{"top", "6-1"}})}},
  };
  return kModels;
}

}  // namespace tandem::models
