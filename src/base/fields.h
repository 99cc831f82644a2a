// Field lists of attribute structs. One list per struct gives its text, parsing and hash; equality
// is `= default`.
//
//   struct Softmax { std::int64_t axis = -1; bool operator==(const Softmax&) const = default;
//                    static constexpr auto fields = std::tuple{Field{"axis", &Softmax::axis}}; };
//
// A member that the list omits is a compile error (covers_all_members). To add another attribute
// type, overload attribute_text and parse_attribute next to it.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tandem {

template <class Struct, class Value>
struct AttributeField {
  std::string_view name;
  Value Struct::*member;
};
template <class Struct, class Value>
AttributeField(const char*, Value Struct::*) -> AttributeField<Struct, Value>;

inline std::string attribute_text(std::int64_t value) { return fmt::format("{}", value); }
inline std::string attribute_text(double value) { return fmt::format("{}", value); }
inline std::string attribute_text(bool value) { return value ? "true" : "false"; }
inline std::string attribute_text(const std::string& value) { return fmt::format("\"{}\"", value); }

// Returns a list as text: "[3, 3]".
inline std::string attribute_text(const std::vector<std::int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

inline bool parse_attribute(std::string_view text, std::int64_t& out) {
  const auto value = parse_int(text);
  if (value) out = *value;
  return value.has_value();
}
inline bool parse_attribute(std::string_view text, double& out) {
  const auto value = parse_double(text);
  if (value) out = *value;
  return value.has_value();
}
inline bool parse_attribute(std::string_view text, bool& out) {
  out = text == "true";
  return out || text == "false";
}
inline bool parse_attribute(std::string_view text, std::string& out) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  out = std::string(text.substr(1, text.size() - 2));
  return true;
}
inline bool parse_attribute(std::string_view text, std::vector<std::int64_t>& out) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  out.clear();
  for (auto part : split(text.substr(1, text.size() - 2), ',')) {
    const auto value = parse_int(trim(part));
    if (!value) return false;
    out.push_back(*value);
  }
  return true;
}

namespace fields_detail {
struct ConvertsToAnything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): only named in unevaluated code
};
template <class Struct, class... Members>
consteval std::size_t count_members() {
  if constexpr (requires { Struct{std::declval<Members>()..., ConvertsToAnything{}}; }) {
    return count_members<Struct, Members..., ConvertsToAnything>();
  } else {
    return sizeof...(Members);
  }
}
}  // namespace fields_detail

template <class Struct>
consteval bool covers_all_members() {
  return std::tuple_size_v<decltype(Struct::fields)> == fields_detail::count_members<Struct>();
}

template <class Struct, class Visit>
constexpr void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, Struct::fields);
}

// Returns every field's name and the text of its value.
template <class Struct>
std::vector<std::pair<std::string, std::string>> list_field_values(const Struct& value) {
  std::vector<std::pair<std::string, std::string>> out;
  for_each_field<Struct>([&](const auto& field) {
    out.emplace_back(field.name, attribute_text(value.*field.member));
  });
  return out;
}

// Returns the fields that differ from their defaults, in the list's order: "act=relu axis=1".
template <class Struct>
std::string fields_text(const Struct& value) {
  static_assert(covers_all_members<Struct>(), "a member is missing from `fields`");
  std::string out;
  const Struct defaults{};
  for_each_field<Struct>([&](const auto& field) {
    if (value.*field.member == defaults.*field.member) return;
    if (!out.empty()) out += ' ';
    out += fmt::format("{}={}", field.name, attribute_text(value.*field.member));
  });
  return out;
}

enum class FieldResult { kOk, kUnknownName, kBadValue };

// Sets the field called `name` from `text`.
template <class Struct>
FieldResult set_field(Struct& value, std::string_view name, std::string_view text) {
  FieldResult result = FieldResult::kUnknownName;
  for_each_field<Struct>([&](const auto& field) {
    if (field.name != name) return;
    result = parse_attribute(text, value.*field.member) ? FieldResult::kOk : FieldResult::kBadValue;
  });
  return result;
}

}  // namespace tandem
