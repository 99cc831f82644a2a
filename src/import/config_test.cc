#include "import/config.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"

namespace tandem::import {
namespace {

// Files as Hugging Face ships them, without irrelevant keys.
constexpr std::string_view kGpt2 = R"({"model_type": "gpt2", "activation_function": "gelu_new",
  "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_inner": null,
  "vocab_size": 50257, "layer_norm_epsilon": 1e-05})";
constexpr std::string_view kGpt2Medium = R"({"model_type": "gpt2", "n_embd": 1024, "n_head": 16,
  "n_layer": 24, "n_positions": 1024, "vocab_size": 50257})";
constexpr std::string_view kLlama2 = R"({"model_type": "llama", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 4096,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
  "vocab_size": 32000})";
constexpr std::string_view kLlama3 = R"({"model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "rope_theta": 500000.0, "vocab_size": 128256})";
constexpr std::string_view kMistral = R"({"model_type": "mistral", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "sliding_window": 4096, "vocab_size": 32000})";
constexpr std::string_view kMixtral = R"({"model_type": "mixtral", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "num_experts_per_tok": 2,
  "num_local_experts": 8, "rms_norm_eps": 1e-05, "vocab_size": 32000, "rope_theta": 1000000.0})";
constexpr std::string_view kBert = R"({"model_type": "bert", "hidden_act": "gelu",
  "hidden_size": 768, "intermediate_size": 3072, "max_position_embeddings": 512,
  "num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 2, "vocab_size": 30522})";
constexpr std::string_view kOpt = R"({"model_type": "opt", "activation_function": "relu",
  "do_layer_norm_before": true, "ffn_dim": 3072, "hidden_size": 768,
  "max_position_embeddings": 2048, "num_attention_heads": 12, "num_hidden_layers": 12,
  "vocab_size": 50272, "word_embed_proj_dim": 768})";

models::ConfiguredModel model(std::string_view config, std::string_view overrides = "") {
  return models::make_model(read_config(config, "config.json"), "config.json", overrides);
}

TEST(Config, HasThePublishedParameters) {
  struct Case {
    std::string_view config;
    std::int64_t parameters;
  };
  // Numbers of parameters of the released weights; BERT's includes its tied masked-LM head.
  const Case cases[] = {
      {kGpt2, 124439808},    {kGpt2Medium, 354823168}, {kLlama2, 6738415616},
      {kLlama3, 8030261248}, {kMistral, 7241732096},   {kMixtral, 46702792704},
      {kBert, 109514298},    {kOpt, 125239296},
  };
  for (const auto& c : cases) {
    const auto graph = model(c.config).build(1, DType::kBf16);
    EXPECT_EQ(models::count_parameters(graph), c.parameters) << c.config;
  }
}

TEST(Config, EqualsTheBuiltInNetworkOfTheSameSizes) {
  const auto hash = [](const models::ConfiguredModel& m) {
    return m.build(2, DType::kFp32).shape_hash();
  };
  EXPECT_EQ(hash(model(kGpt2, "seq=64")), hash(models::parse_model("gpt2:seq=64")));
  EXPECT_EQ(hash(model(kMixtral, "layers=2,seq=64")),
            hash(models::parse_model("mixtral_8x7b:layers=2,seq=64")));
  const std::string_view large = R"({"model_type": "bert", "hidden_size": 1024,
    "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
    "vocab_size": 30522})";
  EXPECT_EQ(hash(model(large)), hash(models::parse_model("bert_large")));
}

TEST(Config, AppliesOverridesAndDefaults) {
  EXPECT_EQ(model(kLlama2).settings.size("seq"), 4096);
  EXPECT_EQ(model(kLlama2, "layers=2,seq=128").settings.size("layers"), 2);
  EXPECT_EQ(model(kMixtral).settings.size("active_experts"), 2);
  EXPECT_TRUE(is_config(kBert));
  EXPECT_FALSE(is_config("{}"));
  EXPECT_FALSE(is_config("graph g\n"));
  EXPECT_FALSE(is_config(std::string(100000, '[')));
}

