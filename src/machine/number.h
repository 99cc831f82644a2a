// Numbers of a machine file (an amount with its unit, or a fraction), and helpers for all parsers
// of such files: words, and messages that name the place.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::machine {

using Words = std::span<const std::string_view>;

// A line of the file; line 0 is the file as a whole.
struct Place {
  std::string source;
  std::size_t line = 0;

  // Throws UserError.
  [[noreturn]] void fail(std::string message, std::string hint = "") const;
};

// Returns the text for messages, which go into JSON: ASCII only, cut after 60 characters. The input
// may be any bytes.
std::string to_printable(std::string_view text);
std::string format_words(Words line);
// Returns a field as it was written.
std::string format_field(std::string_view field, Words rest);

// Returns "did you mean 'x'?" if a candidate is near, otherwise the list of candidates.
std::string make_suggestion(std::string_view word, const std::vector<std::string>& candidates);

// Returns whether the text is one word of letters, digits and _ - . +
bool is_name(std::string_view text);

// A unit and its factor to base units.
struct Unit {
  std::string_view name;
  double factor;
};
struct NumberKind {
  std::string_view form;        // description in messages
  std::span<const Unit> units;  // empty: the number has no unit
  bool is_fraction = false;     // whether the number is at most 1
};
extern const NumberKind kAmount, kRate, kPeak, kTime, kFraction, kNumber;

// Returns the number in readable form: "5 us", "34 B", "0.8".
std::string format_number(double value, const NumberKind& kind);

// Parses the number in `rest` and returns it in base units.
double read_number(const Place& place, std::string_view field, Words rest, const NumberKind& kind,
                   bool may_be_zero);

}  // namespace tandem::machine
