// What is known of a rule: proved, proved under a condition that it does not state, refuted with
// concrete tensors, or unproved. Each is an answer of its own; what takes too long is unproved.
//
// A rule is judged on every pattern in which its source occurs (instances.h). On small sizes both
// sides are computed (evaluate.h): one difference refutes. Where there is none, their normal forms
// at large sizes must be equal (normal_form.h), or Z3 must show that they cannot differ (smt.h);
// and types beyond the patterns, which are drawn (drawn_instances.h), must show no difference
// either. Of a parallel rule the types are compared with degrees, replicas and partial sums; its
// meaning is that of its erasure. One whose source is legal in no layout (layouts.h) applies
// nowhere: that proves it, and is said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.h"
#include "rewrite/proof.h"
#include "verify/instances.h"

namespace tandem::verify {

using rewrite::Status;

// Of a rule whose source is legal in no layout of its tensors: true, and of no use.
constexpr std::string_view kProvedByLayouts = "layouts";

struct VerifyOptions {
  PatternLimits limits = {};
  std::int64_t largest = 3;        // of the small sizes; 2 where more than 5 of them vary
  std::size_t small = 12;          // instances of each pattern that are computed ...
  std::size_t small_in_all = 200;  // ... and of all patterns together
  int draws = 4;                   // generic sizes at which normal forms are compared
  bool find_conditions = true;
  // What is not proved is tried in sums of dozens of terms, which takes longer than all else.
  bool long_sums = true;
  Seconds smt{0.3};  // that Z3 may take where normal forms differ
  Hash seed = 1;
};

struct Verdict {
  rewrite::Proof proof;
  std::string counterexample;  // kRefuted, and kProvedIf: where the rule as it stands is false
  std::string reason;          // kUnproved, and of a rule that applies nowhere
  std::size_t patterns = 0;
  std::size_t instances = 0;  // that were computed
  bool cut = false;           // not all patterns and small sizes were tried
};

Verdict verify(const Rule& rule, const VerifyOptions& options = {});

// The rule with the condition of its verdict.
Rule with_condition(const Rule& rule, const Verdict& verdict);

}  // namespace tandem::verify
