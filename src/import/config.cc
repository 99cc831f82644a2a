#include "import/config.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

using Json = nlohmann::json;
using models::Decoder;
using models::DecoderSizes;
using models::ModelSpec;
using models::Settings;

// Reads keys and checks their values.
class Config {
 public:
  Config(Json json, const std::string& source) : json_(std::move(json)), source_(source) {}

  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    throw UserError("config", source_, message, hint);
  }

  // Returns the value of `key`. Null counts as absent, because Hugging Face writes it for absent
  // values.
  [[nodiscard]] const Json* find(std::string_view key) const {
    const auto at = json_.find(std::string(key));
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }

  [[nodiscard]] std::int64_t size(std::string_view key,
                                  std::optional<std::int64_t> otherwise = {}) const {
    const auto* value = find(key);
    if (value == nullptr) {
      if (!otherwise) fail(fmt::format("'{}' is missing", key));
      return *otherwise;
    }
    constexpr std::int64_t kLargest = std::int64_t{1} << 40U;
    if (!value->is_number_integer() || *value < 1 || *value > kLargest) {
      fail(fmt::format("'{}' is {} and must be a positive integer", key, describe_json(*value)));
    }
    return value->get<std::int64_t>();
  }

  [[nodiscard]] double real(std::string_view key, double otherwise) const {
    const auto* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number() || !(value->get<double>() > 0) || value->get<double>() > 1e30) {
      fail(fmt::format("'{}' is {} and must be a number above 0", key, describe_json(*value)));
    }
    return value->get<double>();
  }

  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const {
    const auto* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) {
      fail(fmt::format("'{}' is {} and must be true or false", key, describe_json(*value)));
    }
    return value->get<bool>();
  }

  [[nodiscard]] std::string text(std::string_view key, const std::string& otherwise) const {
    const auto* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) {
      fail(fmt::format("'{}' is {} and must be a string", key, describe_json(*value)));
    }
    return value->get<std::string>();
  }

  // Throws unless `whole`, the value of `of`, is a multiple of `value`.
  void check_divides(std::string_view key, std::int64_t value, std::string_view of,
                     std::int64_t whole) const {
    if (whole % value == 0) return;
    fail(fmt::format("'{}' is {} and must be a multiple of '{}' ({})", of, whole, key, value));
  }

  // Throws unless the option `key` has the only supported value, `value`.
  void expect(std::string_view key, bool value) const {
    if (flag(key, value) != value) {
      fail(fmt::format("'{}': {} is not supported", key, value ? "false" : "true"));
    }
  }

  [[nodiscard]] const ops::OpSpec& activation(std::string_view key,
                                              const std::string& otherwise) const {
    struct NamedActivation {
      std::string_view name;
      const ops::OpSpec* op;
    };
    static constexpr std::array<NamedActivation, 9> kNames = {
        {{"relu", &ops::kRelu},
         {"gelu", &ops::kGelu},
         {"gelu_new", &ops::kGeluTanh},
         {"gelu_fast", &ops::kGeluTanh},
         {"gelu_pytorch_tanh", &ops::kGeluTanh},
         {"silu", &ops::kSilu},
         {"swish", &ops::kSilu},
         {"tanh", &ops::kTanh},
         {"sigmoid", &ops::kSigmoid}}};
    const auto name = text(key, otherwise);
    std::vector<std::string> known;
    for (const auto& n : kNames) {
      if (n.name == name) return *n.op;
      known.emplace_back(n.name);
    }
    fail(fmt::format("'{}' is '{}', which is not supported", key, name),
         "supported: " + join(known, ", "));
  }

 private:
  Json json_;
  const std::string& source_;
};

ModelSpec make_decoder_spec(const DecoderSizes& sizes, const Decoder& decoder) {
  ModelSpec out;
  out.hyperparameters = decoder_hyperparameters(sizes);
  out.adam = true;
  out.build = [decoder](const Settings& s, std::int64_t batch, DType dtype) {
    return build_decoder(decoder, s, batch, dtype);
  };
  return out;
}

ModelSpec read_gpt2(const Config& c) {
  const auto hidden = c.size("n_embd");
  const auto context = c.size("n_positions", c.size("n_ctx", 1024));
  c.expect("scale_attn_by_inverse_layer_idx", false);
  const Decoder decoder{.activation = &c.activation("activation_function", "gelu_new"),
                        .bias = true,
                        .norm = {models::NormKind::kLayer, c.real("layer_norm_epsilon", 1e-5)},
                        .context = context,
                        .tied = c.flag("tie_word_embeddings", true)};
  const auto heads = c.size("n_head");
  c.check_divides("n_head", heads, "n_embd", hidden);
  return make_decoder_spec({.layers = c.size("n_layer"),
                            .hidden = hidden,
                            .heads = heads,
                            .kv_heads = heads,
                            .ffn = c.size("n_inner", 4 * hidden),
                            .vocab = c.size("vocab_size"),
                            .seq = context,
                            .attention = "plain"},
                           decoder);
}

