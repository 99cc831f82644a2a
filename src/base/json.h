// Reading of JSON that a user wrote. A key that occurs twice in one object is an error, because one
// of its values would be lost silently.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Follows a parse and detects a key that occurs twice in one object. `Json` is one of nlohmann's
// types, with sorted or ordered keys.
template <class Json>
class RepeatedKey {
 public:
  // Observes one event; the arguments are those of the parser's callback.
  void observe(int depth, typename Json::parse_event_t event, const Json& value);

  // Throws UserError(kind, source, ...) if a repeated key was found; it names
  // "records[2].model.layers".
  void check(const std::string& kind, const std::string& source) const;

 private:
  // An open object or list; containers at the same depth reuse memory.
  struct OpenContainer {
    bool is_list = false;
    std::size_t items = 0;          // number of items of a list so far
    std::vector<std::string> keys;  // keys of an object so far
  };
  void open(std::size_t depth, bool is_list);
  void close(std::size_t depth);
  [[nodiscard]] std::string make_path(std::size_t depth, const std::string& key) const;

  std::vector<OpenContainer> open_;  // by depth
  std::optional<std::string> found_;
};

// Parses JSON. It throws UserError(kind, source, ...) for invalid JSON, with line and column of the
// error, and for a key given twice. It also throws if lists and objects are nested more than
// `deepest` levels, because later code walks the result recursively.
template <class Json>
Json read_json(std::string_view text, const std::string& kind, const std::string& source,
               int deepest = 100);

// Return a short text for messages: of a value of any length and depth, or of a key as it was
// written.
template <class Json>
std::string describe_json(const Json& value);
std::string escape_json_key(std::string_view key);

// Returns the place or cause of a parse error: "line 3, column 14", "a number is too large".
std::string locate_json_error(std::string_view text, const nlohmann::json::exception& error);

}  // namespace tandem
