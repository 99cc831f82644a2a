// Lower bounds of step times, and which of them is told of a search.
#pragma once

#include <string>
#include <vector>

#include "search/search.h"

namespace tandem::search {

class CandidatePool;

// What no candidate of a scope is faster than.
struct Bound {
  Seconds time;
  std::string scope;      // "strategies of the grid that fit"
  bool has_plan = false;  // Is the plan one of the scope?
};

// Returns the largest bound that is no larger than `fastest`, the step time of the fastest
// candidate that fits: a candidate outside a bound's scope may be faster than the bound. Of a scope
// that has the plan the bound is `fastest` at the most.
std::optional<Bound> largest_bound(const std::vector<Bound>& bounds, Seconds fastest);

// Returns what the operators of the graph compute at least, shared by all devices: the compute of
// the whole batch on one device, of the kind that is fastest for the operator, by what all devices
// compute together. It holds for every layout, pipeline and micro-batch size.
Seconds compute_bound(const graph::Graph& graph, const machine::Machine& machine,
                      const Options& options);

// Puts the largest of `bounds` and of the pool's compute bound into its result, if it has a
// plan.
void tell_bound(CandidatePool& pool, std::vector<Bound> bounds);

// Aborts where what something takes is below its bound and TANDEM_CHECK_BOUNDS is set, as in all
// tests. A bound that something of its scope is faster than is our mistake; a user is told no such
// bound instead.
void check_bound(Seconds time, Seconds bound, const std::string& of);
void check_bound(Bytes memory, Bytes bound, const std::string& of);

}  // namespace tandem::search