// Builds LLaMA, Mistral (list_config_notes reports its sliding window) and, with experts, Mixtral.
ModelSpec read_llama(const Config& c, bool has_experts) {
  const auto hidden = c.size("hidden_size");
  const auto heads = c.size("num_attention_heads");
  const auto kv_heads = c.size("num_key_value_heads", heads);
  c.check_divides("num_attention_heads", heads, "hidden_size", hidden);
  c.check_divides("num_key_value_heads", kv_heads, "num_attention_heads", heads);
  c.expect("attention_bias", false);
  c.expect("mlp_bias", false);
  if (c.size("head_dim", hidden / heads) != hidden / heads) {
    c.fail(fmt::format("'head_dim' is {} and must be hidden_size / num_attention_heads = {}",
                       c.size("head_dim"), hidden / heads));
  }
  auto decoder =
      models::make_llama_decoder(c.real("rope_theta", 10000), c.real("rms_norm_eps", 1e-6));
  decoder.activation = &c.activation("hidden_act", "silu");
  decoder.tied = c.flag("tie_word_embeddings", false);
  return make_decoder_spec({.layers = c.size("num_hidden_layers"),
                            .hidden = hidden,
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .ffn = c.size("intermediate_size"),
                            .vocab = c.size("vocab_size"),
                            .seq = c.size("max_position_embeddings", 2048),
                            .attention = "fused",
                            .experts = has_experts ? c.size("num_local_experts") : 0,
                            .active_experts = has_experts ? c.size("num_experts_per_tok") : 0},
                           decoder);
}

ModelSpec read_opt(const Config& c) {
  const auto hidden = c.size("hidden_size");
  c.expect("do_layer_norm_before", true);
  if (c.size("word_embed_proj_dim", hidden) != hidden) {
    c.fail("'word_embed_proj_dim' other than 'hidden_size' is not supported");
  }
  const auto positions = c.size("max_position_embeddings", 2048);
  const Decoder decoder{.activation = &c.activation("activation_function", "relu"),
                        .bias = c.flag("enable_bias", true),
                        .norm = {models::NormKind::kLayer, 1e-5},
                        .context = positions + 2,  // the first two rows are for padding
                        .tied = c.flag("tie_word_embeddings", true)};
  const auto heads = c.size("num_attention_heads");
  c.check_divides("num_attention_heads", heads, "hidden_size", hidden);
  return make_decoder_spec({.layers = c.size("num_hidden_layers"),
                            .hidden = hidden,
                            .heads = heads,
                            .kv_heads = heads,
                            .ffn = c.size("ffn_dim"),
                            .vocab = c.size("vocab_size"),
                            .seq = positions,
                            .attention = "plain"},
                           decoder);
}

ModelSpec read_bert(const Config& c) {
  const auto positions = c.size("max_position_embeddings", 512);
  c.check_divides("num_attention_heads", c.size("num_attention_heads"), "hidden_size",
                  c.size("hidden_size"));
  const models::Encoder encoder{.activation = &c.activation("hidden_act", "gelu"),
                                .norm = {models::NormKind::kLayer, c.real("layer_norm_eps", 1e-12)},
                                .positions = positions};
  ModelSpec out;
  out.hyperparameters = models::encoder_hyperparameters({.layers = c.size("num_hidden_layers"),
                                                         .hidden = c.size("hidden_size"),
                                                         .heads = c.size("num_attention_heads"),
                                                         .ffn = c.size("intermediate_size"),
                                                         .vocab = c.size("vocab_size"),
                                                         .types = c.size("type_vocab_size", 2),
                                                         .seq = positions});
  out.adam = true;
  out.build = [encoder](const Settings& s, std::int64_t batch, DType dtype) {
    return build_encoder(encoder, s, batch, dtype);
  };
  return out;
}

ModelSpec read_family(const Config& c) {
  const auto family = c.text("model_type", "");
  if (family == "gpt2") return read_gpt2(c);
  if (family == "llama" || family == "mistral") return read_llama(c, false);
  if (family == "mixtral") return read_llama(c, true);
  if (family == "bert") return read_bert(c);
  if (family == "opt") return read_opt(c);
  c.fail(fmt::format("model_type '{}' is not supported", family),
         "supported: bert, gpt2, llama, mistral, mixtral, opt");
}

}  // namespace

// read_config reports all other errors.
bool is_config(std::string_view text) {
  const auto flat = [](int depth, Json::parse_event_t, const Json&) { return depth <= 1; };
  const auto json = Json::parse(text, flat, false);
  return json.is_object() && json.contains("model_type");
}

std::vector<std::string> list_config_notes(std::string_view text, const std::string& source,
                                           std::int64_t seq) {
  const Config config(read_json<Json>(text, "config", source), source);
  std::vector<std::string> out;
  const auto* window = config.find("sliding_window");
  if (window != nullptr && window->is_number_integer() && *window > 0 && *window < seq) {
    out.push_back(
        fmt::format("{}: attention covers all {} positions; 'sliding_window' of {} is ignored",
                    source, seq, describe_json(*window)));
  }
  if (config.find("quantization_config") != nullptr) {
    out.push_back(fmt::format(
        "{}: 'quantization_config' is ignored: weights have the dtype of the run", source));
  }
  return out;
}

std::shared_ptr<const ModelSpec> read_config(std::string_view text, const std::string& source) {
  auto json = read_json<Json>(text, "config", source);
  if (!json.is_object()) throw UserError("config", source, "is not a JSON object");
  const Config config(std::move(json), source);
  auto out = std::make_shared<ModelSpec>(read_family(config));
  out->name = config.text("model_type", "");
  out->doc = "from " + source;
  return out;
}

}  // namespace tandem::import
