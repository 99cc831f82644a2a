// The proof status of a rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::rewrite {

// kProvedIf: the rule holds under a condition that it does not state.
enum class Status : std::uint8_t { kProved, kProvedIf, kRefuted, kUnproved };
std::string_view name(Status status);  // "proved", "proved_if", ...
inline bool is_proved(Status s) { return s == Status::kProved || s == Status::kProvedIf; }

struct Proof {
  Status status = Status::kUnproved;
  std::string prover = {};     // such as "normal forms", "z3", "layouts"
  std::string condition = {};  // kProvedIf: written as in a rule, without `if`

  bool operator==(const Proof&) const = default;
};

}  // namespace tandem::rewrite
