#include "search/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "search/limits.h"

namespace tandem::search {

Axis parse_axis(std::string_view text) {
  const auto equals = text.find('=');
  Axis out{.key = std::string(trim(text.substr(0, equals))), .values = {}};
  if (equals != std::string_view::npos) {
    auto list = trim(text.substr(equals + 1));
    const char separator = list.find(';') == std::string_view::npos ? ',' : ';';
    if (list.ends_with(';')) list.remove_suffix(1);
    for (const auto value : split(list, separator)) out.values.emplace_back(value);
  }
  const bool has_empty = std::ranges::find(out.values, "") != out.values.end();
  if (out.key.empty() || out.values.empty() || has_empty) {
    throw UserError("flag", "--vary",
                    fmt::format("'{}' does not have the form KEY=VALUE,...", text),
                    "write it like seq=2048,4096");
  }
  return out;
}

std::vector<Values> list_combinations(const std::vector<Axis>& axes) {
  std::set<std::string> keys;
  std::vector<Values> out = {{}};
  for (const auto& axis : axes) {
    if (!keys.insert(axis.key).second) {
      throw UserError("flag", "--vary", fmt::format("'{}' is given twice", axis.key),
                      "put all its values into one list");
    }
    if (out.size() * axis.values.size() > limits::kMostCases) {
      throw UserError("flag", "--vary",
                      fmt::format("has more than {} combinations", limits::kMostCases));
    }
    const auto before = std::move(out);
    out.clear();
    for (const auto& values : before) {
      for (const auto& value : axis.values) {
        out.push_back(values);
        out.back().emplace_back(axis.key, value);
      }
    }
  }
  return out;
}

std::string to_text(const Values& values) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : values) parts.push_back(fmt::format("{}={}", key, value));
  return join(parts, ", ");
}

}  // namespace tandem::search
