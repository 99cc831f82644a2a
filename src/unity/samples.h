// A piece cut along its samples by rules, an operator after another: the first dimension of each
// result in so many parts, a loss in so many summands.
//
// Between an operator that is cut and one that is not a tensor is gathered. So each step towards
// data parallelism alone is slower than what comes before and after it, often by more than alpha
// allows. Searches begin with such graphs beside the piece as it is.
#pragma once

#include <functional>
#include <vector>

#include "rewrite/rule_set.h"

namespace tandem::unity {

// What is to be done to a draft after each step, adding to the steps.
using Simplify = std::function<void(rewrite::Draft&, std::vector<rewrite::Match>&)>;

// Of a draft whose operators are undivided. Operators that no rule cuts so stay as they are.
rewrite::Draft cut_along_samples(rewrite::Draft draft, std::int64_t degree,
                                 const rewrite::RuleSet& rules,
                                 const rewrite::Dictionary& dictionary, const Simplify& simplify,
                                 std::vector<rewrite::Match>& steps);

}  // namespace tandem::unity
