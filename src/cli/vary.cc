#include "cli/vary.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "strategies/families.h"
#include "strategies/setting_groups.h"
#include "strategies/setting_key.h"

namespace tandem::cli {

namespace {

constexpr std::string_view kOfStrategy = "strategy.";

// The job's flags, as a command has them, so that --vary accepts the same values.
struct FlagsOf {
  CLI::App app;

  explicit FlagsOf(Job& job) {
    job.add_flags(app);
    job.add_memory_flags(app);
    job.task.add_flags(app);
    for (auto* option : app.get_options()) option->required(false);
    for (const char* other : {"--stale-weights", "--help", "model"}) {
      app.remove_option(app.get_option(other));
    }
  }

  CLI::Option* find(const std::string& key) { return app.get_option_no_throw("--" + key); }

  std::string list_names() {
    std::vector<std::string> out;
    for (const auto* option : app.get_options()) out.push_back(option->get_lnames()[0]);
    std::erase(out, "machine");  // --machine takes several machines itself
    return join(out, " ");
  }

  void set(const std::string& key, const std::string& value) {
    try {
      app.parse(std::vector<std::string>{fmt::format("--{}={}", key, value)});
    } catch (const CLI::ParseError& error) {
      // "--dtype: fp8 not in {fp64,fp32}"
      const std::string message = error.what();
      const std::string_view list = " not in {";
      const auto at = message.find(list);
      if (at == std::string::npos || !message.ends_with('}')) {
        throw UserError("flag", "--vary", message);
      }
      auto values = message.substr(at + list.size());
      values.pop_back();
      throw UserError("flag", "--vary", fmt::format("'{}' is not a value of {}", value, key),
                      "use one of " + values);
    }
  }
};

// Returns the key of a strategy's setting without its prefix: "strategy.tp" -> "tp", "tp" -> "tp".
// Returns nullopt for other keys. Kinds of layers need the prefix, since some hyperparameters of
// models have the same names.
std::optional<std::string> parse_setting_key(const std::string& key) {
  const bool is_said = key.starts_with(kOfStrategy);
  const auto name = is_said ? key.substr(kOfStrategy.size()) : key;
  const bool is_layer = is_said && strategies::parse_layer_kind(name).has_value();
  const auto* known = strategies::find_setting_key(name);
  // Strategies with delayed updates are never compared with others.
  if ((known == nullptr && !is_layer) || name == "stale") return std::nullopt;
  return name;
}

std::string list_setting_names() {
  std::vector<std::string> out;
  for (const auto& key : strategies::get_setting_keys()) {
    if (parse_setting_key(std::string(key.name))) out.emplace_back(key.name);
  }
  return join(out, " ") + " strategy.LAYER";
}

enum class What : std::uint8_t { kScale, kSoftware, kField, kSetting, kFlag, kHyperparameter };

What classify_key(const std::string& key) {
  if (key == "scale") return What::kScale;
  if (key == "software") return What::kSoftware;
  if (machine::is_field_path(key)) return What::kField;
  if (parse_setting_key(key)) return What::kSetting;
  Job job;
  return FlagsOf(job).find(key) != nullptr ? What::kFlag : What::kHyperparameter;
}

// Returns the text of `model` with a hyperparameter set: "mlp:layers=4", "layers", "8" ->
// "mlp:layers=8".
std::string with_hyperparameter(const std::string& model, const std::string& key,
                                const std::string& value) {
  const auto colon = std::filesystem::is_regular_file(model) ? std::string::npos : model.find(':');
  std::vector<std::string> overrides;
  if (colon != std::string::npos) {
    for (const auto part : split(std::string_view(model).substr(colon + 1), ',')) {
      if (trim(part.substr(0, part.find('='))) != key) overrides.emplace_back(part);
    }
  }
  overrides.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{}:{}", model.substr(0, colon), join(overrides, ","));
}

// Returns the text of `machine` with a software profile: "dgx_a100:4", "eager" ->
// "dgx_a100:4,software=eager". "none" removes the profile.
std::string with_software(const std::string& machine, const std::string& software) {
  const auto name = machine.substr(0, machine.find(",software="));
  return software == "none" ? name : fmt::format("{},software={}", name, software);
}

bool is_group(const std::string& strategy) {
  return !strategies::parse_family(std::string_view(strategy).substr(0, strategy.find(':')));
}

std::string with_settings(std::string strategy, const search::Values& settings) {
  for (const auto& [key, value] : settings) strategy = strategies::set_key(strategy, key, value);
  return strategy;
}

// Removes the strategies from a group that lack one of the varied settings: only megatron remains
// of "all" if `tp` is varied. Throws UserError if none remains.
void drop_settings_without(const search::Values& settings, const std::string& group,
                           std::vector<strategies::Setting>& from) {
  for (const auto& value : settings) {
    const auto& key = value.first;
    std::erase_if(from, [&](const auto& setting) { return !has_key(setting.family, key); });
    if (!from.empty()) continue;
    const auto has = [&](const auto& family) { return has_key(family.family, key); };
    throw UserError("flag", "--vary",
                    fmt::format("no strategy of '{}' has the setting '{}'", group, key),
                    fmt::format("use a strategy that has it: --strategy {}",
                                std::ranges::find_if(strategies::get_families(), has)->name));
  }
}

// Clears `dp`, so that it follows from the other degrees, if one of those is varied and `dp` is
// not.
void leave_dp_open(const search::Values& settings, strategies::Setting& setting) {
  const auto is_varied = [&](std::string_view key) {
    return std::ranges::any_of(settings, [&](const auto& value) { return value.first == key; });
  };
  const bool follows = is_varied("tp") || is_varied("cp") || is_varied("pp");
  if (follows && !is_varied("dp")) setting.dp.reset();
}

// Collects complete settings of strategies. Impossible ones are recorded with the reason.
class SettingCollection {
 public:
  explicit SettingCollection(const strategies::Problem& problem) : problem_(problem) {}

