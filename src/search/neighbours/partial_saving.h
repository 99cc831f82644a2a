// Saves no more memory than necessary. It mixes choices that are faster with choices that fit: the
// first operators of every stage save memory, the others do not. The first operators are the ones
// to save in: when the backward pass reaches them, it has freed what the others saved for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "search/pool.h"

namespace tandem::search {

// The choices of one stage: the first `share` of its operators as in `saving`, the others as in
// `faster`.
struct StageMix {
  const std::vector<plan::Choice>* saving;
  const std::vector<plan::Choice>* faster;
  double share = 1;
};
// Returns choices mixed by stage. All of the choices are of one graph and put its nodes into the
// same stages. A source gets the choice of its first reader.
//   5 operators, share 0.5: the first 3 as in `saving`, the last 2 as in `faster`
std::vector<plan::Choice> mix_by_stage(const graph::Graph& graph,
                                       const std::vector<StageMix>& stages);

// Returns choices with the same mix in all stages: `share` of each stage as in `fits`, the rest as
// in `faster`.
std::vector<plan::Choice> mix_all_stages(const graph::Graph& graph,
                                         const std::vector<plan::Choice>& faster,
                                         const std::vector<plan::Choice>& fits, double share);

// Enters at most `most` candidates called `name` to find the least share that fits. `faster` does
// not fit in memory. Both entries are of one graph and one schedule.
void enter_between(CandidatePool& pool, const std::string& name, const EvaluatedCandidate& faster,
                   const EvaluatedCandidate& fits, std::size_t most);

}  // namespace tandem::search
