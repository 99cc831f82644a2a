// The baseline of Unity's figure 14: TASO rewrites the network for one device, then FlexFlow's
// random walk lays it out over data, model and spatial parallelism.
#pragma once

#include "search/pool.h"
#include "search/search.h"

namespace tandem::search {

// Returns the fastest walk that fits, over several prices of overlapped communication. If none
// fits, returns the one that needs the least memory. Ignores the dimensions of `options`.
Evaluated search_taso_flexflow(const graph::Graph& model, const machine::Machine& machine,
                               Options options);

// Returns the layouts that FlexFlow's random walks find for a graph. `rewritten`: null for the
// model itself.
std::vector<Candidate> walk_layouts(CandidatePool& pool,
                                    const std::shared_ptr<const Rewritten>& rewritten,
                                    Finder finder);

inline constexpr const char* kTasoFlexflow = "taso+flexflow";

}  // namespace tandem::search
