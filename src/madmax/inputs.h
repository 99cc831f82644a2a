// What MAD-Max's public model reads: three JSON files, of a model, a system and a task.
//
// docs/madmax.md lists the fields. The structs keep the files' meaning, not their spelling, and
// only what the model uses; numbers stay plain, in bytes, operations and seconds, as the files have
// them.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tandem::madmax {

// ---- The model ----------------------------------------------------------------------------------

// The order matters: first those with MLPs, and kDlrmTransformer before all with a transformer.
enum class Family {
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
  double lookups = 0;  // in every table, for a sample
};

struct Transformer {
  int blocks = 0;
  double width = 0;
  double ffn_width = 0;
  double tokens = 0;  // of a sample: the sequence length, or the patches of an image
  double rows =
      0;  // of the embedding that is not of positions: the vocabulary, or a patch's values
};

struct Model {
  std::string name;
  Family family = Family::kDlrm;
  double value_bytes = 0;  // of a weight or an activation
  double embedding_value_bytes = 0;
  Recommendation recommendation = {};  // of the three DLRM families
  Transformer transformer = {};        // of all but kDlrm and kDlrmExperts
  double experts = 1;
  double active_experts = 1;  // those that a sample passes through
};

bool is_recommendation(Family family);
bool has_experts(Family family);
bool has_transformer(Family family);

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
  // Of one device inside its node, and of one node; both directions of a link together.
  double intra_links = 0;
  BytesPerSecond intra_bandwidth = {};
  double intra_utilization = 0;
  double inter_links = 0;
  BytesPerSecond inter_bandwidth = {};
  double inter_utilization = 0;
  double intra_share = 0;  // of an all-reduce across nodes: the part that stays inside them

  [[nodiscard]] int devices_per_node() const { return devices / nodes; }
  [[nodiscard]] FlopsPerSecond speed(double value_bytes) const;
};

// ---- The task -----------------------------------------------------------------------------------

// How devices share the layers of one kind: DDP, FSDP, tensor parallelism; the tables of embeddings
// may be spread, some to each device.
enum class Method { kReplicate, kShard, kTensor, kTables };

// One method for all devices, or one inside nodes and one across them, in this order.
struct Strategy {
  struct Level {
    Method method = Method::kReplicate;
    int degree = 1;
  };
  int levels = 0;
  std::array<Level, 2> level = {};
};

enum class Purpose { kPretrain, kFinetune, kInference };

// What fine-tuning leaves as it is.
struct Frozen {
  bool top = false;
  bool bottom = false;
  bool embedding = false;
  bool transformer = false;
};

struct Task {
  Purpose purpose = Purpose::kPretrain;
  Strategy mlp = {};
  Strategy embedding = {};
  Strategy transformer = {};
  // Samples of one device; of one group of devices that share a sample under tensor parallelism.
  double mlp_batch = 0;
  double embedding_batch = 0;
  double transformer_batch = 0;
  Frozen frozen = {};
  int trained_blocks = 0;  // of a language or vision model: blocks whose gradients are synchronised
};

// `source` is how messages call the text. All throw UserError.
Model parse_model(std::string_view text, const std::string& source);
System parse_system(std::string_view text, const std::string& source);
// The task's degrees must fit the system.
Task parse_task(std::string_view text, const std::string& source, const Model& model,
                const System& system);

}  // namespace tandem::madmax
