// Splits a piece along its samples by rules, one operator after another: the first dimension of
// each result into `degree` parts, a loss into as many summands.
//
// A tensor is gathered between a split operator and an unsplit one. So each single step towards
// data parallelism is slower than its start and end, often by more than alpha allows. Searches
// therefore also start from graphs with all operators split. Others exclude the first or the last
// operators, since the first ones may read embedding tables that do not fit on one device.
//
// Example: the model is linear, relu, loss. The drafts have these operators split:
//   forward   {linear}, {linear, relu}, {linear, relu, loss}
//   backward  {loss}, {relu, loss}, {linear, relu, loss}
#pragma once

#include <functional>
#include <vector>

#include "rewrite/rule_set.h"

namespace tandem::unity {

// Simplifies a draft after each step and appends the steps that did it.
using Simplify = std::function<void(rewrite::Draft&, std::vector<rewrite::Match>&)>;

// Receives the draft, and the steps to it, after each operator that was split.
using Cut = std::function<void(const rewrite::Draft&, const std::vector<rewrite::Match>&)>;

// Splits the operators of an undivided draft, from the first one on or from the last one back.
// Operators that no rule splits this way stay as they are.
void cut_along_samples(rewrite::Draft draft, std::int64_t degree, bool backward,
                       const rewrite::RuleSet& rules, const rewrite::Dictionary& dictionary,
                       const Simplify& simplify, const Cut& cut);

}  // namespace tandem::unity