  // Adds the settings of a group, or of the text of one strategy.
  void add(const std::string& strategy) {
    try {
      for (auto& setting : strategies::list_named_settings(strategy, problem_)) {
        // Strategies that differed only in a varied setting are equal now.
        if (std::ranges::find(out_.possible, setting) != out_.possible.end()) continue;
        out_.possible.push_back(std::move(setting));
      }
    } catch (const UserError& error) {
      if (error.kind != "strategy") throw;
      if (!first_) first_ = error;
      out_.refused.push_back({0, strategy, search::format_reason(error.message, error.hint)});
    }
  }

  // Returns the settings. Throws the first error if none is possible.
  VariantSettings take() {
    if (out_.possible.empty() && first_) throw UserError(*first_);
    return std::move(out_);
  }

 private:
  const strategies::Problem& problem_;
  VariantSettings out_;
  std::optional<UserError> first_;
};

void add_setting_value(search::Values& settings, const std::string& key, const std::string& value) {
  const auto is_same = [&](const auto& other) { return other.first == key; };
  if (std::ranges::any_of(settings, is_same)) {
    throw UserError("flag", "--vary", fmt::format("'{}' is given twice", key),
                    "put all its values into one list");
  }
  // `schedule` comes first, as it sets `interleave`, which a later key may replace.
  settings.emplace(key == "schedule" ? settings.begin() : settings.end(), key, value);
}

}  // namespace

bool is_strategy_key(const std::string& key) { return classify_key(key) == What::kSetting; }

bool is_hyperparameter(const std::string& key) {
  return classify_key(key) == What::kHyperparameter;
}

void vary(Variant& variant, const std::string& key, const std::string& value) {
  auto& job = variant.job;
  switch (classify_key(key)) {
    case What::kScale:
      job.scale = machine::parse_scale(value);
      return;
    case What::kSoftware:
      job.machine_text = with_software(job.machine_text, value);
      return;
    case What::kField:
      job.machine_fields.push_back({key, value});
      return;
    case What::kSetting:
      add_setting_value(variant.settings, *parse_setting_key(key), value);
      return;
    case What::kFlag:
      FlagsOf(job).set(key, value);
      return;
    case What::kHyperparameter:
      job.model_text = with_hyperparameter(job.model_text, key, value);
      return;
  }
}

VariantSettings list_settings(const Variant& variant, const strategies::Problem& problem) {
  SettingCollection out(problem);
  for (const auto& name : variant.strategies) {
    if (!is_group(name) || variant.settings.empty()) {
      out.add(with_settings(name, variant.settings));
      continue;
    }
    auto group = strategies::list_named_settings(name, problem);
    drop_settings_without(variant.settings, name, group);
    for (auto& setting : group) {
      leave_dp_open(variant.settings, setting);
      out.add(with_settings(to_text(setting), variant.settings));
    }
  }
  return out.take();
}

void check_axes(const std::vector<search::Axis>& axes, const std::string& model) {
  std::vector<std::string> unknown;
  for (const auto& axis : axes) {
    if (is_hyperparameter(axis.key)) unknown.push_back(axis.key);
  }
  if (unknown.empty()) return;
  std::vector<std::string> own;
  const auto loaded = load_model(model);
  for (const auto& parameter : loaded.spec->hyperparameters) own.push_back(parameter.key);
  if (own.empty()) return;  // a file; its reader checks the keys
  for (const auto& key : unknown) {
    if (std::ranges::find(own, key) != own.end()) continue;
    Job job;
    throw UserError(
        "flag", "--vary", fmt::format("'{}' cannot be varied", key),
        fmt::format(
            "use a flag: {} scale; a hyperparameter of {}: {}; a setting of strategies: {}; "
            "or of the machine: software device.FIELD level.NAME.FIELD",
            FlagsOf(job).list_names(), loaded.spec->name, join(own, " "), list_setting_names()));
  }
}

}  // namespace tandem::cli
