// Built-in networks. One file per network builds a graph, including the loss, from hyperparameters.
// `NAME:key=value,...` overrides any of them.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tandem::models {

struct Hyperparameter {
  std::string key;
  std::string value;  // default; "512-256-64" for lists of sizes
  std::string doc;
  std::string artifact = {};  // default with variant=artifact, if it differs
};

// Returns "variant", for networks whose version in Unity's public artifact differs from its paper.
// `artifact` describes the difference.
Hyperparameter variant_hyperparameter(const std::string& artifact);

// Hyperparameters with the user's overrides applied.
class Settings {
 public:
  Settings(std::string model, std::vector<Hyperparameter> values)
      : model_(std::move(model)), values_(std::move(values)) {}

  // All accessors throw UserError if the value is invalid.
  [[nodiscard]] std::int64_t size(std::string_view key, std::int64_t least = 1) const;
  // Returns a list of sizes: "512-256-64"; "10x3994" is ten times 3994.
  [[nodiscard]] std::vector<std::int64_t> sizes(std::string_view key) const;
  [[nodiscard]] double real(std::string_view key) const;  // greater than 0
  // Returns the value, which must be one of `allowed`.
  [[nodiscard]] const std::string& choice(std::string_view key,
                                          std::initializer_list<std::string_view> allowed) const;
  [[nodiscard]] bool is_artifact() const {
    return choice("variant", {"published", "artifact"}) == "artifact";
  }
  // Does the same as size(), but if the value is `name`, the key's default, returns the value of
  // the key `name`.
  [[nodiscard]] std::int64_t size_or_same(std::string_view key, std::string_view name) const;

  void set(std::string_view key, std::string_view value);
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] const std::string& model() const { return model_; }
  // Throws UserError with the model's name, for values that are impossible for this model.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  [[nodiscard]] const std::string& text(std::string_view key) const;
  std::string model_;
  std::vector<Hyperparameter> values_;
  std::vector<std::string> set_;  // keys that the user set
};

struct ModelSpec {
  std::string name;
  std::string doc;  // the network and the source of its figures
  std::vector<Hyperparameter> hyperparameters;
  std::int64_t batch_per_device = 1;  // published batch; global batch = this x devices
  std::int64_t batch = 0;             // if not 0: published global batch, on any devices
  std::int64_t train_batch = 1;       // small global batch for running it here
  bool adam = false;                  // true: the published optimizer is Adam; false: SGD
  std::function<graph::Graph(const Settings&, std::int64_t batch, DType)> build;
};

extern const ModelSpec kBertLarge;
extern const ModelSpec kCandleUno;
extern const ModelSpec kDlrm;
extern const ModelSpec kDlrmA;
extern const ModelSpec kDlrmAMoe;
extern const ModelSpec kDlrmATransformer;
extern const ModelSpec kDlrmB;
extern const ModelSpec kDlrmBMoe;
extern const ModelSpec kDlrmBTransformer;
extern const ModelSpec kGpt2;
extern const ModelSpec kGpt3_175b;
extern const ModelSpec kInceptionV3;
extern const ModelSpec kLlama2_70b;
extern const ModelSpec kLlama2_7b;
extern const ModelSpec kLlama3_405b;
extern const ModelSpec kLlama3_70b;
extern const ModelSpec kLlama3_8b;
extern const ModelSpec kLlama_65b;
extern const ModelSpec kLlmMoe1_8t;
extern const ModelSpec kMixtral8x7b;
extern const ModelSpec kMlp;
extern const ModelSpec kNasnetA;
extern const ModelSpec kResnet50;
extern const ModelSpec kResnext50;
extern const ModelSpec kXdl;

// Returns all built-in models in alphabetical order.
std::span<const ModelSpec* const> all_models();

struct ConfiguredModel {
  std::shared_ptr<const ModelSpec> spec;  // built in, or read from a file
  std::string text;                       // "mlp:layers=4"
  Settings settings;

  [[nodiscard]] graph::Graph build(std::int64_t batch, DType dtype) const {
    return spec->build(settings, batch, dtype);
  }
};

bool is_built_in(std::string_view name);
// Parses "mlp" or "mlp:layers=4,hidden=256". Throws UserError for unknown names or keys, with the
// known ones.
ConfiguredModel parse_model(std::string_view text);
// Returns a model that is not built in, with overrides such as "layers=4,hidden=256"; `text` is its
// name.
ConfiguredModel make_model(std::shared_ptr<const ModelSpec> spec, std::string text,
                           std::string_view overrides);

// Returns the number of elements of all weights.
std::int64_t count_parameters(const graph::Graph& graph);
// Returns the bytes of all weights, each stored once.
Bytes count_weight_bytes(const graph::Graph& graph);
// Returns the operations of one forward pass.
Flops count_forward_flops(const graph::Graph& graph);

}  // namespace tandem::models
