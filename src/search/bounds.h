// Lower bounds of step times, and the choice of the one that a search reports.
#pragma once

#include <string>
#include <vector>

#include "search/search.h"

namespace tandem::search {

class CandidatePool;

// A lower bound of the step times of all candidates in a scope.
struct Bound {
  Seconds time;
  std::string scope;      // "strategies of the grid that fit"
  bool has_plan = false;  // Whether the scope includes the plan
};

// Returns the largest bound that is no larger than `fastest`, the step time of the fastest
// candidate that fits. A larger bound proves nothing here: a candidate outside its scope may be
// faster than it. If the scope includes the plan, the bound is capped at `fastest` first.
//   bounds of 8 and 12 ms, fastest 10 ms -> 8 ms; if the scope of the second has the plan -> 10 ms
std::optional<Bound> find_largest_bound(const std::vector<Bound>& bounds, Seconds fastest);

// Returns a lower bound of the time that all devices together need to compute the graph's
// operators. Each operator counts with its time for the whole batch on the fastest kind of device.
// The sum is divided by the compute speed of all devices. The bound holds for every layout,
// pipeline and micro-batch size.
//   operators of 12 s in all on 2 new devices and 2 that are half as fast: 12 s / (2 + 1) = 4 s
Seconds bound_compute_time(const graph::Graph& graph, const machine::Machine& machine,
                           const Options& options);

// Writes the largest of `bounds` and the pool's compute bound into the pool's result, if it has a
// plan.
void record_largest_bound(CandidatePool& pool, std::vector<Bound> bounds);

// Aborts if a value is below its bound and TANDEM_CHECK_BOUNDS is set, as in all tests. Such a
// bound is a bug in Tandem. Without the variable, that bound is simply not reported to the user.
void check_bound(Seconds time, Seconds bound, const std::string& of);
void check_bound(Bytes memory, Bytes bound, const std::string& of);

}  // namespace tandem::search