TEST(Config, NotesUnsupportedFeatures) {
  const auto notes = [](std::string_view text, std::int64_t seq) {
    return join(list_config_notes(text, "config.json", seq), "; ");
  };
  const std::string_view window = R"({"model_type": "mistral", "sliding_window": 128})";
  EXPECT_EQ(notes(window, 256),
            "config.json: attention covers all 256 positions; 'sliding_window' of 128 "
            "is ignored");
  EXPECT_EQ(notes(window, 128), "");
  EXPECT_EQ(notes(R"({"model_type": "mistral", "sliding_window": null})", 256), "");
  EXPECT_EQ(notes(R"({"model_type": "llama", "quantization_config": {"bits": 4}})", 256),
            "config.json: 'quantization_config' is ignored: weights have the dtype of the run");
}

TEST(Config, NamesTheFileAndTheKeyInErrors) {
  struct Case {
    std::string_view config;
    std::string_view what;
  };
  const Case cases[] = {
      {"[1]", "config.json: is not a JSON object"},
      {R"({"model_type": "gpt2", "n_embd": 8, "n_embd": 16})",
       "config.json: 'n_embd' is given twice (remove one of the two)"},
      {R"({"model_type": "llama"})", "config.json: 'hidden_size' is missing"},
      {R"({"model_type": "lama"})",
       "config.json: model_type 'lama' is not supported (supported: bert, gpt2, llama, mistral, "
       "mixtral, opt)"},
      {R"({"model_type": 7})", "config.json: 'model_type' is 7 and must be a string"},
      {R"({"model_type": "gpt2", "n_embd": 0})",
       "config.json: 'n_embd' is 0 and must be a positive integer"},
      {R"({"model_type": "gpt2", "n_embd": -5})",
       "config.json: 'n_embd' is -5 and must be a positive integer"},
      {R"({"model_type": "gpt2", "n_embd": 1e30})",
       "config.json: 'n_embd' is 1e+30 and must be a positive integer"},
      {R"({"model_type": "gpt2", "n_embd": 99999999999999999})",
       "config.json: 'n_embd' is 99999999999999999 and must be a positive integer"},
      {R"({"model_type": "gpt2", "n_embd": "768 and many more characters than anybody reads"})",
       "config.json: 'n_embd' is \"768 and many more characters than an... and must be a positive "
       "integer"},
      {R"({"model_type": "gpt2", "n_embd": 8, "activation_function": "mish"})",
       "config.json: 'activation_function' is 'mish', which is not supported (supported: relu, "
       "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, silu, swish, tanh, sigmoid)"},
      {R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2,
           "attention_bias": true})",
       "config.json: 'attention_bias': true is not supported"},
      {R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "head_dim": 16})",
       "config.json: 'head_dim' is 16 and must be hidden_size / num_attention_heads = 4"},
      {R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2,
           "rms_norm_eps": -1})",
       "config.json: 'rms_norm_eps' is -1 and must be a number above 0"},
      {R"({"model_type": "gpt2", "n_embd": 8, "n_head": 3})",
       "config.json: 'n_embd' is 8 and must be a multiple of 'n_head' (3)"},
      {R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 32,
           "num_key_value_heads": 5})",
       "config.json: 'num_attention_heads' is 32 and must be a multiple of "
       "'num_key_value_heads' (5)"},
      {R"({"model_type": "bert", "hidden_size": 8, "num_attention_heads": 3})",
       "config.json: 'hidden_size' is 8 and must be a multiple of 'num_attention_heads' (3)"},
      {R"({"model_type": "opt", "hidden_size": 8, "do_layer_norm_before": false})",
       "config.json: 'do_layer_norm_before': false is not supported"},
      {R"({"model_type": "opt", "hidden_size": 8, "word_embed_proj_dim": 4})",
       "config.json: 'word_embed_proj_dim' other than 'hidden_size' is not supported"},
  };
  for (const auto& c : cases) {
    try {
      (void)read_config(c.config, "config.json");
      ADD_FAILURE() << c.config << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(std::string_view(e.what()), c.what);
      EXPECT_EQ(e.kind, "config");
    }
  }
  // An override with an impossible value fails when the network is built.
  try {
    const auto spec = read_config(
        R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 5})",
        "config.json");
    (void)models::make_model(spec, "config.json:heads=3", "heads=3").build(1, DType::kFp32);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(std::string_view(e.what()), "gpt2: hidden 8 is not a multiple of heads 3");
  }
}

}  // namespace
}  // namespace tandem::import
