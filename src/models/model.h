// Built-in networks. Each is one file that builds a graph, loss included, from hyperparameters;
// `NAME:key=value,...` overrides any of them.
#pragma once

#include <cstdint>
#include <functional>
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
};

// Hyperparameters with the user's overrides applied.
class Settings {
 public:
  Settings(std::string model, std::vector<Hyperparameter> values)
      : model_(std::move(model)), values_(std::move(values)) {}

  // At least 1, else UserError.
  [[nodiscard]] std::int64_t size(std::string_view key) const;
  [[nodiscard]] std::vector<std::int64_t> sizes(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  [[nodiscard]] bool has(std::string_view key) const;

 private:
  [[nodiscard]] const std::string& text(std::string_view key) const;
  std::string model_;
  std::vector<Hyperparameter> values_;
};

struct ModelSpec {
  std::string name;
  std::string doc;  // what it is and where its figures come from
  std::vector<Hyperparameter> hyperparameters;
  std::int64_t batch_per_device = 1;  // of the published evaluation; global batch = this x devices
  std::int64_t train_batch = 1;       // small global batch for running it here
  bool adam = false;                  // the published optimizer is Adam; else SGD
  std::function<graph::Graph(const Settings&, std::int64_t batch, DType)> build;
};

extern const ModelSpec kBertLarge;
extern const ModelSpec kDlrm;
extern const ModelSpec kMlp;

// In alphabetical order.
std::span<const ModelSpec* const> all_models();

struct Model {
  const ModelSpec* spec = nullptr;
  std::string text;  // "mlp:layers=4"
  Settings settings;

  [[nodiscard]] graph::Graph build(std::int64_t batch, DType dtype) const {
    return spec->build(settings, batch, dtype);
  }
};

// "mlp" or "mlp:layers=4,hidden=256". Throws UserError naming what is unknown and what there is.
Model parse_model(std::string_view text);

// The number of weights' elements.
std::int64_t count_parameters(const graph::Graph& graph);
// What they take, each stored once.
Bytes weights_bytes(const graph::Graph& graph);
// Operations of one forward pass.
Flops count_forward_flops(const graph::Graph& graph);

}  // namespace tandem::models
