// JSON that a user wrote: what every reader of such a file asks first. A key that stands twice in
// an object is an error, since one of its values would be lost without a word.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Follows a parse and notices a key that stands twice in one object. `Json` is nlohmann's type of
// either order of keys.
template <class Json>
class RepeatedKey {
 public:
  // As the parser's callback has them.
  void see(int depth, typename Json::parse_event_t event, const Json& value);

  // Throws UserError(kind, source, ...) if there is one so far: "records[2].model.layers".
  void check(const std::string& kind, const std::string& source) const;

 private:
  // An open object or list; those of a depth reuse each other's memory.
  struct Open {
    bool is_list = false;
    std::size_t items = 0;          // of a list, so far
    std::vector<std::string> keys;  // of an object, so far
  };
  void open(std::size_t depth, bool is_list);
  void close(std::size_t depth);
  [[nodiscard]] std::string path_to(std::size_t depth, const std::string& key) const;

  std::vector<Open> open_;  // by depth
  std::optional<std::string> found_;
};

// Throws UserError(kind, source, ...) for what is no JSON, with the line and column where it ends
// to be, for a key that stands twice, and where lists and objects lie in each other more than
// `deepest` times: what is read is walked by recursion.
template <class Json>
Json read_json(std::string_view text, const std::string& kind, const std::string& source,
               int deepest = 100);

// A value of any length and depth, or a key as people wrote it, in a few characters.
template <class Json>
std::string shown(const Json& value);
std::string readable(std::string_view key);

// What the error of a parse is: "line 3, column 14", "a number is too large".
std::string json_error_place(std::string_view text, const nlohmann::json::exception& error);

}  // namespace tandem
