// Rewrites that let matmuls start earlier. A matmul that waits for a whole concatenation becomes
// several matmuls, each on a part of it. While one part is still being sent, the others are
// computed. The ranking of search/neighbours/rewrite_ranking.h does not see this overlap, so these
// rewrites are simulated.
//
// Example: x is [8, 3], y is [8, 5] and w is [4, 8].
//   linear(concat(x, y, axis=1), w)
//   add(linear(x, columns 0-2 of w), linear(y, columns 3-7 of w))
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "search/space/rewritten.h"

namespace tandem::search {

// Returns graphs that are one rewrite step beyond `from`, and graphs that are one step from
// `model`. `from` is null if the model was not rewritten. The graphs of the model then get the
// rules of `from` wherever they fit: a matmul has to be divided before it is fused with its reader.
// Uses the shipped rules whose target has a matmul that needs fewer tensors than any of its kind in
// the source.
std::vector<std::shared_ptr<const Rewritten>> list_matmul_splits(
    const graph::Graph& model, const std::shared_ptr<const Rewritten>& from);

}  // namespace tandem::search
