#include "search/space/layout_bound.h"

#include <algorithm>
#include <array>

#include "search/limits.h"

namespace tandem::search {

namespace {

// Weights of the compute stream and of the outer stream.
struct Stream {
  StreamWeights::Shares compute;
  StreamWeights::Shares outer;
};
predict::Prices make_stream_prices(const Stream& stream, double update, double rooted) {
  constexpr double kRootStreams = 2;  // to roots and from roots
  const auto& [compute, rest] = stream;
  const StreamWeights::Shares outer{(1 - rooted) * rest.forward, (1 - rooted) * rest.backward};
  const StreamWeights::Shares to_roots{rooted / kRootStreams * rest.forward,
                                       rooted / kRootStreams * rest.backward};
  const double blocking = (1 - update) * compute.backward;
  return {.compute = compute.backward,
          .update = update * compute.backward,
          .blocking = blocking,
          .async = 0,
          .outer = outer.backward,
          .rooted = to_roots.backward,
          .forward = {.compute = compute.forward - compute.backward,
                      .blocking = compute.forward - blocking,
                      .outer = outer.forward - outer.backward,
                      .rooted = to_roots.forward - to_roots.backward}};
}

Stream make_stream(const StreamWeights::Shares& compute) {
  return {compute, {1 - compute.forward, 1 - compute.backward}};
}

StreamWeights::Shares take_lesser_shares(const StreamWeights::Shares& a,
                                         const StreamWeights::Shares& b) {
  return {std::min(a.forward, b.forward), std::min(a.backward, b.backward)};
}

void move_share(double& share, double by) { share = std::clamp(share + by, 0.0, 1.0); }

// Weights of both kinds of segments also move together, since operations of any segment count with
// the smaller one.
constexpr std::array<void (*)(StreamWeights&, double), 8> kWeightMoves = {
    [](StreamWeights& w, double by) {
      move_share(w.chain.backward, by);
      move_share(w.branches.backward, by);
    },
    [](StreamWeights& w, double by) {
      move_share(w.chain.forward, by);
      move_share(w.branches.forward, by);
    },
    [](StreamWeights& w, double by) { move_share(w.branches.backward, by); },
    [](StreamWeights& w, double by) { move_share(w.branches.forward, by); },
    [](StreamWeights& w, double by) { move_share(w.chain.backward, by); },
    [](StreamWeights& w, double by) { move_share(w.chain.forward, by); },
    [](StreamWeights& w, double by) { move_share(w.update, by); },
    [](StreamWeights& w, double by) { move_share(w.rooted, by); },
};

}  // namespace

// Operations that may be in any segment count with the smallest weight.
SegmentPrices StreamWeights::make_prices(const LayoutNetwork& network) const {
  const auto in_chain = make_stream(network.has(Segment::kChain) ? chain : branches);
  const auto in_branches = make_stream(network.has(Segment::kBranches) ? branches : chain);
  const Stream anytime{take_lesser_shares(in_chain.compute, in_branches.compute),
                       take_lesser_shares(in_chain.outer, in_branches.outer)};
  const auto at = [&](const Stream& stream) { return make_stream_prices(stream, update, rooted); };
  return SegmentPrices({at(in_chain), at(in_branches), at(anytime)});
}

// A device that takes part in every operator is busy on its compute stream and its outer stream. A
// segment begins only after the one before has ended. In each segment the two streams get weights
// that sum to 1. No step takes less than the weighted sum, so the cheapest layouts at these prices
// are a lower bound (Lagrangian relaxation). The bound is concave in the weights; each weight is
// moved as long as that raises it. Example: with 4 ms of compute and 6 ms of overlapped
// communication, weights of 1/2 give 5 ms, and weights of 0 and 1 give 6 ms.
LayoutBound raise_bound(LayoutBound bound, const StreamWeights& hint, const LayoutNetwork& network,
                        const Finder& finder, Seconds enough,
                        const std::function<bool()>& is_over) {
  if (!network.has_two_phases()) return bound;
  const auto try_weights = [&](const StreamWeights& weights) {
    const auto solution = network.solve(weights.make_prices(network), finder);
    if (!solution.exact || Seconds{solution.cost} <= bound.time) return false;
    bound = {Seconds{solution.cost}, weights};
    return true;
  };
  const auto ends = [&] { return bound.time >= enough || is_over(); };
  if (ends()) return bound;
  try_weights(hint);
  double step = limits::kFirstWeightStep;
  while (step >= limits::kLastWeightStep) {
    const auto before = bound.time;
    for (const auto& move : kWeightMoves) {
      for (const auto by : {-step, step}) {
        auto next = bound.weights;
        move(next, by);
        if (ends()) return bound;
        if (next != bound.weights && try_weights(next)) break;
      }
    }
    if (bound.time < limits::kWeightsGain * before) step /= 2;
  }
  return bound;
}

}  // namespace tandem::search
