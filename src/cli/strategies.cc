// tandem strategies: lists the families of strategies and their settings.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "strategies/families.h"
#include "strategies/setting_key.h"

namespace tandem::cli {

namespace {

using strategies::SettingKey;
using strategies::StrategyFamily;

struct StrategiesFlags {
  bool json = false;
  std::string name;
};

// Returns the settings that the family has and not all others have.
std::vector<SettingKey> list_own_keys(const StrategyFamily& family) {
  std::vector<SettingKey> out;
  for (const auto& key : strategies::get_setting_keys()) {
    if (!key.is_common && has_key(family.family, key.name)) out.push_back(key);
  }
  return out;
}

std::vector<SettingKey> list_common_keys() {
  std::vector<SettingKey> out;
  std::ranges::copy_if(strategies::get_setting_keys(), std::back_inserter(out),
                       &SettingKey::is_common);
  return out;
}

Json key_json(const SettingKey& key) {
  return {{"name", key.name}, {"form", key.form}, {"doc", key.doc}, {"default", key.otherwise}};
}

Json family_json(const StrategyFamily& family) {
  Json own = Json::array();
  for (const auto& key : list_own_keys(family)) own.push_back(key.name);
  Json out = {{"name", family.name}, {"doc", family.doc}, {"settings", own}};
  if (family.required) out["requires"] = family.required->name;
  return out;
}

Json keys_json() {
  Json out = Json::array();
  for (const auto& key : strategies::get_setting_keys()) {
    auto row = key_json(key);
    row["strategies"] = Json::array();
    for (const auto& family : strategies::get_families()) {
      if (has_key(family.family, key.name)) row["strategies"].push_back(family.name);
    }
    out.push_back(std::move(row));
  }
  return out;
}

std::string keys_text(const std::vector<SettingKey>& keys) {
  TextTable table({{""}, {""}, {""}});
  for (const auto& key : keys) {
    table.add({fmt::format("{}{}", key.name, key.form), std::string(key.doc),
               fmt::format("default: {}", key.otherwise)});
  }
  return table.to_text();
}

void show_family(const StrategyFamily& family) {
  std::cout << fmt::format("{}: {}\n", family.name, family.doc);
  if (family.required) std::cout << fmt::format("It needs {}.\n", family.required->name);
  std::cout << keys_text(list_own_keys(family));
  std::cout << "Settings of all strategies:\n" << keys_text(list_common_keys());
}

void list_strategies(bool json) {
  if (json) {
    Json families = Json::array();
    for (const auto& family : strategies::get_families()) families.push_back(family_json(family));
    return print_json({{"strategies", families}, {"settings", keys_json()}});
  }
  TextTable table({{"strategy"}, {"own settings"}, {"description"}}, 0);
  for (const auto& family : strategies::get_families()) {
    std::vector<std::string> names;
    for (const auto& key : list_own_keys(family)) names.emplace_back(key.name);
    table.add({std::string(family.name), join(names, " "), std::string(family.doc)});
  }
  std::cout << table.to_text() << "Settings of all strategies:\n" << keys_text(list_common_keys());
  std::cout << fmt::format(
      "{} strategies; `tandem strategies NAME` shows one with its settings: NAME:key=value,...\n",
      strategies::get_families().size());
}

void show_strategies(const StrategiesFlags& flags) {
  if (flags.name.empty()) return list_strategies(flags.json);
  const auto family = strategies::parse_family(flags.name);
  if (!family) {
    throw UserError("strategy", flags.name, "unknown strategy",
                    fmt::format("expected one of: {}", join(strategies::family_names(), ", ")));
  }
  const auto& row = strategies::get_family(*family);
  if (flags.json) {
    auto out = family_json(row);
    out["settings"] = Json::array();
    for (const auto& key : list_own_keys(row)) out["settings"].push_back(key_json(key));
    for (const auto& key : list_common_keys()) out["settings"].push_back(key_json(key));
    return print_json(out);
  }
  show_family(row);
}

}  // namespace

void add_strategies(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<StrategiesFlags>();
  auto* command = add_command(app, "strategies", "list the strategies and their settings",
                              "strategies megatron", flags->json);
  command->add_option("name", flags->name, "strategy to show, with its settings");
  command->callback([flags] { show_strategies(*flags); });
}

}  // namespace tandem::cli
