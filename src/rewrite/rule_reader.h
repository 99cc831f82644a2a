// Reads the text of one rule. rewrite/rule_text.h describes the language.
#pragma once

#include <string_view>
#include <vector>

#include "rewrite/rule.h"

namespace tandem::rewrite {

// Returns the rule of `line`, or two rules if it contains `<=>`. Throws UserError("rule", its
// name).
std::vector<Rule> read_rule(std::string_view line);

}  // namespace tandem::rewrite
