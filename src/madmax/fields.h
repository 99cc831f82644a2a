// Reads the fields of one of MAD-Max's JSON files with checks. Every message names the file and the
// field. A reader asks for fields by name; a field that it never asked for is an error, so that a
// misspelt field cannot pass as an absent one.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::madmax {

class Fields {
 public:
  // `source` is the name of the text in messages. Throws UserError unless the text is a JSON
  // object.
  Fields(std::string_view text, std::string source);

  // Throws UserError: "source: message (hint)".
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;

  bool has(std::string_view key);
  // Returns a number above 0.
  double number(std::string_view key);
  // Returns a number above 0 and at most 1.
  double fraction(std::string_view key);
  // Returns a number from 0 to 1.
  double share(std::string_view key);
  // Returns an integer from `least` to 2^20, which bounds the time of one evaluation.
  int count(std::string_view key, int least = 1);
  // Returns a bool; false if absent.
  bool flag(std::string_view key);
  std::string text(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  std::vector<int> counts(std::string_view key);

  // Accepts fields that may be present but that the model does not use.
  void ignore(std::initializer_list<std::string_view> keys);
  // Throws UserError if a field was never asked for. Must be called last.
  void finish() const;

 private:
  [[nodiscard]] const nlohmann::json& at(std::string_view key);
  [[noreturn]] void fail_value(std::string_view key, const nlohmann::json& value,
                               std::string_view expected) const;
  [[nodiscard]] int to_integer(std::string_view key, const nlohmann::json& value, int least) const;

  nlohmann::json json_;
  std::string source_;
  std::vector<std::string> known_;
};

}  // namespace tandem::madmax
