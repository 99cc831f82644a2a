// Rules with their variables, symbols and nodes in the order in which their text mentions them, so
// that rules that differ in these alone are seen to be equal without writing and reading them.
#pragma once

#include "rewrite/rule.h"

namespace tandem::rewrite {

// The rule as it is read from its text. What is not mentioned is left out.
Rule renumbered(const Rule& rule);

// Are two renumbered rules one, but for names and the order of choices and conditions?
bool are_one(const Rule& a, const Rule& b);

}  // namespace tandem::rewrite
