// No more memory saved than has to be: between choices that are faster and ones that fit, the first
// operators of every stage do as the latter do, the others as the former. The first: while the
// backward pass goes back to them, it frees what the others keep.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "search/pool.h"

namespace tandem::search {

// The choices of a stage: the first `share` of its operators as in `saving`, the others as in
// `faster`.
struct StageMix {
  const std::vector<plan::Choice>* saving;
  const std::vector<plan::Choice>* faster;
  double share = 1;
};
// Mixes choices of one graph by stage. All put its nodes into the same stages. A source is as its
// first reader wants it.
std::vector<plan::Choice> mix_by_stage(const graph::Graph& graph,
                                       const std::vector<StageMix>& stages);

// Mixes all stages alike: `share` of each as in `fits`, the rest as in `faster`.
std::vector<plan::Choice> mixed(const graph::Graph& graph, const std::vector<plan::Choice>& faster,
                                const std::vector<plan::Choice>& fits, double share);

// Enters at most `most` candidates called `name` to find the least share that fits. `faster` needs
// more than there is; both are of one graph and one schedule.
void enter_between(CandidatePool& pool, const std::string& name, const Entry& faster,
                   const Entry& fits, std::size_t most);

}  // namespace tandem::search
