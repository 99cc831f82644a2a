// No more memory saved than has to be: between choices that are faster and ones that fit, the first
// operators of every stage do as the latter do, the others as the former. The first: while the
// backward pass goes back to them, it frees what the others keep.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "search/contest.h"

namespace tandem::search {

// Mixes choices of one graph: the first `share` of every stage's operators as in `fits`, the others
// as in `faster`. A source is as its first reader wants it.
std::vector<plan::Choice> mixed(const graph::Graph& graph, const std::vector<plan::Choice>& faster,
                                const std::vector<plan::Choice>& fits, double share);

// Enters at most `most` candidates called `name` to find the least share that fits. `faster` needs
// more than there is; both are of one graph and one schedule.
void enter_between(Contest& contest, const std::string& name, const Entry& faster,
                   const Entry& fits, std::size_t most);

}  // namespace tandem::search
