// By which rules is each operator of a plan cut? A layout splits an operator along some of its
// factors; shipped and proved rules of parallelization say which splits leave its value as it is.
// Here every operator is taken alone, whole, and rewritten by them, a factor at a time, until its
// operands have the degrees, replicas and partial sums that the plan gives them. Devices that
// compute the same, or nothing, need no rule.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "machine/digits.h"
#include "plan/plan.h"

namespace tandem::check {

struct Cuts {
  std::size_t operators = 0;              // that are cut
  std::size_t steps = 0;                  // rules applied to them, of equal ones to each
  std::set<std::string> rules = {};       // these
  std::vector<std::string> without = {};  // operators, by name, that no rules lead to
};

Cuts cuts_by_rules(const plan::MappedGraph& mapped, const machine::Digits& digits);

}  // namespace tandem::check
