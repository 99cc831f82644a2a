// Rules with their variables, symbols and nodes in the order in which their text mentions them.
// Rules that differ in this order alone become equal without being written as text and read again.
#pragma once

#include "rewrite/rule.h"

namespace tandem::rewrite {

// Returns `rule` as it would be read from its text. Omits what the text does not mention.
Rule renumber_rule(const Rule& rule);

// Returns whether two renumbered rules are equal, except for names and the order of choices and
// conditions.
bool are_equal_up_to_order(const Rule& a, const Rule& b);

}  // namespace tandem::rewrite
