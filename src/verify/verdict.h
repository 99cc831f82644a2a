// Judges rules. A rule is proved, proved under a condition that it does not state, refuted with
// concrete tensors, or unproved. Whatever takes too long is unproved.
//
// A rule is judged on every pattern in which its source occurs (instances.h). Both sides are
// evaluated at small sizes (evaluate.h), where one difference refutes. If there is none, their
// normal forms at large sizes must be equal (normal_form.h), or Z3 must show that they cannot
// differ (smt.h). Types that are drawn beyond the patterns (random_instances.h) must show no
// difference, either. The types of a parallel rule are compared with degrees, replicas and partial
// sums; its meaning is that of its erasure. A rule whose source is legal in no layout (layouts.h)
// applies nowhere. This proves it, and the verdict says so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.h"
#include "rewrite/proof.h"
#include "verify/instances.h"

namespace tandem::verify {

using rewrite::Status;

// The prover of a rule whose source is legal in no layout of its tensors: true, and of no use.
constexpr std::string_view kProvedByLayouts = "layouts";

struct VerifyOptions {
  PatternLimits limits = {};
  std::int64_t largest = 3;        // largest small size; 2 if more than 5 sizes vary
  std::size_t small = 12;          // instances of each pattern that are evaluated ...
  std::size_t small_in_all = 200;  // ... and of all patterns together
  int draws = 4;                   // generic sizes at which normal forms are compared
  bool find_conditions = true;
  // Whether unproved rules are tried on sums of dozens of terms, which takes longer than all else.
  bool long_sums = true;
  Seconds smt{0.3};  // time limit for Z3, which is asked if normal forms differ
  Hash seed = 1;
};

struct RuleVerdict {
  rewrite::Proof proof;
  std::string counterexample;  // kRefuted, kProvedIf: where the rule without a condition is false
  std::string reason;          // kUnproved, and rules that apply nowhere
  std::size_t patterns = 0;
  std::size_t instances = 0;  // evaluated instances
  bool cut = false;           // whether some patterns or small sizes were not tried
};

// Judges `rule` on all its patterns. If it is refuted, looks for a condition under which it is
// proved.
RuleVerdict verify(const Rule& rule, const VerifyOptions& options = {});

// Returns the rule with the condition of its verdict.
Rule with_condition(const Rule& rule, const RuleVerdict& verdict);

}  // namespace tandem::verify
