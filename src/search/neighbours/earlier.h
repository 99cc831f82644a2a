// Rewritings that let products begin earlier: one that waits for all of a concatenation becomes
// several, each of a part of it, and while one part is still on its way the others are computed.
// What overlaps is more than the ranking of search/neighbours/rewritings.h can tell, so these are
// simulated.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "search/space/rewritten.h"

namespace tandem::search {

// One step further each from what the model was rewritten into, and one step from the model itself,
// followed by the rules of that rewriting wherever they fit: a product that was fused with what
// comes after it must be taken by itself. Null: the model as it is. By the shipped rules whose
// target has a product that needs fewer tensors than any of its kind in the source.
std::vector<std::shared_ptr<const Rewritten>> begun_earlier(
    const graph::Graph& model, const std::shared_ptr<const Rewritten>& from);

}  // namespace tandem::search
