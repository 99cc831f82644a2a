#include "madmax/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace tandem::madmax {

using nlohmann::json;

namespace {

// Returns a hint that names a field of the file that may be the missing one, misspelt; empty if
// there is none.
std::string suggest_misspelling(const json& fields, const std::vector<std::string>& asked_for,
                                std::string_view missing) {
  std::vector<std::string> there;
  for (const auto& [key, value] : fields.items()) {
    if (std::ranges::find(asked_for, key) == asked_for.end()) there.push_back(key);
  }
  const auto near = find_nearest(missing, there);
  return near.empty() ? "" : fmt::format("is '{}' a misspelling of it?", near);
}

}  // namespace

Fields::Fields(std::string_view text, std::string source) : source_(std::move(source)) {
  json_ = read_json<json>(text, "madmax", source_);
  if (!json_.is_object()) fail("is not a JSON object");
}

void Fields::fail(const std::string& message, const std::string& hint) const {
  throw UserError("madmax", source_, message, hint);
}

void Fields::fail_value(std::string_view key, const json& value, std::string_view expected) const {
  fail(fmt::format("'{}' is {} and must be {}", key, describe_json(value), expected));
}

bool Fields::has(std::string_view key) {
  known_.emplace_back(key);
  return json_.contains(key);
}

const json& Fields::at(std::string_view key) {
  if (!has(key)) fail(fmt::format("'{}' is missing", key), suggest_misspelling(json_, known_, key));
  return json_.at(std::string(key));
}

double Fields::number(std::string_view key) {
  const auto& value = at(key);
  constexpr double kLargest = 1e30;  // products of a few such numbers stay finite
  if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > kLargest) {
    fail_value(key, value, "a number above 0");
  }
  return value.get<double>();
}

double Fields::fraction(std::string_view key) {
  const auto& value = at(key);
  if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > 1) {
    fail_value(key, value, "a number above 0 and at most 1");
  }
  return value.get<double>();
}

double Fields::share(std::string_view key) {
  const auto& value = at(key);
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > 1) {
    fail_value(key, value, "a number from 0 to 1");
  }
  return value.get<double>();
}

int Fields::to_integer(std::string_view key, const json& value, int least) const {
  constexpr double kLargest = 1 << 20;
  const double number = value.is_number() ? value.get<double>() : -1;
  if (number < least || number > kLargest || number != std::floor(number)) {
    fail_value(key, value, fmt::format("an integer from {} to {}", least, kLargest));
  }
  return static_cast<int>(number);
}

int Fields::count(std::string_view key, int least) { return to_integer(key, at(key), least); }

bool Fields::flag(std::string_view key) {
  if (!has(key)) return false;
  const auto& value = at(key);
  if (!value.is_boolean()) fail_value(key, value, "true or false");
  return value.get<bool>();
}

std::string Fields::text(std::string_view key) {
  const auto& value = at(key);
  if (!value.is_string()) fail_value(key, value, "a string");
  return value.get<std::string>();
}

std::vector<std::string> Fields::texts(std::string_view key) {
  const auto& value = at(key);
  const auto is_text = [](const json& element) { return element.is_string(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_text)) {
    fail_value(key, value, "a list of strings");
  }
  return value.get<std::vector<std::string>>();
}

std::vector<int> Fields::counts(std::string_view key) {
  const auto& value = at(key);
  if (!value.is_array()) fail_value(key, value, "a list of integers");
  std::vector<int> out;
  for (const auto& element : value) out.push_back(to_integer(key, element, 1));
  return out;
}

void Fields::ignore(std::initializer_list<std::string_view> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void Fields::finish() const {
  for (const auto& [key, value] : json_.items()) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    const auto near = find_nearest(key, known_);
    fail(fmt::format("the field '{}' is unknown", key),
         near.empty() ? "" : "did you mean '" + near + "'?");
  }
}

}  // namespace tandem::madmax
