// Inputs of MAD-Max's public model: three JSON files, of a model, a system and a task.
//
// docs/internals/madmax.md lists the fields. The structs follow the files' meaning, not their
// spelling, and hold only what the model uses. Numbers are in bytes, operations and seconds, as in
// the files.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tandem::madmax {

// ---- The model ----------------------------------------------------------------------------------

// Kinds of models. The order matters: first those with MLPs, and kDlrmTransformer before all others
// with a transformer.
enum class ModelFamily {
  kDlrm,             // embeddings, bottom MLP, top MLP
  kDlrmExperts,      // the top MLP's layers are mixtures of experts
  kDlrmTransformer,  // a transformer between the two MLPs
  kLanguage,
  kLanguageExperts,  // the FFNs are mixtures of experts
  kVision,
};

// Embedding tables and the MLPs around the interaction.
struct Recommendation {
  int bottom_layers = 0;
  int top_layers = 0;
  double width = 0;  // of every layer of the MLPs
  double tables = 0;
  double rows = 0;  // of every table
  double embedding_width = 0;
  double lookups = 0;  // per table and sample
};

struct Transformer {
  int blocks = 0;
  double width = 0;
  double ffn_width = 0;
  double tokens = 0;  // per sample: the sequence length, or the number of image patches
  // of the embedding that is not of positions: the vocabulary, or the values of a patch
  double rows = 0;
};

struct Model {
  std::string name;
  ModelFamily family = ModelFamily::kDlrm;
  double value_bytes = 0;  // per weight or activation
  double embedding_value_bytes = 0;
  Recommendation recommendation = {};  // for the three DLRM families
  Transformer transformer = {};        // for all families but kDlrm and kDlrmExperts
  double experts = 1;
  double active_experts = 1;  // experts that a sample passes through
};

bool is_recommendation(ModelFamily family);
bool has_experts(ModelFamily family);
bool has_transformer(ModelFamily family);

// ---- The system ---------------------------------------------------------------------------------

struct System {
  std::string name;
  int devices = 0;
  int nodes = 0;
  std::array<FlopsPerSecond, 4> peak = {};  // for values of 1, 2, 4 and 8 bytes
  double compute_utilization = 0;
  Bytes memory = {};
  BytesPerSecond memory_bandwidth = {};
  double memory_utilization = 0;
  // Links of one device inside its node (intra) and of one node (inter). Bandwidths add both
  // directions.
  double intra_links = 0;
  BytesPerSecond intra_bandwidth = {};
  double intra_utilization = 0;
  double inter_links = 0;
  BytesPerSecond inter_bandwidth = {};
  double inter_utilization = 0;
  double intra_share = 0;  // share of an all-reduce across nodes that stays inside them

  [[nodiscard]] int devices_per_node() const { return devices / nodes; }
  [[nodiscard]] FlopsPerSecond speed(double value_bytes) const;
};

// ---- The task -----------------------------------------------------------------------------------

// Parallelism of the layers of one kind: DDP, FSDP, or tensor parallelism. kTables distributes
// embedding tables, some to each device.
enum class Method { kReplicate, kShard, kTensor, kTables };

// One method for all devices, or one inside nodes and then one across nodes.
struct LayerStrategy {
  struct StrategyLevel {
    Method method = Method::kReplicate;
    int degree = 1;
  };
  int levels = 0;
  std::array<StrategyLevel, 2> level = {};
};

enum class Purpose { kPretrain, kFinetune, kInference };

// Parts that fine-tuning does not train.
struct Frozen {
  bool top = false;
  bool bottom = false;
  bool embedding = false;
  bool transformer = false;
};

struct TaskDescription {
  Purpose purpose = Purpose::kPretrain;
  LayerStrategy mlp = {};
  LayerStrategy embedding = {};
  LayerStrategy transformer = {};
  // Samples per device; with tensor parallelism, per group of devices that share a sample.
  double mlp_batch = 0;
  double embedding_batch = 0;
  double transformer_batch = 0;
  Frozen frozen = {};
  int trained_blocks = 0;  // language and vision models: blocks whose gradients are synchronized
};

// Parse one file each; `source` is its name in messages. All throw UserError.
Model parse_model(std::string_view text, const std::string& source);
System parse_system(std::string_view text, const std::string& source);
// Also checks that the task's degrees match the system.
TaskDescription parse_task(std::string_view text, const std::string& source, const Model& model,
                           const System& system);

}  // namespace tandem::madmax
