// A piece cut along its samples by rules, an operator after another: the first dimension of each
// result in so many parts, a loss in so many summands.
//
// Between an operator that is cut and one that is not a tensor is gathered. So each step towards
// data parallelism alone is slower than what comes before and after it, often by more than alpha
// allows. Searches begin with such graphs beside the piece as it is: all of it cut, and all but the
// first or the last operators, since what comes first may have tables that no device wants whole.
#pragma once

#include <functional>
#include <vector>

#include "rewrite/rule_set.h"

namespace tandem::unity {

// What is to be done to a draft after each step, adding to the steps.
using Simplify = std::function<void(rewrite::Draft&, std::vector<rewrite::Match>&)>;

// After each operator that was cut: the draft by then, and the steps to it.
using Cut = std::function<void(const rewrite::Draft&, const std::vector<rewrite::Match>&)>;

// Of a draft whose operators are undivided, from the first operator on or from the last one back.
// Operators that no rule cuts so stay as they are.
void cut_along_samples(rewrite::Draft draft, std::int64_t degree, bool backward,
                       const rewrite::RuleSet& rules, const rewrite::Dictionary& dictionary,
                       const Simplify& simplify, const Cut& cut);

}  // namespace tandem::unity
