// Models and systems of MAD-Max's evaluation (ISCA'24, tables 2 and 3), and tasks on them, for
// tests and benchmarks.
#pragma once

#include "madmax/evaluate.h"

namespace tandem::madmax {

// Nodes of 8 A100, with the utilizations that the public code assumes: 70.5 % of the peak, 83.6 %
// of the memory bandwidth, two thirds of NVLink, 56 % of 8 ports of 200 Gb/s.
inline System a100_system(int devices) {
  return {.name = "A100",
          .devices = devices,
          .nodes = devices / 8,
          .peak = {FlopsPerSecond{624e12}, FlopsPerSecond{312e12}, FlopsPerSecond{156e12},
                   FlopsPerSecond{9.7e12}},
          .compute_utilization = 0.705,
          .memory = Bytes{40e9},
          .memory_bandwidth = BytesPerSecond{1.555e12},
          .memory_utilization = 0.836,
          .intra_links = 12,
          .intra_bandwidth = BytesPerSecond{50e9},
          .intra_utilization = 2.0 / 3,
          .inter_links = 8,
          .inter_bandwidth = BytesPerSecond{25e9},
          .inter_utilization = 0.56,
          .intra_share = devices == 8 ? 1 : 0.2746};
}

inline Model dlrm_a() {
  return {.name = "DLRM-A",
          .family = ModelFamily::kDlrm,
          .value_bytes = 4,
          .embedding_value_bytes = 2,
          .recommendation = {.bottom_layers = 10,
                             .top_layers = 10,
                             .width = 3994,
                             .tables = 4096,
                             .rows = 2.08e6,
                             .embedding_width = 94,
                             .lookups = 15}};
}

inline Model dlrm_b() {
  auto out = dlrm_a();
  out.name = "DLRM-B";
  out.recommendation = {.bottom_layers = 22,
                        .top_layers = 22,
                        .width = 826,
                        .tables = 512,
                        .rows = 7.05e6,
                        .embedding_width = 92,
                        .lookups = 70};
  return out;
}

// Returns `model` with 16 experts, 2 of them active per sample.
inline Model with_experts(Model model) {
  model.family = model.family == ModelFamily::kDlrm ? ModelFamily::kDlrmExperts
                                                    : ModelFamily::kLanguageExperts;
  model.experts = 16;
  model.active_experts = 2;
  return model;
}

// Returns `model` with 4 blocks of width 512 on 80 tokens as the interaction.
inline Model with_transformer(Model model) {
  model.family = ModelFamily::kDlrmTransformer;
  model.transformer = {.blocks = 4, .width = 512, .ffn_width = 2048, .tokens = 80};
  return model;
}

// Returns a language model with a vocabulary of 50257 and sequences of 2048 tokens.
inline Model language_model(int blocks, double width, double ffn_width, double tokens = 2048) {
  return {.name = "language",
          .family = ModelFamily::kLanguage,
          .value_bytes = 2,
          .embedding_value_bytes = 2,
          .transformer = {.blocks = blocks,
                          .width = width,
                          .ffn_width = ffn_width,
                          .tokens = tokens,
                          .rows = 50257}};
}
inline Model gpt3() { return language_model(96, 12288, 49152); }
// Represents an FFN of three matrices by two of 8/3 the width.
inline Model llama_65b() { return language_model(80, 8192, 21846); }
inline Model llama2_70b(double tokens = 4096) { return language_model(80, 8192, 21846, tokens); }
inline Model llm_moe() { return with_experts(language_model(120, 10704, 42816, 8192)); }

inline LayerStrategy flat(Method method, const System& system) {
  return {.levels = 1, .level = {{{method, system.devices}}}};
}
inline LayerStrategy nested(Method inside, Method across, const System& system) {
  return {.levels = 2, .level = {{{inside, system.devices_per_node()}, {across, system.nodes}}}};
}

// Returns the samples of a global batch per device, or per group with tensor parallelism.
inline double local_batch(double global_batch, const LayerStrategy& strategy,
                          const System& system) {
  double sharing = 1;
  for (const auto& level : strategy.level) {
    if (level.method == Method::kTensor) sharing *= level.degree;
  }
  return global_batch * sharing / system.devices;
}

// `transformer` applies to models that have one.
inline TaskDescription recommendation_task(Purpose purpose, const LayerStrategy& mlp,
                                           double global_batch, const System& system,
                                           const LayerStrategy& transformer = {}) {
  return {.purpose = purpose,
          .mlp = mlp,
          .embedding = flat(Method::kTables, system),
          .transformer = transformer,
          .mlp_batch = local_batch(global_batch, mlp, system),
          .embedding_batch = global_batch,
          .transformer_batch = local_batch(global_batch, transformer, system)};
}

inline TaskDescription language_task(const Model& model, const LayerStrategy& strategy,
                                     double global_batch, const System& system) {
  return {.embedding = flat(Method::kReplicate, system),
          .transformer = strategy,
          .embedding_batch = global_batch / system.devices,
          .transformer_batch = local_batch(global_batch, strategy, system),
          .trained_blocks = model.transformer.blocks};
}

}  // namespace tandem::madmax
