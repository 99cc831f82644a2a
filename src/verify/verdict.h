// What is known of a rule: proved, proved under a condition that it does not state, refuted with
// concrete tensors, or unproved. Each is an answer of its own; what takes too long is unproved.
//
// A rule is judged on every pattern in which its source occurs (instances.h). On small sizes both
// sides are computed (evaluate.h): one difference refutes. Where there is none, their normal forms
// at large sizes must be equal (normal_form.h). Of a parallel rule the types are compared with
// degrees, replicas and partial sums; its meaning is that of its erasure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verify/instances.h"

namespace tandem::verify {

enum class Status : std::uint8_t { kProved, kProvedIf, kRefuted, kUnproved };
std::string_view name(Status status);  // "proved", "proved_if", ...

struct VerifyOptions {
  PatternLimits limits = {};
  std::int64_t largest = 3;        // of the small sizes; 2 where more than 5 of them vary
  std::size_t small = 12;          // instances of each pattern that are computed ...
  std::size_t small_in_all = 200;  // ... and of all patterns together
  int draws = 4;                   // generic sizes at which normal forms are compared
  bool find_conditions = true;
  Hash seed = 1;
};

struct Verdict {
  Status status = Status::kUnproved;
  std::string prover;          // of what is proved: "normal forms"
  std::string condition;       // kProvedIf: as in a rule's text, without `if`
  std::string counterexample;  // kRefuted, and kProvedIf: where the rule as it stands is false
  std::string reason;          // kUnproved
  std::size_t patterns = 0;
  std::size_t instances = 0;  // that were computed
  bool cut = false;           // not all patterns and small sizes were tried
};

Verdict verify(const Rule& rule, const VerifyOptions& options = {});

// The rule with the condition of its verdict.
Rule with_condition(const Rule& rule, const Verdict& verdict);

}  // namespace tandem::verify
