// What is known of a rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::rewrite {

// kProvedIf: under a condition that the rule does not state.
enum class Status : std::uint8_t { kProved, kProvedIf, kRefuted, kUnproved };
std::string_view name(Status status);  // "proved", "proved_if", ...
inline bool is_proved(Status s) { return s == Status::kProved || s == Status::kProvedIf; }

struct Proof {
  Status status = Status::kUnproved;
  std::string prover = {};     // who found it: "normal forms", "z3", "layouts"
  std::string condition = {};  // kProvedIf: as in a rule's text, without `if`

  bool operator==(const Proof&) const = default;
};

}  // namespace tandem::rewrite
