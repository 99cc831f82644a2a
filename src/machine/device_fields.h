// Tables of a device's numeric and keyword fields in a machine file. Each field is described once
// here; reading, hashing, printing and taking the weakest of several devices all use these tables.
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
  double& (*at)(Owner&);  // reference to the value, in base units
  bool more_is_weaker = false;

  [[nodiscard]] double get(Owner owner) const { return at(owner); }
};

// A field that holds one of `words`, represented by its index; index 0 is the weakest.
struct WordField {
  std::string_view name;
  std::span<const std::string_view> words;
  std::size_t (*get)(const Device&);
  void (*set)(Device&, std::size_t);
};

// Returns the present name of a field: "fused_qkv" for "join_products", which older files have.
std::string_view get_current_field_name(std::string_view name);

// Return the field tables, in the order of docs/reference/machine-format.md.
std::span<const NumberField<Device>> device_numbers();
std::span<const WordField> device_words();

inline constexpr std::array<std::string_view, 2> kNoYes = {"no", "yes"};

}  // namespace tandem::machine
