#include "strategies/setting_key.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "strategies/families.h"

namespace tandem::strategies {

namespace {

constexpr SettingKey kKeys[] = {
    {"tp", "=N",
     "tensor parallel groups of N devices, on the innermost levels. `tp=A/B`: A devices inside a "
     "node times B nodes; `tp=1/2` pairs devices of two nodes",
     "all sizes are tried"},
    {"dp", "=N", "degree of data parallelism: the batch is divided into N parts",
     "follows from the others"},
    {"cp", "=N", "context parallel groups of N devices", "1"},
    {"sp", "", "sequence parallelism", "off"},
    {"zero", "=0|1|2|3", "ZeRO stage: sharded over the data and context parallel group",
     "0 for `megatron`"},
    {"whole_loss", "", "do not divide the loss over the tensor parallel group", "off"},
    {"pp", "=N", "pipeline ranks, on the outermost levels", "1"},
    {"interleave", "=N", "N virtual stages on each rank (interleaved 1F1B)", "1"},
    {"ends", "=N-N",
     "count the embedding and the LM head as N layers each when layers are divided into stages",
     "not counted"},
    {"schedule", "=gpipe|1f1b", "order of micro-batches", "`1f1b`"},
    {"stale", "", "delayed updates; needs `--stale-weights`", "off"},
    {"ep", "=N", "N devices share the experts", "all sizes are tried"},
    {"micro", "=N", "N micro-batches per step, with gradient accumulation",
     "1; about 8 per stage in a pipeline", true},
    {"recompute", "=R", "recomputation: `none`, `selective`, `save_matmuls` or `full`", "`none`",
     true},
    {"ring", "", "ring attention, and rings for other gathered operands", "off", true},
    {"bucket", "=BYTES", "gradient buckets, such as `bucket=25MB`", "one collective per weight",
     true},
};

// A strategy's text, split, such as "megatron" and {"tp=2", "sp"}.
struct StrategyText {
  std::string_view family;
  std::vector<std::string> settings;
};

std::string_view get_key(std::string_view setting) {
  return trim(setting.substr(0, setting.find('=')));
}

StrategyText parse_strategy_text(std::string_view strategy) {
  const auto colon = strategy.find(':');
  StrategyText out{.family = trim(strategy.substr(0, colon)), .settings = {}};
  if (colon == std::string_view::npos) return out;
  for (const auto part : split(strategy.substr(colon + 1), ',')) out.settings.emplace_back(part);
  return out;
}

std::string to_text(const StrategyText& parts) {
  if (parts.settings.empty()) return std::string(parts.family);
  return fmt::format("{}:{}", parts.family, join(parts.settings, ","));
}

bool has(const StrategyText& parts, std::string_view key) {
  return std::ranges::any_of(parts.settings,
                             [&](const auto& setting) { return get_key(setting) == key; });
}

void remove(StrategyText& parts, std::string_view key) {
  std::erase_if(parts.settings, [&](const auto& setting) { return get_key(setting) == key; });
}

// Replaces the setting of the key, or appends it. An empty `setting` removes the key.
void put(StrategyText& parts, std::string_view key, const std::string& setting) {
  const auto at =
      std::ranges::find_if(parts.settings, [&](const auto& own) { return get_key(own) == key; });
  if (setting.empty()) {
    remove(parts, key);
  } else if (at != parts.settings.end()) {
    *at = setting;
  } else {
    parts.settings.push_back(setting);
  }
}

std::string format_setting(const SettingKey& key, std::string_view value) {
  if (!key.form.empty()) return fmt::format("{}={}", key.name, value);
  if (value == "yes") return std::string(key.name);
  if (value == "no") return "";
  throw UserError("strategy", std::string(key.name), fmt::format("cannot be '{}'", value),
                  "expected yes or no");
}

// Sets the schedule, which is one choice although the text has two keys for it.
void put_schedule(StrategyText& parts, std::string_view value) {
  remove(parts, "schedule");
  if (value != "interleaved") {
    remove(parts, "interleave");
    parts.settings.push_back(fmt::format("schedule={}", value));
  } else if (!has(parts, "interleave")) {
    parts.settings.push_back(fmt::format("interleave={}", kPiecesUnlessSaid));
  }
}

}  // namespace

std::span<const SettingKey> get_setting_keys() { return kKeys; }

const SettingKey* find_setting_key(std::string_view name) {
  const auto* at = std::ranges::find(kKeys, name, &SettingKey::name);
  return at == std::end(kKeys) ? nullptr : at;
}

bool has_key(Family family, std::string_view key) {
  const auto& row = get_family(family);
  if (parse_layer_kind(key)) return row.split == FamilySplit::kLayerKinds;
  const auto* known = find_setting_key(key);
  return (known != nullptr && known->is_common) ||
         std::ranges::find(row.keys, key) != row.keys.end();
}

bool sets_key(std::string_view strategy, std::string_view key) {
  return has(parse_strategy_text(strategy), key);
}

std::string set_key(std::string_view strategy, std::string_view key, std::string_view value) {
  auto parts = parse_strategy_text(strategy);
  const auto* known = find_setting_key(key);
  const bool is_layer = parse_layer_kind(key).has_value();
  CHECK(known != nullptr || is_layer, key);
  if (key == "schedule") {
    put_schedule(parts, value);
  } else {
    put(parts, key, is_layer ? fmt::format("{}={}", key, value) : format_setting(*known, value));
  }
  return to_text(parts);
}

}  // namespace tandem::strategies
