// Numbers of a machine file: an amount and its unit, or a fraction. And what every reader of such a
// file needs: words, and messages that say where.
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

// Input may be any bytes, and messages go into JSON: ASCII only, and not for ever.
std::string printable(std::string_view text);
std::string shown(Words line);
// A field as it was written.
std::string shown(std::string_view field, Words rest);

// "did you mean 'x'?" where something is near, else the list.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

// One word of letters, digits and _ - . +
bool is_name(std::string_view text);

// What a number of one kind may look like.
struct Unit {
  std::string_view name;
  double factor;
};
struct NumberKind {
  std::string_view form;        // as messages describe it
  std::span<const Unit> units;  // none: it has no unit
  bool is_fraction = false;     // at most 1
};
extern const NumberKind kAmount, kRate, kPeak, kTime, kFraction, kNumber;

// As people read it: "5 us", "34 B", "0.8".
std::string number_text(double value, const NumberKind& kind);

// The number that `rest` says, in base units.
double read_number(const Place& place, std::string_view field, Words rest, const NumberKind& kind,
                   bool may_be_zero);

}  // namespace tandem::machine
