// Rule steps that insert parallelization operators into a known part of a graph. The part is an
// operator with the chains of its operands, or the path between two operators.
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

// One application of a rule.
struct RuleStep {
  std::string rule;    // a shipped rule, or one with "-reversed" appended
  std::size_t at = 0;  // on a path: the number of operators before the rule's position
  std::vector<std::int64_t> choices = {};  // the rule's choices
  bool operator==(const RuleStep&) const = default;
};
using RuleSteps = std::vector<RuleStep>;

// Rule steps that apply at several places.
struct Derived {
  RuleSteps steps;
  // Number of devices that redundantly compute the same, in addition to the partitioning by
  // `steps`.
  std::int64_t replicas = 1;
  // Names of operators, or operands of operators: "linear2:0"
  std::vector<std::string> places = {};
  bool operator==(const Derived&) const = default;
};

// The steps that make a plan parallel (plan/parallelization_derivation.h).
struct Parallelization {
  std::vector<Derived> cuts = {};   // steps that partition operators
  std::vector<Derived> paths = {};  // steps on the paths to operators
  // Places that no steps lead to.
  std::vector<std::string> without = {};
  bool operator==(const Parallelization&) const = default;
};

std::string to_text(const RuleStep& step);
// Returns the steps as text, each on a line of its own.
std::string to_text(const RuleSteps& steps);
// Returns the step that `text` describes. Throws UserError("derivation") if it is not valid.
RuleStep parse_rule_step(std::string_view text);

// Returns the shipped and proved rule called `name`, with the condition of its proof. Returns null
// if there is none.
const rewrite::Rule* find_usable_rule(const std::string& name);

}  // namespace tandem::plan
