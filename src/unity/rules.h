// The rules that the search applies: those that are shipped and proved, no others. Parallel rules
// leave degrees to be chosen; they are tried with every divisor of the machine.
//
// Rules that change the order of parallelization operators are left out, since graphs that differ
// so count as one. So are rules about joins: no layout says where a join's summands lie. So are
// rules that change what a graph computes once parallelization operators are taken away and have
// some: what the plan's derivation says must be what the search has done.
#pragma once

#include <vector>

#include "machine/digits.h"
#include "rewrite/rule.h"

namespace tandem::unity {

std::vector<rewrite::Rule> search_rules();

// Has either side a parallelization operator?
bool is_parallel(const rewrite::Rule& rule);
// Only fewer parallelization operators, nothing to be chosen: done wherever it can be, as Unity
// simplifies a graph after each rewrite.
bool is_simplification(const rewrite::Rule& rule);

// Numbers of devices that these digits multiply to, without 1, ascending.
std::vector<std::int64_t> degrees_on(const machine::Digits& digits, machine::DigitMask free);

}  // namespace tandem::unity
