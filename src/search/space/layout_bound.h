// A lower bound of the step times of a graph's layouts, by Lagrangian relaxation: the cheapest
// layouts where the streams of a device share the step among them.
#pragma once

#include <functional>

#include "base/units.h"
#include "search/space/finder.h"
#include "search/space/layout_network.h"
#include "search/space/segment_prices.h"

namespace tandem::search {

// Shares, from 0 to 1, that make a lower bound of a step's time. A device that takes part in
// everything is busy on its compute stream and on its outer stream (predict/transitions.h), and
// passes one segment after the other (space/precedence.h), forward and then backward. So the step
// takes no less than the shares' sum: in each segment the load of the compute stream by its share,
// that of the outer stream by the rest.
struct StreamWeights {
  struct Shares {
    double forward = 1;     // of the compute stream in the forward pass
    double backward = 0.5;  // and in the backward pass
    bool operator==(const Shares&) const = default;
  };
  Shares chain;     // in segments of one operator
  Shares branches;  // in others
  // Communication that nothing overlaps adds to compute, and so do updates, but these two may
  // overlap each other: in the backward pass updates add by this share, the former by the rest.
  double update = 0;
  // The part of the outer stream's rest that belongs to the streams of its level to and from roots.
  double rooted = 0;

  // The prices at which a layout costs that sum.
  [[nodiscard]] SegmentPrices prices(const LayoutNetwork& network) const;
  bool operator==(const StreamWeights&) const = default;
};

// What the cheapest layouts cost at these weights: none takes less.
struct LayoutBound {
  Seconds time;
  StreamWeights weights;
};

// Returns a higher bound of other weights, if there is one, and begins with `hint`: good weights of
// a similar graph. It ends once the bound is `enough` or `is_over`.
LayoutBound raise(LayoutBound bound, const StreamWeights& hint, const LayoutNetwork& network,
                  const Finder& finder, Seconds enough, const std::function<bool()>& is_over);

}  // namespace tandem::search
