// A lower bound of the step times of a graph's layouts, by Lagrangian relaxation. It is the cost of
// the cheapest layouts if the streams of a device share the step.
#pragma once

#include <functional>

#include "base/units.h"
#include "search/space/finder.h"
#include "search/space/layout_network.h"
#include "search/space/segment_prices.h"

namespace tandem::search {

// Weights from 0 to 1 that give a lower bound of the step time. A device that takes part in every
// operator has a compute stream and an outer stream (predict/transitions.h). It passes the segments
// (space/precedence.h) one after the other, forward and then backward. Each segment takes at least
// its weighted sum: the compute stream's load times its weight, plus the outer stream's load times
// the rest. The step takes at least the sum over segments.
struct StreamWeights {
  struct Shares {
    double forward = 1;     // weight of the compute stream in the forward pass
    double backward = 0.5;  // in the backward pass
    bool operator==(const Shares&) const = default;
  };
  Shares chain;     // in segments of one operator
  Shares branches;  // in other segments
  // Weight of updates in the backward pass; blocking communication gets the rest. Both add to
  // compute, but they may overlap each other.
  double update = 0;
  // Part of the outer stream's weight that goes to the streams to and from roots on its level.
  double rooted = 0;

  // Returns the prices at which a layout costs that sum.
  [[nodiscard]] SegmentPrices make_prices(const LayoutNetwork& network) const;
  bool operator==(const StreamWeights&) const = default;
};

// Cost of the cheapest layouts at these weights, a lower bound for all layouts.
struct LayoutBound {
  Seconds time;
  StreamWeights weights;
};

// Returns a higher bound at other weights if there is one. Tries `hint` first: good weights of a
// similar graph. Ends once the bound is `enough` or `is_over`.
LayoutBound raise_bound(LayoutBound bound, const StreamWeights& hint, const LayoutNetwork& network,
                        const Finder& finder, Seconds enough, const std::function<bool()>& is_over);

}  // namespace tandem::search
