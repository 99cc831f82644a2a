// The keys of a strategy's settings: their names, and a function that changes one of them in a
// text. strategies/setting.h defines what the values mean, strategies/families.h which family has
// them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "strategies/setting.h"

namespace tandem::strategies {

struct SettingKey {
  std::string_view name;
  std::string_view form;       // form of its value: "=N"; empty: a flag
  std::string_view doc;        // one line for `tandem strategies`
  std::string_view otherwise;  // default
  bool is_common = false;      // all families have it
};

// Returns the keys in the order in which messages list them. madmax also has the kinds of layers as
// keys.
std::span<const SettingKey> get_setting_keys();
// Returns null if there is no key of that name.
const SettingKey* find_setting_key(std::string_view name);
// Returns whether the family has the key: one of get_setting_keys or a kind of layer.
bool has_key(Family family, std::string_view key);

// Returns whether the text of a strategy contains the key.
bool sets_key(std::string_view strategy, std::string_view key);

// Returns the strategy's text with one key set. The value replaces the one in the text, or is
// appended.
//   set_key("megatron:tp=2,sp", "tp", "4") -> "megatron:tp=4,sp"
// A flag is present for "yes" and absent for "no"; other values throw UserError. A `schedule` is
// gpipe, 1f1b or interleaved; the last one sets `interleave` to 2 unless the text has one. The key
// is one of get_setting_keys or a kind of layer. parse_setting checks whether the family has it and
// the value fits.
std::string set_key(std::string_view strategy, std::string_view key, std::string_view value);

}  // namespace tandem::strategies
