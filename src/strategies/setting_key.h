// The keys of a strategy's settings: which there are, which families have them, and a text with one
// of them changed. What their values mean is for strategies/setting.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "strategies/setting.h"

namespace tandem::strategies {

struct SettingKey {
  std::string_view name;
  std::string_view form;       // of its value: "=N"; empty: it stands there or not
  std::span<const Family> of;  // the families that have it; empty: all

  [[nodiscard]] bool belongs_to(Family family) const;
};

// In the order in which messages list them. madmax has the names of kinds of layers, too.
std::span<const SettingKey> setting_keys();
// Nothing where there is none of that name.
const SettingKey* find_setting_key(std::string_view name);

// Does the text of a strategy say the key?
bool says(std::string_view strategy, std::string_view key);

// with_key("megatron:tp=2,sp", "tp", "4") = "megatron:tp=4,sp": the value stands in place of what
// the text says, or behind it. A key without a value is there for "yes" and not for "no". A
// `schedule` is gpipe, 1f1b, or interleaved, which is `interleave`, 2 unless the text has one. The
// key is one of setting_keys or a kind of layer; whether the family has it and the value fits,
// parse_setting says. Throws UserError where a key without a value is neither.
std::string with_key(std::string_view strategy, std::string_view key, std::string_view value);

}  // namespace tandem::strategies
