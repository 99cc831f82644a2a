// Searches that change one variable at a time: what elimination is compared with. Neither knows how
// far it is from the minimum.
#pragma once

#include <cstdint>
#include <vector>

#include "search/solver/elimination.h"

namespace tandem::search {

// Variables that are no choices of their own: once a neighbour has changed, they take the state
// that is best then.
using Followers = std::vector<bool>;

// Every other variable in turn takes its best state, given those of the others, until none gains.
Minimum descend(const Network& network, const Followers& followers);

// FlexFlow's search (Jia et al., MLSys'19): a random variable takes a random state, and keeps it
// for sure if that gains, else with a chance that falls with what it costs. The best of all states
// seen counts. It ends when the second half of the time has brought nothing.
struct Walk {
  std::uint64_t seed = 0;
  std::size_t least_steps = 100;  // for each variable
  std::size_t most_steps = 2000;
  double warmth = 0.1;  // a loss of so much of a variable's mean cost is kept once in e times
};
Minimum walk(const Network& network, const Followers& followers, const Walk& options);

}  // namespace tandem::search
