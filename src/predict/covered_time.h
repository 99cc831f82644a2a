// Length of the union of spans on several streams.
#pragma once

#include <span>

#include "predict/simulate.h"

namespace tandem::predict {

// Returns the time of an iteration that at least one of `spans` covers. Spans of one stream come in
// order and do not overlap. A span that runs on after `iteration` covers its rest from the
// beginning of the next iteration, and so of this one. iteration 10, streams {[0, 4), [9, 11)} and
// {[2, 6)} -> 7: [0, 6) and [9, 10)
Seconds covered_time(std::span<const Span> spans, Seconds iteration);

}  // namespace tandem::predict
