// Built-in networks. Each is one file that builds a graph, loss included, from hyperparameters;
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
  std::string value;  // the default; "512-256-64" for lists of sizes
  std::string doc;
  std::string artifact = {};  // the default with variant=artifact, where it is another
};

// "variant", for networks that Unity's public artifact ships otherwise than its paper has them.
// `artifact` says what is other there.
Hyperparameter variant_hyperparameter(const std::string& artifact);

// Hyperparameters with the user's overrides applied.
class Settings {
 public:
  Settings(std::string model, std::vector<Hyperparameter> values)
      : model_(std::move(model)), values_(std::move(values)) {}

  // Every accessor throws UserError where the value is no such thing.
  [[nodiscard]] std::int64_t size(std::string_view key, std::int64_t least = 1) const;
  // "512-256-64"; "10x3994" is ten of 3994.
  [[nodiscard]] std::vector<std::int64_t> sizes(std::string_view key) const;
  [[nodiscard]] double real(std::string_view key) const;  // more than 0
  // One of `allowed`.
  [[nodiscard]] const std::string& choice(std::string_view key,
                                          std::initializer_list<std::string_view> allowed) const;
  [[nodiscard]] bool is_artifact() const {
    return choice("variant", {"published", "artifact"}) == "artifact";
  }
  // The default is "NAME", for the same value as that key has.
  [[nodiscard]] std::int64_t size_or_same(std::string_view key, std::string_view name) const;

  void set(std::string_view key, std::string_view value);
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] const std::string& model() const { return model_; }
  // What is impossible for this model: UserError with its name.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  [[nodiscard]] const std::string& text(std::string_view key) const;
  std::string model_;
  std::vector<Hyperparameter> values_;
  std::vector<std::string> set_;  // keys whose value is the user's
};

struct ModelSpec {
  std::string name;
  std::string doc;  // what it is and where its figures come from
  std::vector<Hyperparameter> hyperparameters;
  std::int64_t batch_per_device = 1;  // of the published evaluation; global batch = this x devices
  std::int64_t batch = 0;             // where not 0: the published global batch, on any devices
  std::int64_t train_batch = 1;       // small global batch for running it here
  bool adam = false;                  // the published optimizer is Adam; else SGD
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

// In alphabetical order.
std::span<const ModelSpec* const> all_models();

struct Model {
  std::shared_ptr<const ModelSpec> spec;  // built in, or made from a file
  std::string text;                       // "mlp:layers=4"
  Settings settings;

  [[nodiscard]] graph::Graph build(std::int64_t batch, DType dtype) const {
    return spec->build(settings, batch, dtype);
  }
};

bool is_built_in(std::string_view name);
// "mlp" or "mlp:layers=4,hidden=256". Throws UserError naming what is unknown and what there is.
Model parse_model(std::string_view text);
// A model that is not built in, with overrides "layers=4,hidden=256" for it; `text` names it.
Model make_model(std::shared_ptr<const ModelSpec> spec, std::string text,
                 std::string_view overrides);

// The number of weights' elements.
std::int64_t count_parameters(const graph::Graph& graph);
// What they take, each stored once.
Bytes weights_bytes(const graph::Graph& graph);
// Operations of one forward pass.
Flops count_forward_flops(const graph::Graph& graph);

}  // namespace tandem::models
