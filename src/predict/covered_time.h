// Length of the union of spans on several streams.
#pragma once

#include <span>

#include "predict/simulate.h"

namespace tandem::predict {

// Returns the time of an iteration that at least one of `spans` covers. Spans of one stream are
// sorted and do not overlap. A span that ends after `iteration` continues at the beginning of the
// next iteration, and therefore also of this one. Example: iteration 10, streams {[0, 4), [9, 11)}
// and {[2, 6)} -> 7, namely [0, 6) and [9, 10).
Seconds covered_time(std::span<const Span> spans, Seconds iteration);

}  // namespace tandem::predict
