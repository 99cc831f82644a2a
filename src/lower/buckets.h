// A pass: gradients of weights share collectives, so that many small ones pay one latency.
//
// Gradients that the same devices sum by the same kind of collective go into a bucket in the order
// in which they become ready. Once it holds Schedule::bucket bytes its collective runs; what needs
// one of its gradients waits until then. No bucket outlives the backward pass.
//
//   backward b, all_reduce %b', backward a, all_reduce %a', update b, update a
//   backward b, backward a, all_reduce (%b', %a'), update b, update a
#pragma once

#include "lower/program.h"

namespace tandem::lower {

void put_gradients_in_buckets(Program& program);

}  // namespace tandem::lower
