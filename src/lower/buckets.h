// A pass that bundles gradients of weights into shared collectives, so that many small gradients
// pay one latency.
//
// Gradients that the same devices sum by the same kind of collective go into a bucket, in the order
// in which they become ready. The bucket's collective runs once it holds Schedule::bucket bytes.
// Tasks that need one of its gradients wait until then. All buckets are sent before the updates.
//
//   backward b, all_reduce %b', backward a, all_reduce %a', update b, update a
//   backward b, backward a, all_reduce (%b', %a'), update b, update a
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Replaces the collectives of weights' gradients in `program` by one collective for each bucket.
void bucket_gradients(Program& program);

}  // namespace tandem::lower
