// The table of the families of strategies, one row each: name, settings, and the function that
// makes the layouts. A new family is a value of Family and a row here; texts, messages, baselines
// and reports read the table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "strategies/setting.h"

namespace tandem::strategies {

// The dimensions that a family splits, and for which operators.
enum class FamilySplit : std::uint8_t {
  kBatch,       // the batch alone
  kDegrees,     // all operators by the same degrees
  kExperts,     // the batch, and experts by a degree of their own
  kLayerKinds,  // each kind of layer by a setting of its own
  kOperators,   // some operators by their weights, the others along the batch
};

// Layers that a model must have, with their name in messages.
struct RequiredLayers {
  LayerKind kind = LayerKind::kDense;
  std::string_view name;
};

struct StrategyFamily {
  Family family = Family::kDp;
  std::string_view name;
  std::string_view doc;  // one line for `tandem strategies`
  FamilySplit split = FamilySplit::kBatch;

  // Makes the layouts of one pass by a complete setting, for a model that the family suits.
  Made (*make)(const Setting&, const Problem&) = nullptr;
  // Lists the completions of a setting. Null: settings leave nothing open.
  std::vector<Setting> (*complete)(const Setting&, const Problem&) = nullptr;
  // Lists the baselines, before their completion. Null: the family without settings.
  std::vector<Setting> (*list_baselines)(const Problem&) = nullptr;

  std::span<const std::string_view> keys = {};  // those that not all families have
  std::optional<RequiredLayers> required = {};
  bool wide_gradients = false;  // accumulates gradients in fp32

  // Returns whether the model has the required layers.
  [[nodiscard]] bool suits(const Problem& problem) const {
    return !required || problem.has(required->kind);
  }
  // Returns whether one dp, tp, ... of the setting holds for all operators.
  [[nodiscard]] bool has_uniform_degrees() const {
    return split != FamilySplit::kLayerKinds && split != FamilySplit::kOperators;
  }
};

// Returns the table, in the order of Family.
std::span<const StrategyFamily> get_families();
const StrategyFamily& get_family(Family family);
// Returns nullopt if no family has that name.
std::optional<Family> parse_family(std::string_view name);

}  // namespace tandem::strategies
