// Steps of rules that put parallelization operators into a graph, where it is known which part of
// it is meant: an operator with what cuts its operands, or the way between two operators.
//
//   parallelize-linear-over-n choose 2
//   fuse-combines-reversed at 1 choose 2,3
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/rule.h"

namespace tandem::plan {

struct RuleStep {
  std::string rule;                        // shipped, or one with "-reversed" after it
  std::size_t at = 0;                      // of a way: after so many of its operators
  std::vector<std::int64_t> choices = {};  // of the rule's
  bool operator==(const RuleStep&) const = default;
};
using RuleSteps = std::vector<RuleStep>;

// The same steps at several places.
struct Derived {
  RuleSteps steps;
  // Devices that compute the same, beside what the steps cut: any one of them is right.
  std::int64_t copies = 1;
  std::vector<std::string> places = {};  // operators, or what they read: "linear2:0"
  bool operator==(const Derived&) const = default;
};

// How a plan is made parallel: plan/parallelization.h.
struct Parallelization {
  std::vector<Derived> cuts = {};  // of operators
  std::vector<Derived> ways = {};  // to them
  std::vector<std::string> without = {};
  bool operator==(const Parallelization&) const = default;
};

std::string to_text(const RuleStep& step);
// Throws UserError("derivation").
RuleStep parse_rule_step(std::string_view text);

// A shipped rule that is proved, with the condition of its proof; null where there is none.
const rewrite::Rule* usable_rule(const std::string& name);

}  // namespace tandem::plan
