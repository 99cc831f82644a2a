// The numbers and words of a device in a machine file, each written once: reading, hashing,
// printing and the weakest of several devices go through these lists.
#pragma once

#include <span>
#include <string_view>

#include "machine/machine.h"
#include "machine/number.h"

namespace tandem::machine {

// A field that holds one number; `Owner` is Device or Level.
template <class Owner>
struct NumberField {
  std::string_view name;
  const NumberKind& kind;
  bool required;
  bool may_be_zero;
  double& (*at)(Owner&);  // in base units
  bool more_is_weaker = false;

  [[nodiscard]] double in(Owner owner) const { return at(owner); }
};

// A field that holds one of some words, by its number; the first is the weakest.
struct WordField {
  std::string_view name;
  std::span<const std::string_view> words;
  std::size_t (*get)(const Device&);
  void (*set)(Device&, std::size_t);
};

// In the order of the file format's documentation.
std::span<const NumberField<Device>> device_numbers();
std::span<const WordField> device_words();

inline constexpr std::array<std::string_view, 2> kNoYes = {"no", "yes"};

}  // namespace tandem::machine
