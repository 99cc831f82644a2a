// The rules that the search applies: the shipped and proved ones. Parallel rules have free degrees;
// they are tried with every divisor of the machine.
//
// Three kinds of rules are excluded:
//   - Rules that only reorder parallelization operators, since such graphs count as one candidate.
//   - Rules about joins, since no layout says where a join's summands are placed.
//   - Parallel rules that also change the graph without its parallelization operators. With these,
//     the plan's derivation would differ from the steps of the search.
#pragma once

#include <vector>

#include "machine/digits.h"
#include "rewrite/rule.h"

namespace tandem::unity {

std::vector<rewrite::Rule> list_search_rules();

// Returns whether either side has a parallelization operator.
bool is_parallel(const rewrite::Rule& rule);
// Returns whether the rule only removes parallelization operators and has no free choices. Such
// rules are applied wherever they fit, as Unity simplifies a graph after each rewrite.
bool is_simplification(const rewrite::Rule& rule);

// Returns the products of subsets of these digits' sizes, without 1, ascending.
//   digits of sizes 2, 2 and 3 -> 2, 3, 4, 6, 12
std::vector<std::int64_t> list_degrees(const machine::Digits& digits, machine::DigitMask free);

}  // namespace tandem::unity
