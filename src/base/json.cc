#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tandem {

namespace {

std::string shorten(const std::string& text) {
  constexpr std::size_t kMost = 40;
  return text.size() > kMost ? text.substr(0, kMost - 3) + "..." : text;
}

}  // namespace

template <class Json>
void RepeatedKey<Json>::observe(int depth, typename Json::parse_event_t event, const Json& value) {
  using Event = typename Json::parse_event_t;
  const auto at = static_cast<std::size_t>(depth);
  switch (event) {
    case Event::object_start:
    case Event::array_start:
      return open(at, event == Event::array_start);
    case Event::object_end:
    case Event::array_end:
      return close(at);
    case Event::key:
      open_[at - 1].keys.push_back(value.template get_ref<const std::string&>());
      return;
    case Event::value:
      if (at > 0) ++open_[at - 1].items;
      return;
  }
}

template <class Json>
void RepeatedKey<Json>::check(const std::string& kind, const std::string& source) const {
  if (!found_) return;
  throw UserError(kind, source, fmt::format("'{}' is given twice", *found_),
                  "remove one of the two");
}

template <class Json>
void RepeatedKey<Json>::open(std::size_t depth, bool is_list) {
  if (open_.size() <= depth) open_.resize(depth + 1);
  open_[depth].is_list = is_list;
  open_[depth].items = 0;
  open_[depth].keys.clear();
}

template <class Json>
void RepeatedKey<Json>::close(std::size_t depth) {
  auto& keys = open_[depth].keys;
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice != keys.end() && !found_) found_ = make_path(depth, *twice);
  if (depth > 0) ++open_[depth - 1].items;
}

template <class Json>
std::string RepeatedKey<Json>::make_path(std::size_t depth, const std::string& key) const {
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) {
    if (open_[i].is_list) {
      out += fmt::format("[{}]", open_[i].items);
    } else {
      out += fmt::format("{}{}", out.empty() ? "" : ".", escape_json_key(open_[i].keys.back()));
    }
  }
  return fmt::format("{}{}{}", out, out.empty() ? "" : ".", escape_json_key(key));
}

template <class Json>
Json read_json(std::string_view text, const std::string& kind, const std::string& source,
               int deepest) {
  RepeatedKey<Json> repeated;
  bool is_too_deep = false;
  const auto follow = [&](int depth, typename Json::parse_event_t event, const Json& value) {
    repeated.observe(depth, event, value);
    is_too_deep = is_too_deep || depth > deepest;
    return !is_too_deep;
  };
  Json out;
  try {
    out = Json::parse(text, follow);
  } catch (const nlohmann::json::exception& error) {
    if (!is_too_deep) throw UserError(kind, source, "is not JSON", locate_json_error(text, error));
  }
  if (is_too_deep) throw UserError(kind, source, "is nested too deeply");
  repeated.check(kind, source);
  return out;
}

template <class Json>
std::string describe_json(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return shorten(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::string escape_json_key(std::string_view key) {
  const auto quoted =
      nlohmann::json(key).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return shorten(quoted.substr(1, quoted.size() - 2));
}

std::string locate_json_error(std::string_view text, const nlohmann::json::exception& error) {
  const auto* parse_error = dynamic_cast<const nlohmann::json::parse_error*>(&error);
  if (parse_error == nullptr) return "a number is too large";
  const auto before = text.substr(0, parse_error->byte == 0 ? 0 : parse_error->byte - 1);
  const auto line = std::ranges::count(before, '\n') + 1;
  const auto newline = before.rfind('\n');
  const auto begin = newline == std::string_view::npos ? 0 : newline + 1;
  return fmt::format("line {}, column {}", line, before.size() - begin + 1);
}

template std::string describe_json(const nlohmann::json&);
template std::string describe_json(const nlohmann::ordered_json&);
template class RepeatedKey<nlohmann::json>;
template class RepeatedKey<nlohmann::ordered_json>;
template nlohmann::json read_json(std::string_view, const std::string&, const std::string&, int);
template nlohmann::ordered_json read_json(std::string_view, const std::string&, const std::string&,
                                          int);

}  // namespace tandem
