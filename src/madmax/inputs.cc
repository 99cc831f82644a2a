#include "madmax/inputs.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/text.h"
#include "madmax/fields.h"

namespace tandem::madmax {

namespace {

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

constexpr Named<ModelFamily> kFamilies[] = {
    {"DLRM", ModelFamily::kDlrm},
    {"DLRM_MoE", ModelFamily::kDlrmExperts},
    {"DLRM_Transformer", ModelFamily::kDlrmTransformer},
    {"LLM", ModelFamily::kLanguage},
    {"LLM_MoE", ModelFamily::kLanguageExperts},
    {"ViT", ModelFamily::kVision},
};
constexpr Named<Purpose> kPurposes[] = {
    {"pretrain", Purpose::kPretrain},
    {"finetune", Purpose::kFinetune},
    {"inference", Purpose::kInference},
};
constexpr Named<Method> kLayerMethods[] = {
    {"ddp", Method::kReplicate}, {"fsdp", Method::kShard}, {"tp", Method::kTensor}};
constexpr Named<Method> kEmbeddingMethods[] = {{"ddp", Method::kReplicate},
                                               {"mp", Method::kTables}};

// Returns the value named `name` among `all`. Throws UserError if there is none.
template <class Value>
Value find_named(const Fields& fields, std::string_view key, const std::string& name,
                 std::span<const Named<Value>> all) {
  std::vector<std::string> names;
  for (const auto& one : all) {
    if (one.name == name) return one.value;
    names.emplace_back(one.name);
  }
  fields.fail(fmt::format("'{}' cannot be '{}'", key, name), "supported: " + join(names, ", "));
}

Recommendation parse_recommendation(Fields& fields) {
  return {.bottom_layers = fields.count("num_bot_mlp_layers"),
          .top_layers = fields.count("num_top_mlp_layers"),
          .width = fields.number("mlp_dim"),
          .tables = fields.number("num_tables"),
          .rows = fields.number("entries_per_table"),
          .embedding_width = fields.number("emb_dim"),
          .lookups = fields.number("pooling_size")};
}

// Reads an image: its tokens are patches, and a patch has three values for each pixel.
void parse_patches(Fields& fields, Transformer& out) {
  const int image = fields.count("image_size");
  const int patch = fields.count("patch_dim");
  if (image % patch != 0) {
    fields.fail(fmt::format("'image_size' {} is not a multiple of 'patch_dim' {}", image, patch));
  }
  out.tokens = std::pow(image / patch, 2);
  out.rows = 3 * std::pow(patch, 2);
}

Transformer parse_transformer(Fields& fields, ModelFamily family) {
  Transformer out{.blocks = fields.count("num_transformer_layers"),
                  .width = fields.number("attention_dim"),
                  .ffn_width = fields.number("transformer_fc_dim")};
  if (family == ModelFamily::kVision) {
    parse_patches(fields, out);
  } else {
    out.tokens = fields.number("transformer_seq_len");
    if (!is_recommendation(family)) out.rows = fields.number("entries_per_table");
  }
  return out;
}

void parse_experts(Fields& fields, Model& out) {
  out.experts = fields.count("num_experts");
  out.active_experts = fields.count("num_active_experts");
  if (out.active_experts > out.experts) {
    fields.fail(fmt::format("'num_active_experts' {} is more than 'num_experts' {}",
                            out.active_experts, out.experts));
  }
}

// Checks the limits of the public code: at most two levels, and FSDP only as the first.
void check_order(const Fields& fields, const std::string& key, const LayerStrategy& strategy) {
  const auto& [first, second] = strategy.level;
  if (strategy.levels < 2) return;
  if (second.method == Method::kShard) {
    fields.fail(fmt::format("'{}': 'fsdp' must be the first level", key));
  }
  if (second.method == first.method) {
    fields.fail(fmt::format("'{}': both levels have the same method", key));
  }
}

void check_degrees(const Fields& fields, const std::string& key, const LayerStrategy& strategy,
                   const System& system) {
  const int per_node = system.devices_per_node();
  const int first = strategy.level[0].degree;
  const auto all = static_cast<std::int64_t>(first) * strategy.level[1].degree;
  if (all != system.devices) {
    fields.fail(fmt::format("the degrees in '{}' multiply to {}", key, all),
                fmt::format("the system has {} devices", system.devices));
  }
  if (first != per_node && first != system.devices) {
    fields.fail(fmt::format("the degrees in '{}' begin with {}", key, first),
                fmt::format("the first must be {} (devices of a node) or {} (all devices)",
                            per_node, system.devices));
  }
}

LayerStrategy parse_strategy(Fields& fields, const std::string& layers, const System& system,
                             std::span<const Named<Method>> methods) {
  const auto key = layers + "_parallel";
  const auto names = fields.texts(key);
  const auto degrees = fields.counts(key + "_degree");
  if (names.empty() || names.size() > 2) {
    fields.fail(fmt::format("'{}' has {} levels and must have 1 or 2", key, names.size()));
  }
  if (degrees.size() != names.size()) {
    fields.fail(fmt::format("'{}_degree' has length {}, but the strategy has {} levels", key,
                            degrees.size(), names.size()));
  }
  LayerStrategy out;
  for (const auto& name : names) {
    auto& level = out.level[static_cast<std::size_t>(out.levels)];
    level.method = find_named(fields, key, name, methods);
    level.degree = degrees[static_cast<std::size_t>(out.levels)];
    ++out.levels;
  }
  check_order(fields, key, out);
  check_degrees(fields, key + "_degree", out, system);
  return out;
}

// Reads what fine-tuning freezes. `min_frozen_layer` is the files' name of the number of blocks
// whose gradients are synchronized.
void parse_frozen(Fields& fields, const Model& model, TaskDescription& out) {
  out.frozen = {.top = fields.flag("freeze_top_mlp"),
                .bottom = fields.flag("freeze_bot_mlp"),
                .embedding = fields.flag("freeze_emb"),
                .transformer = fields.flag("freeze_transformer")};
  if (!is_recommendation(model.family) && fields.has("min_frozen_layer")) {
    out.trained_blocks = fields.count("min_frozen_layer", 0);
    if (out.trained_blocks > model.transformer.blocks) {
      fields.fail(fmt::format("'min_frozen_layer' {} is more than the model's {} layers",
                              out.trained_blocks, model.transformer.blocks));
    }
  }
  if (out.frozen.transformer) out.trained_blocks = 0;
}

}  // namespace

bool is_recommendation(ModelFamily family) { return family <= ModelFamily::kDlrmTransformer; }

bool has_experts(ModelFamily family) {
  return family == ModelFamily::kDlrmExperts || family == ModelFamily::kLanguageExperts;
}

bool has_transformer(ModelFamily family) { return family >= ModelFamily::kDlrmTransformer; }

FlopsPerSecond System::speed(double value_bytes) const {
  const auto size = static_cast<unsigned>(value_bytes);
  CHECK(std::has_single_bit(size) && size <= 8, value_bytes);
  return peak[static_cast<std::size_t>(std::countr_zero(size))] * compute_utilization;
}

Model parse_model(std::string_view text, const std::string& source) {
  Fields fields(text, source);
  // A file may have more fields than its type needs. The result does not depend on the number of
  // heads.
  fields.ignore({"num_bot_mlp_layers", "num_top_mlp_layers", "mlp_dim", "num_tables",
                 "entries_per_table", "emb_dim", "pooling_size", "num_transformer_layers",
                 "num_transformer_heads", "attention_dim", "transformer_fc_dim",
                 "transformer_seq_len", "image_size", "patch_dim", "num_experts",
                 "num_active_experts"});
  Model out;
  out.name = fields.has("name") ? fields.text("name") : source;
  out.family = find_named<ModelFamily>(fields, "type", fields.text("type"), kFamilies);
  const int bytes = fields.count("bytes_per_nonemb_param");
  if (bytes > 8 || !std::has_single_bit(static_cast<unsigned>(bytes))) {
    fields.fail(fmt::format("'bytes_per_nonemb_param' is {} and must be 1, 2, 4 or 8", bytes));
  }
  out.value_bytes = bytes;
  out.embedding_value_bytes = fields.number("bytes_per_emb_param");
  if (is_recommendation(out.family)) out.recommendation = parse_recommendation(fields);
  if (has_transformer(out.family)) out.transformer = parse_transformer(fields, out.family);
  if (has_experts(out.family)) parse_experts(fields, out);
  fields.finish();
  return out;
}

System parse_system(std::string_view text, const std::string& source) {
  Fields fields(text, source);
  fields.ignore({"type"});
  System out{
      .name = fields.has("name") ? fields.text("name") : source,
      .devices = fields.count("num_devices"),
      .nodes = fields.count("num_nodes"),
      .peak = {FlopsPerSecond{fields.number("i8_ops")}, FlopsPerSecond{fields.number("f16_flops")},
               FlopsPerSecond{fields.number("f32_flops")},
               FlopsPerSecond{fields.number("f64_flops")}},
      .compute_utilization = fields.fraction("flops_util"),
      .memory = Bytes{fields.number("mem_cap")},
      .memory_bandwidth = BytesPerSecond{fields.number("mem_bw")},
      .memory_utilization = fields.fraction("mem_bw_util"),
      .intra_links = fields.number("num_nvlinks"),
      .intra_bandwidth = BytesPerSecond{fields.number("bw_per_nvlink")},
      .intra_utilization = fields.fraction("nvlink_util"),
      .inter_links = fields.number("num_ibroce_ports"),
      .inter_bandwidth = BytesPerSecond{fields.number("ibroce_bw")},
      .inter_utilization = fields.fraction("ibroce_util"),
      .intra_share = fields.share("ar_perc_intra")};
  fields.finish();
  if (out.devices % out.nodes != 0) {
    fields.fail(fmt::format("'num_devices' {} is not a multiple of 'num_nodes' {}", out.devices,
                            out.nodes));
  }
  if (out.nodes == 1 && out.intra_share != 1) {
    fields.fail(fmt::format("'ar_perc_intra' is {} and must be 1 on one node", out.intra_share));
  }
  return out;
}

TaskDescription parse_task(std::string_view text, const std::string& source, const Model& model,
                           const System& system) {
  Fields fields(text, source);
  // A task file may have more fields than this model needs.
  fields.ignore({"name", "mlp_parallel", "mlp_parallel_degree", "local_mlp_bs",
                 "transformer_parallel", "transformer_parallel_degree", "local_transformer_bs",
                 "freeze_top_mlp", "freeze_bot_mlp", "freeze_emb", "freeze_transformer",
                 "min_frozen_layer"});
  TaskDescription out;
  out.purpose = find_named<Purpose>(fields, "type", fields.text("type"), kPurposes);
  out.embedding = parse_strategy(fields, "emb", system, kEmbeddingMethods);
  out.embedding_batch = fields.number("local_emb_bs");
  if (out.embedding.levels != 1) fields.fail("'emb_parallel' must have one level");
  if (is_recommendation(model.family)) {
    if (out.embedding.level[0].method != Method::kTables) {
      fields.fail(
          "'emb_parallel' must be [\"mp\"]: a DLRM distributes its tables over the devices");
    }
    out.mlp = parse_strategy(fields, "mlp", system, kLayerMethods);
    out.mlp_batch = fields.number("local_mlp_bs");
  }
  if (has_transformer(model.family)) {
    out.transformer = parse_strategy(fields, "transformer", system, kLayerMethods);
    out.transformer_batch = fields.number("local_transformer_bs");
  }
  out.trained_blocks = model.transformer.blocks;
  if (out.purpose == Purpose::kFinetune) parse_frozen(fields, model, out);
  fields.finish();
  return out;
}

}  // namespace tandem::madmax
