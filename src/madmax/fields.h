// The fields of one of MAD-Max's JSON files, read with checks. Every message names the file and the
// field. A reader asks for the fields it needs by name; what it never asked for is an error in the
// end, so that a misspelt field cannot pass as an absent one.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::madmax {

class Fields {
 public:
  // `source` is how messages call the text. Throws UserError unless it is a JSON object.
  Fields(std::string_view text, std::string source);

  // Throws UserError: "source: message (hint)".
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;

  bool has(std::string_view key);
  // A number above 0.
  double number(std::string_view key);
  // A part of a whole, above 0 and at most 1.
  double fraction(std::string_view key);
  // A part of a whole that may be none of it.
  double share(std::string_view key);
  // A whole number from `least` to 2^20, which bounds the time that one evaluation takes.
  int count(std::string_view key, int least = 1);
  // False when absent.
  bool flag(std::string_view key);
  std::string text(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  std::vector<int> counts(std::string_view key);

  // Fields that may stand there and say nothing to the model.
  void ignore(std::initializer_list<std::string_view> keys);
  // To be called last: throws when a field is left that nobody asked for.
  void finish() const;

 private:
  [[nodiscard]] const nlohmann::json& at(std::string_view key);
  [[noreturn]] void fail_value(std::string_view key, const nlohmann::json& value,
                               std::string_view expected) const;
  [[nodiscard]] int whole(std::string_view key, const nlohmann::json& value, int least) const;

  nlohmann::json json_;
  std::string source_;
  std::vector<std::string> known_;
};

}  // namespace tandem::madmax
