// What Unity is compared with in its figure 14: TASO rewrites the network for one device, then
// FlexFlow's random walk lays it out over data, model and spatial parallelism.
#pragma once

#include "search/pool.h"
#include "search/search.h"

namespace tandem::search {

// The fastest walk that fits, of several prices of communication that may overlap; else the
// smallest. Of the options it takes neither dimensions nor how to search.
Evaluated taso_flexflow(const graph::Graph& model, const machine::Machine& machine,
                        Options options);

// Returns the layouts that FlexFlow's walks over these dimensions find for a graph. `rewritten`:
// null for the model as it is.
std::vector<Candidate> walked(CandidatePool& pool,
                              const std::shared_ptr<const Rewritten>& rewritten, Finder finder);

inline constexpr const char* kTasoFlexflow = "taso+flexflow";

}  // namespace tandem::search
